# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long pods have been ready, and how often they lost it between looks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.workloads import (
    ReadinessWatch,
    ready_for_s,
    unsteady_nodes,
    workload_of,
)

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def _pod(since: str, ready: bool = True, name: str = "w-1", **metadata: Any) -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since and f"2026-01-01T{since}Z"}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "w"}, **metadata},
        "spec": {"nodeName": f"node-of-{name}"},
        "status": {"phase": "Running", "conditions": [condition]},
    }


def test_the_pod_that_became_ready_last_counts() -> None:
    assert ready_for_s([_pod("11:00:00"), _pod("11:59:48", name="w-2")], NOW) == 12.0
    assert ready_for_s([], NOW) is None


@pytest.mark.parametrize("since", ["", "long-ago", "12:00:30"])
def test_a_time_that_says_nothing_or_lies_ahead_is_no_time_at_all(since: str) -> None:
    assert ready_for_s([_pod(since)], NOW) == 0.0


def test_a_pod_that_is_not_ready_has_not_been_for_any_time() -> None:
    assert ready_for_s([_pod("11:00:00", ready=False), _pod("11:00:00", name="w-2")], NOW) == 0.0


@pytest.mark.parametrize(
    ("looks", "losses"),
    [
        ([_pod("11:00:00")] * 5, 0),
        ([_pod("11:00:00", ready=False), _pod("11:00:02"), _pod("11:00:02")], 0),
        ([_pod("11:00:00"), _pod("11:00:05", ready=False), _pod("11:00:06")], 1),
        # It was away between two looks.
        ([_pod("11:00:00"), _pod("11:00:05"), _pod("11:00:09")], 2),
        ([_pod("11:00:00"), _pod("11:00:05", ready=False), _pod("11:00:06"), _pod("11:00:09", ready=False)], 2),
        # Another pod in its place, as after an update, is none of its losses.
        ([_pod("11:00:00"), _pod("11:00:05", name="w-2")], 0),
    ],
)
def test_what_was_ready_and_is_not_or_is_again_was_lost(looks: list[dict[str, Any]], losses: int) -> None:
    watch = ReadinessWatch()
    seen = [watch.by_node([pod]) for pod in looks]
    assert sum(seen[-1].values()) == losses


def _workload(kind: str, *pods: dict[str, Any], watch: ReadinessWatch | None = None) -> Any:
    status = {"readyReplicas": 1, "updatedReplicas": 1, "succeeded": 1}
    metadata = {"name": "w", "namespace": "ns"}
    obj = {"metadata": metadata, "spec": {"selector": {"matchLabels": {"app": "w"}}}, "status": status}
    return workload_of(kind, obj, pods, NOW, 90, watch)


def test_a_workload_says_how_long_it_has_been_ready_and_where_it_was_lost() -> None:
    watch = ReadinessWatch()
    _workload("Deployment", _pod("11:00:00"), watch=watch)
    found = _workload("Deployment", _pod("11:59:00"), watch=watch)
    assert (found.ready_for_s, found.losses) == (60.0, {"node-of-w-1": 1})


def test_a_job_and_a_pod_that_is_taken_away_need_not_last() -> None:
    assert _workload("Job", _pod("11:59:59")).ready_for_s is None
    leaving = _pod("11:59:59", name="w-2", deletionTimestamp="2026-01-01T12:00:00Z")
    assert _workload("Deployment", _pod("11:00:00"), leaving).ready_for_s == 3600.0


def _node(name: str, since: str, ready: str = "True") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": f"2026-01-01T{since}Z"}
    return {"metadata": {"name": name}, "status": {"conditions": [condition]}}


def test_a_node_that_is_not_ready_or_not_for_long_is_unsteady() -> None:
    nodes = [_node("old", "11:00:00"), _node("new", "11:59:30"), _node("down", "11:00:00", ready="False")]
    assert unsteady_nodes([*nodes, {"metadata": {"name": "silent"}}], NOW, 60.0) == {"new", "down", "silent"}


def _daemons(*pods: dict[str, Any], desired: int, ready: int, watch: ReadinessWatch | None = None) -> Any:
    numbers = {"desiredNumberScheduled": desired, "numberReady": ready, "updatedNumberScheduled": desired}
    obj = {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "w"}}},
        "status": {"observedGeneration": 1, **numbers},
    }
    return workload_of("DaemonSet", obj, pods, NOW, 90, watch, {"node-of-new", "node-of-newer"})


@pytest.mark.parametrize("ready", [True, False])
def test_pods_on_nodes_that_come_and_go_do_not_hold_a_daemon_set(ready: bool) -> None:
    new = _pod("11:59:58", ready=ready, name="new")
    seen = _daemons(_pod("11:00:00"), _pod("11:00:00", name="w-2"), new, desired=3, ready=2 + ready)
    assert (seen.state, seen.ready, seen.desired, seen.ready_for_s) == ("ready", 2, 2, 3600.0)
    assert (seen.left_out, seen.nodes) == (("node-of-new",), ())


def test_a_pod_on_an_old_node_that_is_not_ready_is_found_beside_new_ones() -> None:
    bad = _pod("11:00:00", ready=False, name="w-2")
    # The new pod became ready after the pods were listed, and stands in the number already.
    seen = _daemons(_pod("11:00:00"), bad, _pod("11:59:58", ready=False, name="new"), desired=3, ready=2)
    assert (seen.state, seen.ready, seen.desired, seen.nodes) == ("pending", 1, 2, ("node-of-w-2",))


def test_a_pod_on_an_old_node_that_flaps_is_found_beside_new_ones() -> None:
    watch = ReadinessWatch()
    for since in ("11:59:10", "11:59:30", "11:59:50"):
        seen = _daemons(_pod(since), _pod(since, name="new"), desired=2, ready=2, watch=watch)
    assert (seen.losses, seen.ready_for_s) == ({"node-of-w-1": 2}, 10.0)


def test_where_all_nodes_have_just_come_their_pods_count() -> None:
    pods = _pod("11:59:58", name="new"), _pod("11:59:58", ready=False, name="newer")
    seen = _daemons(*pods, desired=2, ready=1)
    assert (seen.state, seen.ready_for_s, seen.left_out) == ("pending", 0.0, ())
