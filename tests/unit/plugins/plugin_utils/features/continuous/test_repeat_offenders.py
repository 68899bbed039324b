# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lemons: who made the trouble of a window, and who merely failed once."""

from __future__ import annotations

from service_rows import node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.node_history import repeat_offenders
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult, OurCordon

SINCE = "2026-11-01T00:00:00.000Z"


def failed(node: str, started_s: float, status: Status = Status.FAILED) -> NodeResult:
    return node_result("c1", node, status=status, started_s=started_s)


def cordon(node: str, since: str = "2026-11-02T00:00:00.000Z") -> OurCordon:
    return OurCordon(node=node, by="continuous-validation/c1", reason="slow", since=since)


def test_the_worst_come_first_with_their_share() -> None:
    results = [failed("a", 200), failed("a", 300), failed("b", 200), failed("b", 300), failed("b", 400)]
    found = repeat_offenders([*results, failed("c", 200)], [cordon("a"), cordon("a")], 100, SINCE)
    assert [(lemon.node, lemon.excluded, lemon.failed) for lemon in found] == [("a", 2, 2), ("b", 0, 3)]
    assert found[0].share == 0.5 and "taken out 2 times" in found[0].text


def test_what_was_before_the_window_or_is_no_failure_does_not_count() -> None:
    results = [failed("a", 50), failed("a", 60), failed("b", 200, Status.OTHER), failed("b", 200, Status.PENDING)]
    assert not repeat_offenders(results, [cordon("c", "2026-10-01T00:00:00.000Z"), cordon("c")], 100, SINCE)


def test_the_list_ends() -> None:
    results = [failed(f"n{number:02d}", 200 + again) for number in range(30) for again in range(2)]
    assert len(repeat_offenders(results, [], 100, SINCE, most=10)) == 10
