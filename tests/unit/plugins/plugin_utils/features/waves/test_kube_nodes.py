# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cordons of Kubernetes where somebody else writes between our look and our update: what is theirs stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lease_cluster import MemoryCluster

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.kubernetes import (
    DrainLimits,
    KubernetesNodes,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.nodes import HELD_TAINT, MARK

Json = dict[str, Any]
TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


class Racing(MemoryCluster):
    """A cluster in which somebody writes node gpu01 right before our first update of it arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.theirs: Callable[[Json], None] | None = None
        self._keep(("Node", "", "gpu01"), {"metadata": {"name": "gpu01"}, "spec": {}})

    def replace(self, kind: Any, body: Json, namespace: str = "") -> Json:
        theirs, self.theirs = self.theirs, None
        if theirs is not None:
            found = self.node()
            theirs(found)
            self._keep(("Node", "", "gpu01"), found)
        return super().replace(kind, body, namespace)

    def node(self) -> Json:
        found = self.find(NODES, "gpu01")
        assert found is not None
        return found


def cordoned(node: Json) -> None:
    node["spec"]["unschedulable"] = True


def uncordoned(node: Json) -> None:
    node["spec"].pop("unschedulable", None)
    node["metadata"]["annotations"].pop(MARK, None)


def taken_over(node: Json) -> None:
    node["metadata"]["annotations"].pop(MARK, None)


def tainted(node: Json) -> None:
    node["spec"]["taints"] = [*node["spec"].get("taints", []), TAINT]


@pytest.fixture
def cluster() -> Racing:
    return Racing()


@pytest.fixture
def nodes(cluster: Racing) -> KubernetesNodes:
    return KubernetesNodes(cluster.api, "continuous-validation", {"gpu01": "gpu01"}, DrainLimits())


def test_a_cordon_of_somebody_else_at_the_same_moment_is_theirs(cluster: Racing, nodes: KubernetesNodes) -> None:
    cluster.theirs = cordoned
    assert nodes.cordon("gpu01") == "cordoned by somebody else"
    assert MARK not in (cluster.node()["metadata"].get("annotations") or {})
    assert nodes.give_back("gpu01") == "cordoned by somebody else, and stays so"
    assert cluster.node()["spec"]["unschedulable"] is True


def test_a_node_that_somebody_takes_over_while_it_is_given_back_stays_cordoned(
    cluster: Racing, nodes: KubernetesNodes
) -> None:
    assert nodes.cordon("gpu01") == ""
    cluster.theirs = taken_over
    assert nodes.give_back("gpu01") == "cordoned by somebody else, and stays so"
    assert cluster.node()["spec"]["unschedulable"] is True


def test_a_node_that_somebody_gave_back_is_not_held_again(cluster: Racing, nodes: KubernetesNodes) -> None:
    nodes.cordon("gpu01")
    cluster.theirs = uncordoned
    nodes.hold("gpu01", "dl_unit: wrong-results", again=True)
    spec = cluster.node()["spec"]
    assert "unschedulable" not in spec and HELD_TAINT not in {taint["key"] for taint in spec.get("taints", [])}


def test_a_taint_that_somebody_sets_meanwhile_stays(cluster: Racing, nodes: KubernetesNodes) -> None:
    cluster.theirs = tainted
    assert nodes.cordon("gpu01") == ""
    nodes.hold("gpu01", "dl_unit: wrong-results")
    assert TAINT in cluster.node()["spec"]["taints"]
    cluster.theirs = tainted
    assert nodes.give_back("gpu01") == ""
    assert cluster.node()["spec"]["taints"] == [TAINT, TAINT]
