# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of others that go with a component: all that are there and no others; what may not be read is said."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.holdings import at_risk
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.owners import marks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.transitions import AtRisk
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError, UnavailableError

NODE_SETS, POLICIES = "nodesets.slinky.slurm.net", "clusterpolicies.nvidia.com"
DEFINITION = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
RELEASES = {"slinky-slurm-operator-crds": "slinky/crds", "slinky-slurm": "slurm/slurm"}


def metadata(name: str, namespace: str = "", release: str = "", made: bool = False) -> dict[str, Any]:
    """The metadata of an object as the server lists it."""
    space, _slash, of = release.partition("/")
    marked = {"meta.helm.sh/release-name": of, "meta.helm.sh/release-namespace": space} if release else {}
    owners = [{"kind": "Controller", "name": "x", "controller": True}] if made else []
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "annotations": marked, "ownerReferences": owners}


class _Helm:
    def __init__(self, **manifests: Any) -> None:
        self.manifests = manifests

    def manifest(self, name: str, _namespace: str) -> str:
        found = self.manifests.get(name, "")
        if isinstance(found, Exception):
            raise found
        return str(found)


class _Cluster:
    """Serves versions of groups and lists kinds by `plural.group/version`."""

    def __init__(self, lists: dict[str, Any]) -> None:
        self.lists = lists

    def served_versions(self, group: str) -> tuple[str, ...]:
        places = [place for place in self.lists if f".{group}/" in place]
        return tuple(dict.fromkeys(place.rpartition("/")[2] for place in places))

    def list_metadata(self, kind: Kind) -> list[dict[str, Any]]:
        found = self.lists.get(f"{kind.title}/{kind.api_version.rpartition('/')[2]}")
        if found is None:
            raise NotFoundError("Kubernetes API", "not found.")
        if isinstance(found, Exception):
            raise found
        return list(found)


def asked(lists: dict[str, Any], going: dict[str, str] | None = None, **manifests: Any) -> dict[str, AtRisk]:
    crds = json.dumps({**DEFINITION, "metadata": {"name": NODE_SETS}})
    helm = _Helm(**{"crds": crds, **manifests})
    return at_risk(cast(Helm, helm), cast(Cluster, _Cluster(lists)), RELEASES if going is None else going)


def test_objects_of_others_are_named_and_those_that_go_as_well_or_were_made_are_not() -> None:
    found = asked({f"{NODE_SETS}/v1beta1": [
        metadata("gpu", "slurm", "slurm/slurm"), metadata("own", "team-b"), metadata("more", "team-a", "team-a/slurm"),
        metadata("made", "team-a", made=True),
    ]})["slinky-slurm-operator-crds"]  # fmt: skip
    assert found == AtRisk(objects={NODE_SETS: ("team-a/more", "team-b/own")})
    # The release that stays loses its objects, too.
    only = {"slinky-slurm-operator-crds": "slinky/crds"}
    found = asked({f"{NODE_SETS}/v1beta1": [metadata("gpu", "slurm", "slurm/slurm")]}, only)[
        "slinky-slurm-operator-crds"
    ]
    assert found.objects == {NODE_SETS: ("slurm/gpu",)}


def test_none_is_said_of_the_definitions_that_were_looked_at() -> None:
    for lists in ({f"{NODE_SETS}/v1beta1": []}, {}, {"controllers.slinky.slurm.net/v1beta1": []}):
        assert asked(lists)["slinky-slurm-operator-crds"] == AtRisk(objects={NODE_SETS: ()})


def test_the_version_that_serves_the_kind_is_asked() -> None:
    found = asked({"controllers.slinky.slurm.net/v1": [], f"{NODE_SETS}/v1alpha1": [metadata("a", "b")]})
    assert found["slinky-slurm-operator-crds"].objects == {NODE_SETS: ("b/a",)}


def test_definitions_that_are_recorded_count_without_a_release_that_names_them() -> None:
    lists = {f"{POLICIES}/v1": [metadata("mine")]}
    known = dict.fromkeys(marks().components["gpu-operator"].crds, ())
    found = asked(lists, {"gpu-operator": "gpu-operator/gpu-operator"})["gpu-operator"]
    assert found == AtRisk(objects={**known, POLICIES: ("mine",)})
    assert asked({}, {"slinky-slurm": "slurm/slurm"})["slinky-slurm"] == AtRisk(
        unknown="which definitions it has is not recorded, and its release brings none"
    )


@pytest.mark.parametrize("where", ["objects", "release"])
def test_what_may_not_be_read_is_not_known_and_never_none(where: str) -> None:
    refused = ForbiddenError("Kubernetes API list nodesets.slinky.slurm.net", "forbidden.")
    if where == "objects":
        found = asked({f"{NODE_SETS}/v1beta1": refused})["slinky-slurm-operator-crds"]
        assert found == AtRisk(unknown="Kubernetes API list nodesets.slinky.slurm.net: forbidden")
        return
    broken = UnavailableError("helm get manifest crds", "secrets is forbidden.")
    found = asked({f"{NODE_SETS}/v1beta1": [metadata("a", "b")]}, crds=broken)["slinky-slurm-operator-crds"]
    assert found.objects == {} and found.unknown.startswith("helm get manifest crds: secrets is forbidden")
    # What is recorded is looked at all the same.
    lists, going = {f"{POLICIES}/v1": [metadata("mine")]}, {"gpu-operator": "ns/gpu-operator"}
    found = asked(lists, going, **{"gpu-operator": broken})["gpu-operator"]
    assert found.objects[POLICIES] == ("mine",) and "secrets is forbidden" in found.unknown


def test_what_a_component_makes_by_itself_is_nobody_elses() -> None:
    """Volcano makes two queues as it starts; a queue of a team is at risk, whatever it is called elsewhere."""
    queues, groups = "queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh"
    lists = {
        f"{queues}/v1beta1": [metadata("default"), metadata("root"), metadata("team-a")],
        f"{groups}/v1beta1": [metadata("default", "team-a")],
    }
    found = asked(lists, {"volcano": "volcano-system/volcano"})["volcano"]
    assert found == AtRisk(objects={queues: ("team-a",), groups: ("team-a/default",)})
