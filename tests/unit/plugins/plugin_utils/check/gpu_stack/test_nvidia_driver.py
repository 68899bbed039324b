# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that an object NVIDIADriver asks for: a DaemonSet for each system of its nodes, updated as pods are deleted.

Names as NVIDIA/gpu-operator internal/state/driver.go (getDriverAppName) makes them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import ClusterState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.kube_objects import operand_states
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .conftest import changed_operand, context, judged, workload

NAMES = ("nvidia-gpu-driver-ubuntu22.04-66d4c7bd9d", "nvidia-gpu-driver-ubuntu24.04-7c6d7bd86b")
OLD = "nvidia-driver-daemonset"


def _by_object(view: ClusterState) -> ClusterState:
    """The cluster with two pools of nodes with a system each, in the place of one DaemonSet for all."""
    others = tuple(o.workload for o in view.operands or () if o.workload.app != OLD)
    drivers = tuple(workload(name, "", "DaemonSet", 2) for name in NAMES)
    return replace(
        view,
        workloads=(*(entry for entry in view.workloads or () if entry.app != OLD), *drivers),
        operands=operand_states((*drivers, *others), stack_facts().operands),
    )


def _told(view: ClusterState) -> list[Outcome]:
    return [o for o in judged(view, context()) if o.status is not Status.PASSED]


def test_a_healthy_cluster_passes_and_counts_each_of_its_drivers(view: ClusterState) -> None:
    there = _by_object(view)
    assert [o.workload.name for o in there.operands or () if o.title == "driver"] == list(NAMES)
    assert _told(there) == []


def test_a_driver_that_waits_for_its_pods_to_be_deleted_is_not_ready(view: ClusterState) -> None:
    waits = {"state": "failed", "cause": "rollout-timeout", "reason": "1 of 2 pods updated", "ready": 1}
    told = _told(changed_operand(_by_object(view), OLD, **waits, nodes=("gpu02",)))
    assert ("cluster-policy-ready", "operand-not-ready") in [(o.check, o.cause) for o in told]
    assert "driver on gpu02" in next(o.summary for o in told if o.check == "cluster-policy-ready")


@pytest.mark.parametrize("name", ["nvidia-gpu-drivers", "my-nvidia-gpu-driver-x", "nvidia-vgpu-host-manager-driver-x"])
def test_what_is_called_otherwise_is_no_driver(name: str) -> None:
    assert operand_states((workload(name, "", "DaemonSet"),), stack_facts().operands) == ()


def test_a_vgpu_guest_driver_is_one() -> None:
    (operand,) = operand_states((workload("nvidia-vgpu-driver-rhel9.4-1", "", "DaemonSet"),), stack_facts().operands)
    assert operand.title == "driver"
