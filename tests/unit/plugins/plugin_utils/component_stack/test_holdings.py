# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose the objects of a definition are that helm would take away: those of another release of ours go with that.

The command `remove` of docs/gpu_stack.md refused prometheus-operator-crds on every healthy rehearsal: Alertmanager,
Prometheus, rules and monitors of kube-prometheus-stack, which it removes as well, counted as objects of others.
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm, Release
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import CRDS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.holdings import holdings_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.installation import Installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    Component,
)

ALERTMANAGERS = "alertmanagers.monitoring.coreos.com"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": ALERTMANAGERS, "annotations": {
        "meta.helm.sh/release-name": "crds", "meta.helm.sh/release-namespace": "monitoring",
    }},
    "spec": {
        "group": "monitoring.coreos.com", "scope": "Namespaced",
        "names": {"kind": "Alertmanager", "plural": "alertmanagers"}, "versions": [{"name": "v1", "storage": True}],
    },
}  # fmt: skip


class _Helm:
    def manifest(self, name: str, _namespace: str) -> str:
        return json.dumps(DEFINITION) if name == "crds" else ""


class _Cluster:
    def __init__(self, release: str) -> None:
        self.release = release

    def list_metadata(self, kind: Kind) -> list[dict[str, Any]]:
        if kind == CRDS:
            return [{"name": ALERTMANAGERS}]
        namespace, _slash, name = self.release.partition("/")
        marks = {"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace}
        return [{"name": "main", "namespace": namespace, "annotations": marks}]

    def find(self, _kind: Kind, _name: str) -> dict[str, Any]:
        return DEFINITION


@pytest.mark.parametrize(
    ("release", "status", "ours", "strangers"),
    [
        ("monitoring/stack", "deployed", True, 0),
        ("monitoring/stack", "deployed", False, 1),
        # Another helm works on it, so it stays.
        ("monitoring/stack", "pending-upgrade", True, 1),
        ("team-a/own", "deployed", True, 1),
    ],
)
def test_objects_of_another_release_of_ours_are_not_those_of_others(
    release: str, status: str, ours: bool, strangers: int
) -> None:
    names = ("crds", "stack")
    components = [Component(name=n, namespace="monitoring", chart=n, version="1.0.0", source="") for n in names]
    releases = {f"monitoring/{n}": Release(n, "monitoring", 1, "deployed", n, "1.0.0") for n in names}
    releases["monitoring/stack"] = Release("stack", "monitoring", 1, status, "stack", "1.0.0")
    managed = {MANAGED_BY_LABEL: MANAGED_BY}
    labels = {"monitoring/crds": managed, "monitoring/stack": managed if ours else {}}
    found = holdings_of(
        cast(Helm, _Helm()), cast(Cluster, _Cluster(release)), components, Installed(releases=releases, labels=labels)
    )
    assert found["crds"].crds == (ALERTMANAGERS,)
    assert found["crds"].strangers == {ALERTMANAGERS: strangers}


def test_objects_that_a_component_makes_by_itself_are_not_those_of_others() -> None:
    """Volcano makes its queues `default` and `root` anew whenever it starts."""
    queues = "queues.scheduling.volcano.sh"
    definition = {
        **DEFINITION, "metadata": {"name": queues, "annotations": {
            "meta.helm.sh/release-name": "volcano", "meta.helm.sh/release-namespace": "volcano-system",
        }},
        "spec": {
            "group": "scheduling.volcano.sh", "scope": "Cluster", "names": {"kind": "Queue", "plural": "queues"},
            "versions": [{"name": "v1beta1", "storage": True}],
        },
    }  # fmt: skip

    class Volcano:
        def manifest(self, _name: str, _namespace: str) -> str:
            return json.dumps(definition)

        def list_metadata(self, kind: Kind) -> list[dict[str, Any]]:
            return [{"name": name} for name in ((queues,) if kind == CRDS else ("default", "root", "team-a"))]

        def find(self, _kind: Kind, _name: str) -> dict[str, Any]:
            return definition

    component = Component(name="volcano", namespace="volcano-system", chart="volcano", version="1.0.0", source="")
    release = Release("volcano", "volcano-system", 1, "deployed", "volcano", "1.0.0")
    installed = Installed(
        releases={component.release: release}, labels={component.release: {MANAGED_BY_LABEL: MANAGED_BY}}
    )
    found = holdings_of(cast(Helm, Volcano()), cast(Cluster, Volcano()), [component], installed)
    assert found["volcano"].strangers == {queues: 1}


@pytest.mark.parametrize(("asked", "others", "goes"), [(True, False, True), (False, False, False), (True, True, False)])
def test_definitions_that_an_earlier_removal_left_go_when_they_are_asked_for(
    asked: bool, others: bool, goes: bool
) -> None:
    class Without(_Helm):
        def crds(self, _request: Any, _version: str) -> str:
            return ""

    class Left(_Cluster):
        def list_metadata(self, kind: Kind) -> list[dict[str, Any]]:
            if kind == CRDS:
                return [cast(dict[str, Any], DEFINITION["metadata"])]
            return super().list_metadata(kind) if others else []

        def version(self) -> str:
            return "v1.36.0"

    component = Component(name="crds", namespace="monitoring", chart="crds", version="1.0.0", source="oci://a.example")
    found = holdings_of(
        cast(Helm, Without()), cast(Cluster, Left("team-a/own")), [component], Installed(releases={}, labels={}),
        remove_crds=asked,
    )  # fmt: skip
    assert found["crds"].crds == ((ALERTMANAGERS,) if goes else ())
