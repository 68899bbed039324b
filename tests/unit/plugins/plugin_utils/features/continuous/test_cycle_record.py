# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of a cycle as outcomes: each of CTRF's words keeps its meaning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle_record import outcomes_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult


@pytest.mark.parametrize(
    ("status", "rating", "cause", "expected"),
    [
        (Status.PASSED, Rating.GOOD, "", Rating.GOOD),
        (Status.FAILED, Rating.BAD, "slow-adapter", Rating.BAD),
        (Status.OTHER, Rating.MARGINAL, "loop-bandwidth-marginal", Rating.MARGINAL),
        (Status.OTHER, Rating.UNKNOWN, "run-crashed", Rating.UNKNOWN),
        (Status.PENDING, Rating.UNKNOWN, "launch-preempted", Rating.UNKNOWN),
        (Status.SKIPPED, Rating.UNKNOWN, "", Rating.UNKNOWN),
    ],
)
def test_every_word_is_kept_with_its_node_and_figures(
    status: Status, rating: Rating, cause: str, expected: Rating
) -> None:
    figure = Figure(name="busbw", number=47.2, unit="GB/s")
    result = NodeResult(
        cycle_id="c1", node="gpu01", test="nccl_loop", started_s=1736367000.0, duration_s=2.5, status=status,
        rating=rating, cause=cause, summary="what was seen", figures=(figure,), log="nccl_loop/gpu01/x.log.gz",
    )  # fmt: skip
    (found,) = outcomes_of([result], "cycle-001", "/var/log/fleet")
    assert (found.check, found.status, found.rating, found.cause) == ("nccl-loop", status, expected, cause)
    assert [subject.node for subject in found.subjects] == ["gpu01"] and found.started == "2025-01-08T20:10:00Z"
    assert [(m.name, m.value, m.unit) for m in found.measured] == [("busbw", 47.2, "GB/s")]
    assert found.evidence[0].source == "log nccl_loop/gpu01/x.log.gz"
    place = "read the newest log in /var/log/fleet/nccl_loop/gpu01; "
    assert (place in found.hint) is (status in (Status.FAILED, Status.OTHER))
    (silent,) = outcomes_of([replace(result, log="")], "cycle-001", "/var/log/fleet")
    assert "log" not in silent.hint, "passive checks leave none"
    # Several nodes of one test are told together, with a place that a shell finds.
    both = outcomes_of([result, replace(result, node="gpu02")], "cycle-001", "/var/log/fleet")
    assert len({outcome.hint for outcome in both}) == 1
    assert ("/var/log/fleet/nccl_loop/*; " in both[0].hint) is (status in (Status.FAILED, Status.OTHER))
