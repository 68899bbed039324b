# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NicClusterPolicy as the network operator of a real cluster reports it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import (
    ClusterState,
    ComponentState,
    PolicyState,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.kube_objects import policy_state
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

from .conftest import context, judged, recipe, workload


def causes(seen: ClusterState, wanted: dict[str, Any]) -> list[str]:
    return [outcome.cause for outcome in judged(seen, context(recipe=wanted)) if outcome.status is Status.FAILED]


def test_a_network_policy_as_a_real_operator_reports_it(view: ClusterState, shared: Path) -> None:
    """States that the operator ignores are no failure; one that is not ready is."""
    status = yaml.safe_load((shared / "captures/k8s/nicclusterpolicy-status-ready.yaml").read_text())
    reported = {"metadata": {"name": "nic-cluster-policy"}, **status}
    wide = recipe()
    wide["componentRefs"].append({"name": "network-operator", "version": "1.0", "values": {}})
    seen = replace(view, nic_cluster_policies=(policy_state(reported),))
    assert causes(seen, wide) == []
    reported["status"] |= {"state": "notReady"}
    seen = replace(view, nic_cluster_policies=(policy_state(reported),))
    assert causes(seen, wide) == ["nic-cluster-policy-not-ready"]


def test_the_hint_shows_the_log_of_the_operator_itself(view: ClusterState) -> None:
    wide = recipe()
    wide["componentRefs"].append({"name": "network-operator", "version": "1.0", "values": {}})
    release = "nvidia-network-operator/network-operator"
    installed = ComponentState(name="network-operator", release=release, status="deployed", version="1.0", ours=True)
    parts = [workload(name, release) for name in ("network-operator-node-feature-discovery-master", "network-operator")]
    seen = replace(
        view,
        components=(*(view.components or ()), installed),
        workloads=(*(view.workloads or ()), *parts),
        nic_cluster_policies=(PolicyState(name="nic-cluster-policy", state="notReady"),),
    )
    (said,) = [outcome for outcome in judged(seen, context(recipe=wide)) if outcome.status is Status.FAILED]
    command = "kubectl logs -n nvidia-network-operator deployment/network-operator --tail=200"
    assert said.hint == f"kubectl describe nicclusterpolicy; {command}"


def test_a_network_policy_that_the_operator_ignores_is_none(view: ClusterState) -> None:
    wide = recipe()
    wide["componentRefs"].append({"name": "network-operator", "version": "1.0", "values": {}})
    ready, second = PolicyState(name="nic-cluster-policy", state="ready"), PolicyState(name="second", state="ignore")
    assert causes(replace(view, nic_cluster_policies=(ready, second)), wide) == []
    alone = replace(view, nic_cluster_policies=(second,))
    assert causes(alone, wide) == ["nic-cluster-policy-not-ready"]
    # The recipe's own is not in force.
    policy = "apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata: {name: second}"
    wide["componentRefs"][-1] |= {
        "manifestFiles": ["policy.yaml"], "manifests": [{"when": "after", "file": "policy.yaml", "text": policy}],
    }  # fmt: skip
    assert causes(replace(view, nic_cluster_policies=(ready, second)), wide) == ["nic-cluster-policy-not-ready"]
