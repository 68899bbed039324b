# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests before and after a chart, and instead of one, on a real control plane with a real Helm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.kinds import (
    CONFIG_MAPS,
    CRDS,
    DAEMON_SETS,
    NAMESPACES,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.drift import with_drift
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.holdings import holdings_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Installer, Limits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    Plan,
    components_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import installed, read_workloads
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.removal import Removal, plan_removal
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.remove import Gone, Remover
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.charts.mirror import build_mirror
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.lifecycle.bring_up import bring_up
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.lifecycle.request import RehearsalRequest
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.lifecycle.starter import stop
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.spec import numbered_nodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.toolchain.store import default_cache
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent

TUNINGS = Kind("bringup.example/v1", "Tuning", "tunings")
# What nobody removes: it ends by itself, or belongs to the nodes and the cluster, as the hosts that KWOK runs do.
PASSING = ("events", "leases", "endpoints", "endpointslices", "nodes", "csinodes", "componentstatuses", "clusterexecs")
CHART = {"name": "cert-manager", "namespace": "cert-manager", "chart": "cert-manager", "version": "v1.17.2"}
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{say: {say}}}\n"
DEFINITION = """---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tunings.bringup.example}
spec:
  group: bringup.example
  names: {kind: Tuning, plural: tunings}
  scope: Namespaced
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: bringup.example/v1
kind: Tuning
metadata: {name: nodes}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: tuner, namespace: tuning-pods}
spec:
  selector: {matchLabels: {app: tuner}}
  template:
    metadata: {labels: {app: tuner}}
    spec: {containers: [{name: tuner, image: "registry.example/tuner:1"}], tolerations: [{operator: Exists}]}
"""


def file(when: str, name: str, text: str) -> dict[str, str]:
    """Return one manifest file of a hydrated recipe."""
    return {"when": when, "file": name, "text": text}


def recipe(say: str = "hello", tuning: str = DEFINITION) -> dict[str, Any]:
    """Return a recipe: a chart with a manifest before and one after it, and a component that is only manifests."""
    with_chart = {
        **CHART,
        "preManifestFiles": ["before.yaml"],
        "manifestFiles": ["after.yaml"],
        "manifests": [
            file("before", "before.yaml", MAP.format(name="first", say=say)),
            file("after", "after.yaml", MAP.format(name="last", say=say)),
        ],
    }
    only = {"name": "tuning", "namespace": "tuning", "source": "", "manifestFiles": ["tuning.yaml"]}
    only["dependencyRefs"] = ["cert-manager"]  # type: ignore[assignment]
    only["manifests"] = [file("after", "tuning.yaml", tuning)]  # type: ignore[assignment]
    return {"componentRefs": [with_chart, only], "deploymentOrder": ["cert-manager", "tuning"]}


@dataclass
class Bench:
    """A rehearsal cluster and what the installer needs."""

    helm: Helm
    cluster: Cluster
    mirror: Path
    before: frozenset[str]

    def objects(self) -> frozenset[str]:
        """What of every kind there is, but for what comes and goes by itself."""
        ask = self.cluster.transport.json
        groups = [f"/apis/{entry['preferredVersion']['groupVersion']}" for entry in ask("GET", "/apis")["groups"]]
        found: set[str] = set()
        for root in ("/api/v1", *groups):
            for entry in ask("GET", root)["resources"]:
                if "list" in entry["verbs"] and entry["name"] not in PASSING:
                    kind = Kind(root.split("/", 2)[2], entry["kind"], entry["name"], entry["namespaced"])
                    metadata = self.cluster.list_metadata(kind)
                    found |= {f"{kind.title} {item.get('namespace', '')}/{item['name']}" for item in metadata}
        return frozenset(found)

    def removals(self, wanted: dict[str, Any], *, crds: bool) -> tuple[Removal, ...]:
        components = components_of(wanted)
        found = installed(self.helm, self.cluster, components)
        have = holdings_of(self.helm, self.cluster, components, found, mirror=str(self.mirror), remove_crds=crds)
        return plan_removal(components, found, have, remove_crds=crds)

    def remove(
        self, wanted: dict[str, Any], *namespaces: str, crds: bool = False, drain_s: float = 60.0
    ) -> dict[str, Gone]:
        done = Remover(self.helm, self.cluster, drain_s=drain_s).run(self.removals(wanted, crds=crds), namespaces)
        return {entry.component: entry for entry in done}

    def plan(self, wanted: dict[str, Any], **more: Any) -> Plan:
        components = components_of(wanted)
        found = with_drift(self.helm, self.cluster, components, installed(self.helm, self.cluster, components))
        return make_plan(components, found, **more)

    def actions(self, wanted: dict[str, Any], **more: Any) -> list[str]:
        return [step.action.value for step in self.plan(wanted, **more).steps]

    def installer(self) -> Installer:
        return Installer(self.helm, self.cluster, str(self.mirror), Limits(ready_s=60, pull_grace_s=5))

    def install(self, wanted: dict[str, Any], **more: Any) -> dict[str, str]:
        done = self.installer().run(self.plan(wanted, **more), components_of(wanted))
        return {
            entry.component: entry.state if entry.state == "ready" else f"{entry.state}: {entry.reason}"
            for entry in done
        }

    def write(self, manager: str, kind: Kind, name: str, namespace: str, body: Any) -> None:
        """Change an object as somebody else."""
        patch = "json-patch" if isinstance(body, list) else "merge-patch"
        self.cluster.transport.json(
            "PATCH", kind.path(name, namespace), query={"fieldManager": manager}, body=body,
            content_type=f"application/{patch}+json",
        )  # fmt: skip

    def said(self, name: str) -> str:
        found = self.cluster.find(CONFIG_MAPS, name, "cert-manager")
        return str(found["data"].get("say", "")) if found else ""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("manifests")
    request = RehearsalRequest(
        directory=directory / "rehearsal", cache=default_cache(os.environ), collection=repository,
        nodes=numbered_nodes(2, "dgx-h100"),
    )  # fmt: skip
    build_mirror(directory / "mirror", [CHART])
    up = bring_up(request, Progress(silent))
    try:
        connection = Connection(kubeconfig=str(up.kubeconfig))
        with Cluster(connection) as cluster:
            made = Bench(Helm(connection, binary=up.programs["helm"]), cluster, directory / "mirror", frozenset())
            made.before = made.objects()
            yield made
    finally:
        stop(request.directory)


