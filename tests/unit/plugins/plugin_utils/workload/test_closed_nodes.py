# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One reading of a node for snapshots, gates and workloads: all of them find it open or closed for the same reason."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.kube_objects import node_state
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Cleaner, read_node
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import node_capacity, open_nodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.node_pods import closed_to_pods
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.nodes import CORDON, MARK, known_tolerations

TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
SPEC: dict[str, Any] = {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}
READY: dict[str, Any] = {"type": "Ready", "status": "True"}


def node(spec: dict[str, Any], ready: dict[str, Any]) -> dict[str, Any]:
    amounts = {"nvidia.com/gpu": "8", "cpu": "192"}
    status = {"conditions": [ready], "allocatable": amounts, "capacity": amounts}
    return {"metadata": {"name": "gpu01"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("spec", "ready", "why"),
    [
        (SPEC, READY, ""),
        ({"unschedulable": True}, READY, "cordoned"),
        ({}, {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}, "not Ready (NodeStatusUnknown)"),
        ({}, {"type": "DiskPressure", "status": "False"}, "not Ready (no condition)"),
        ({"taints": [{"key": "a", "value": "b", "effect": "NoExecute"}]}, READY, "taint a=b:NoExecute"),
    ],
)
def test_all_find_the_same(spec: dict[str, Any], ready: dict[str, Any], why: str) -> None:
    obj = node(spec, ready)
    name, read = read_node(obj, Cleaner())
    capacity = node_capacity([obj], [], [], [], [name])[name]
    assert (capacity.closed, capacity.free) == (why, 0 if why else 8)
    assert open_nodes([obj], [name]) == (set() if why else {"gpu01"})
    assert closed_to_pods(read) == why.partition(" (")[0]
    state = node_state(obj)
    assert (state.ready, state.unschedulable, state.taints) == (read.ready, read.unschedulable, read.taints)
    assert state.allocatable == {"nvidia.com/gpu": 8}


@pytest.mark.parametrize(
    ("mark", "roll", "taints", "why"),
    [
        ("driver-580", "driver-580", [TAINT], ""),
        ("driver-580", "", [TAINT], "cordoned"),
        ("driver-580", "other", [TAINT], "cordoned"),
        ("", "driver-580", [TAINT], "cordoned"),
        ("", "", [TAINT], "cordoned"),
        ("driver-580", "driver-580", [TAINT, {"key": "a", "effect": "NoSchedule"}], "taint a:NoSchedule"),
    ],
)
def test_a_roll_tests_the_nodes_that_it_cordoned_and_no_others(
    mark: str, roll: str, taints: list[dict[str, str]], why: str
) -> None:
    obj = node({"unschedulable": True, "taints": taints}, READY)
    obj["metadata"]["annotations"] = {MARK: mark} if mark else {}
    capacity = node_capacity([obj], [], [], [], ["gpu01"], (*known_tolerations(), CORDON), roll)
    assert capacity["gpu01"].closed == why
