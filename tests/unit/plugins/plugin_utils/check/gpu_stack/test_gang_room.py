# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room of the gang test is read again at its end: what users took or gave back is no fault of the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import gang_admission
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.capacity import (
    moved,
    room_left,
    slots_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_gang import GangResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import node_capacity

from .conftest import context


def node(name: str, **spec: Any) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    status = {"conditions": ready, "allocatable": {"nvidia.com/gpu": "8"}}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def user(name: str, gpus: int, host: str = "a", namespace: str = "users", **status: Any) -> dict[str, Any]:
    containers = [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": containers, **({"nodeName": host} if host else {})},
        "status": status,
    }


@pytest.mark.parametrize(
    ("later", "bound", "status", "cause"),
    [
        # Nothing moved: what was seen is the scheduler's.
        ([], {"a": 0, "b": 0}, Status.FAILED, "gang-not-admitted"),
        ([], {"a": 2, "b": 1}, Status.FAILED, "gang-partial"),
        ([], {"a": 3, "b": 3}, Status.FAILED, "gang-overcommitted"),
        ([], {"a": 3, "b": 0}, Status.PASSED, ""),
        # Users took what one gang needs.
        ([user("new", 2)], {"a": 0, "b": 0}, Status.OTHER, "room-changed"),
        ([user("new", 1)], {"a": 0, "b": 0}, Status.OTHER, "room-changed"),
        ([user("new", 2)], {"a": 2, "b": 0}, Status.OTHER, "room-changed"),
        ([user("new", 1)], {"a": 3, "b": 0}, Status.PASSED, ""),
        ([user("new", 1)], {"a": 3, "b": 3}, Status.FAILED, "gang-overcommitted"),
        # One that is to have the place of pods of the test, which were taken for it.
        ([user("new", 2, host="", nominatedNodeName="a")], {"a": 2, "b": 0}, Status.OTHER, "room-changed"),
        ([user("new", 2, host="")], {"a": 2, "b": 0}, Status.FAILED, "gang-partial"),
        ([user("new", 2, host="b")], {"a": 2, "b": 0}, Status.FAILED, "gang-partial"),
        # Users gave back what makes room for both.
        (None, {"a": 3, "b": 3}, Status.OTHER, "room-changed"),
        (None, {"a": 0, "b": 0}, Status.FAILED, "gang-not-admitted"),
        (None, {"a": 3, "b": 1}, Status.FAILED, "gang-partial"),
    ],
)
def test_gangs_are_not_judged_by_room_that_users_took_meanwhile(
    later: list[dict[str, Any]] | None, bound: dict[str, int], status: Status, cause: str
) -> None:
    nodes, old = [node("a"), node("b")], [user("old", 4), user("other", 8, host="b")]
    slots = slots_of(node_capacity(nodes, old, [], [], {"a", "b"}).values(), 4)
    assert slots is not None and (slots.nodes, slots.count, slots.gang) == (("a",), 4, 3)
    own = [user(f"{gang}-{n}", 1, namespace="test") for gang, number in bound.items() for n in range(number)]
    pods = [*own, *([] if later is None else [*old, *later])]
    room = room_left(slots, (nodes, pods, [], []), "test")
    seen = GangResult(
        provider="volcano", nodes=slots.nodes, slots=slots.count, gang_size=slots.gang, gpus_per_pod=1, bound=bound,
        **moved(slots, room, bound),
    )  # fmt: skip
    (outcome,) = gang_admission.judge(seen, context())
    assert (outcome.status, outcome.cause) == (status, cause), outcome.summary


def test_room_that_went_with_its_node_and_claims_of_users_count() -> None:
    nodes = [node("a", unschedulable=True)]
    slots = slots_of(node_capacity([node("a")], [], [], [], {"a"}).values(), 4)
    assert slots is not None and room_left(slots, (nodes, [], [], []), "test") == 0
    devices = [{"name": f"gpu-{n}", "attributes": {"type": {"string": "gpu"}}} for n in range(4)]
    slices = [{"spec": {"driver": "gpu.nvidia.com", "nodeName": "d", "devices": devices}}]
    bare = node("d")
    bare["status"]["allocatable"] = {}
    by_claims = slots_of(node_capacity([bare], [], [], slices, {"d"}).values(), 4)
    assert by_claims is not None and by_claims.by_dra

    def claim(namespace: str) -> dict[str, Any]:
        results = [{"driver": "gpu.nvidia.com", "pool": "d", "device": "gpu-0"}]
        return {"metadata": {"namespace": namespace}, "status": {"allocation": {"devices": {"results": results}}}}

    assert room_left(by_claims, ([bare], [], [claim("test")], slices), "test") == by_claims.count
    assert room_left(by_claims, ([bare], [], [claim("test"), claim("users")], slices), "test") == by_claims.count - 1