def test_the_whole_life_of_manifests(bench: Bench) -> None:
    wanted = recipe()
    checked = bench.installer().preview(bench.plan(wanted), components_of(wanted))
    assert checked["tuning"] == "predicted", "its namespace and its CRD are not there yet"
    assert bench.cluster.find(NAMESPACES, "tuning") is None, "a preview makes nothing"
    assert bench.actions(wanted) == ["install", "install"]

    assert bench.install(wanted) == {"cert-manager": "ready", "tuning": "ready"}
    assert (bench.said("first"), bench.said("last")) == ("hello", "hello")
    first, last = (bench.cluster.get(CONFIG_MAPS, name, "cert-manager")["metadata"] for name in ("first", "last"))
    assert first["creationTimestamp"] <= last["creationTimestamp"]
    assert first["labels"][MANAGED_BY_LABEL] == MANAGED_BY
    tuning = bench.cluster.kind("bringup.example/v1", "Tuning")
    assert bench.cluster.find(tuning, "nodes", "tuning") is not None
    (tuner,) = read_workloads(bench.cluster, ["tuning-pods"], 5)
    assert (tuner.release, tuner.state, tuner.desired) == ("tuning/tuning", "ready", 2)
    assert bench.actions(wanted) == ["unchanged", "unchanged"]


def test_another_content_is_applied_and_a_preview_is_not(bench: Bench) -> None:
    wanted = recipe(say="again")
    bench.install(recipe())
    assert bench.actions(wanted) == ["upgrade", "unchanged"]
    assert bench.installer().preview(bench.plan(wanted), components_of(wanted)) == {"cert-manager": "server"}
    assert bench.said("last") == "hello"
    assert bench.install(wanted)["cert-manager"] == "ready"
    assert (bench.said("first"), bench.said("last")) == ("again", "again")


def test_what_is_no_longer_in_the_recipe_stays(bench: Bench) -> None:
    bench.install(recipe())
    wanted = recipe()
    wanted["componentRefs"][0] = {**CHART}
    assert bench.install(wanted)["cert-manager"] == "ready"
    assert bench.said("last") == "hello"


def test_an_object_that_was_taken_away_is_put_back(bench: Bench) -> None:
    wanted = recipe()
    bench.install(wanted)
    bench.cluster.delete(CONFIG_MAPS, "last", "cert-manager")
    plan = bench.plan(wanted)
    assert (plan.step("cert-manager").action.value, plan.step("cert-manager").reason) == (
        "upgrade", "the release is incomplete",
    )  # fmt: skip
    bench.install(wanted)
    assert bench.said("last") == "hello"


def test_what_was_changed_or_taken_away_by_hand_is_found_and_put_back(bench: Bench) -> None:
    wanted = recipe()
    bench.install(wanted)
    assert bench.actions(wanted) == ["unchanged", "unchanged"], "defaults of the server are no change"
    bench.write("kubectl-edit", CONFIG_MAPS, "last", "cert-manager", {"data": {"say": "other"}})
    bench.write("kubectl-patch", CONFIG_MAPS, "first", "cert-manager", {"data": {"say": None}})
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "tuner:2"}]
    bench.write("kubectl-set", DAEMON_SETS, "tuner", "tuning-pods", image)
    assert [step.reason for step in bench.plan(wanted).steps] == [
        "changed by hand: ConfigMap first data.say, ConfigMap last data.say",
        "changed by hand: DaemonSet tuning-pods/tuner spec.template.spec.containers[tuner].image",
    ]
    assert bench.install(wanted) == {"cert-manager": "ready", "tuning": "ready"}
    assert (bench.said("first"), bench.said("last")) == ("hello", "hello")
    assert bench.actions(wanted) == ["unchanged", "unchanged"]


def test_what_controllers_write_is_theirs(bench: Bench) -> None:
    wanted = recipe()
    bench.install(wanted)
    bench.write("some-operator", CONFIG_MAPS, "last", "cert-manager", {"data": {"say": "tuned", "more": "x"}})
    bench.write("kubectl-annotate", CONFIG_MAPS, "first", "cert-manager", {"metadata": {"annotations": {"note": "x"}}})
    assert bench.actions(wanted) == ["unchanged", "unchanged"]
    assert bench.said("last") == "tuned"


def test_an_object_of_somebody_else_is_left_alone_until_it_is_adopted(bench: Bench) -> None:
    wanted = recipe()
    bench.install(wanted)
    bench.cluster.delete(CONFIG_MAPS, "last", "cert-manager")
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last"}, "data": {"say": "mine"}}
    bench.cluster.create(CONFIG_MAPS, foreign, "cert-manager")
    step = bench.plan(wanted).step("cert-manager")
    assert step.action.value == "unchanged"
    assert "ConfigMap last was made by somebody else and is left alone" in step.reason
    bench.install(wanted)
    assert bench.said("last") == "mine"
    assert bench.actions(wanted, policies={"cert-manager": "adopt"}) == ["adopt", "unchanged"]
    assert bench.install(wanted, policies={"cert-manager": "adopt"})["cert-manager"] == "ready"
    assert bench.said("last") == "hello"
    assert bench.actions(wanted) == ["unchanged", "unchanged"]


def test_a_manifest_that_the_server_refuses_fails_its_component(bench: Bench) -> None:
    wrong = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong}\ndta: {a: b}\n"
    found = bench.install(recipe(tuning=wrong))
    assert found["cert-manager"] == "ready"
    assert found["tuning"].startswith("failed")
    assert "dta" in found["tuning"]


def test_removal_names_what_holds_it_and_leaves_nothing_of_ours(bench: Bench) -> None:
    wanted = recipe()
    bench.install(wanted)
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {}}
    bench.cluster.create(CONFIG_MAPS, mine, "default")
    held = {"metadata": {"finalizers": ["bringup.example/held"]}}
    bench.cluster.patch(TUNINGS, "nodes", held, "tuning")
    shown = bench.removals(wanted, crds=False)
    assert [(entry.component, entry.action) for entry in shown] == [("tuning", "remove"), ("cert-manager", "remove")]
    assert bench.actions(wanted) == ["unchanged", "unchanged"], "a plan removes nothing"

    gone = bench.remove(wanted, drain_s=3.0)
    assert (gone["tuning"].state, gone["cert-manager"].state) == ("blocked", "waiting")
    assert "Tuning tuning/nodes is still there" in gone["tuning"].reason
    assert "finalizers: bringup.example/held" in gone["tuning"].reason
    assert "kubectl patch tunings.bringup.example nodes -n tuning" in gone["tuning"].hint
    assert "cert-manager/cert-manager" in bench.helm.releases()

    bench.cluster.patch(TUNINGS, "nodes", {"metadata": {"finalizers": None}}, "tuning")
    assert {entry.state for entry in bench.remove(wanted).values()} == {"removed"}
    assert bench.cluster.find(CRDS, "tunings.bringup.example") is not None, "definitions stay"
    assert bench.cluster.find(NAMESPACES, "tuning") is not None, "namespaces stay"
    assert {entry.action for entry in bench.removals(wanted, crds=False)} == {"absent"}

    namespaces = ("cert-manager", "tuning", "tuning-pods")
    gone = bench.remove(wanted, *namespaces, crds=True)
    assert {name: gone[f"namespace {name}"].state for name in namespaces} == dict.fromkeys(namespaces, "removed")
    eventually(lambda: bench.objects() ^ bench.before == {"configmaps default/mine"})
