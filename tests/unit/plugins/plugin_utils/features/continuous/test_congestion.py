# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hours of congestion are one event, however often they are measured, and make no node bad (domain.md T207)."""

from __future__ import annotations

import random

import pytest
from service_rows import node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import Classified, classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import (
    ClassLimits,
    Word,
    figure_rules,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult

HOUR_S = 3600.0


class Island:
    """Hosts that run nccl_loop when they are asked to."""

    def __init__(self, nodes: int) -> None:
        self.names = [f"n{number:03d}" for number in range(nodes)]
        self.results: list[NodeResult] = []
        self.draw = random.Random(207)

    def measure(self, node: str, hour: float, left: float, status: Status = Status.PASSED) -> None:
        cause, rating = {
            Status.PASSED: ("", Rating.GOOD), Status.OTHER: ("loop-bandwidth-marginal", Rating.MARGINAL),
        }.get(status, ("slow-adapter", Rating.BAD))  # fmt: skip
        figures = (Figure(name="busbw", number=46 * self.draw.gauss(1, 0.006) * left, unit="GB/s"),)
        self.results.append(node_result(
            f"c{hour}", node, "nccl_loop", status, rating=rating, cause=cause, figures=figures, parts={}, digests={},
            started_s=hour * HOUR_S, cohort="h100",
        ))  # fmt: skip

    def classified(self, hour: float, limits: ClassLimits | None = None) -> Classified:
        return classify("c", self.names, ("nccl_loop",), self.results, hour * HOUR_S + 600, figure_rules(), limits)


@pytest.mark.parametrize(("hot", "nodes"), [(3, 16), (6, 128)])
@pytest.mark.parametrize("left", [0.88, 0.7])
def test_four_hours_of_congestion_measured_every_hour_make_nobody_bad(hot: int, nodes: int, left: float) -> None:
    island = Island(nodes)
    for name in island.names:
        island.measure(name, 0, 1)
    found = island.classified(143)
    for hour in range(144, 148):
        again = {node for node, _test in found.repeats}
        for name in island.names if hour == 144 else again:
            slow = name in island.names[:hot]
            status = Status.FAILED if slow and left < 0.75 else Status.PASSED
            island.measure(name, hour, left if slow else 1, status)
        found = island.classified(hour)
        assert not found.repeats, "another result within the hour would be the same event"
    assert not found.nodes(Word.BAD) and set(found.nodes(Word.SUSPECT)) == set(island.names[:hot])
    # Whoever measures all the same, by hand and every hour, measures the same event.
    for hour in range(144, 156):
        for name in island.names[:hot]:
            island.measure(name, hour, left, status)
    assert not island.classified(156).nodes(Word.BAD)


@pytest.mark.parametrize("left", [0.88, 0.7])
def test_what_stays_slow_for_days_is_bad(left: float) -> None:
    island, status = Island(16), Status.PASSED if left > 0.75 else Status.FAILED
    for name in island.names:
        island.measure(name, 0, 1)
    for day in range(1, 5):
        island.measure("n003", 24 * day, left, status)
        words = {entry.node: entry.word for entry in island.classified(24 * day).classes}
        assert words == dict.fromkeys(island.names, "healthy") | {"n003": "bad" if day == 4 else "suspect"}


def test_how_long_an_event_lasts_is_a_limit_of_the_site() -> None:
    island = Island(16)
    for name in island.names:
        island.measure(name, 0, 1)
    for hour in range(1, 5):
        island.measure("n003", hour, 0.88)
    assert not island.classified(5).nodes(Word.BAD)
    assert island.classified(5, ClassLimits(event_h=1, congestion_h=1)).nodes(Word.BAD) == ("n003",)


@pytest.mark.parametrize("nodes", [1, 4, 16])
@pytest.mark.parametrize("status", [Status.FAILED, Status.OTHER])
def test_a_node_whose_newest_result_is_low_is_suspect_also_within_the_hours_of_a_good_one(
    nodes: int, status: Status
) -> None:
    """A pass and, an hour later, 47 % of the ceiling were one event with a good best, and the node was healthy."""
    island = Island(nodes)
    for name in island.names:
        island.measure(name, 0, 1)
    before = island.classified(0.5).classes[0].word
    island.measure("n000", 1, 0.5 if status is Status.FAILED else 0.8, status)
    found = island.classified(1.2)
    entry = found.classes[0]
    assert (before, entry.word) == ("healthy", "suspect")
    cause = "slow-adapter" if status is Status.FAILED else "marginal"
    assert cause in entry.reasons[0] and "within 24 hours" in entry.reasons[0]
    assert not found.repeats and not found.nodes(Word.BAD), "another result now would be the same event"
    island.measure("n000", 2, 1)
    after = island.classified(2.2)
    assert after.classes[0].word == "healthy", "what was well last and in the same hours is well"


def test_a_result_that_failed_within_the_hours_of_a_good_one_makes_nobody_bad() -> None:
    island = Island(16)
    for day in range(8):
        for name in island.names:
            island.measure(name, 24 * day, 1)
        island.measure("n003", 24 * day + 2, 0.5, Status.FAILED)
        words = {entry.node: entry.word for entry in island.classified(24 * day + 3).classes}
        assert words == dict.fromkeys(island.names, "healthy") | {"n003": "suspect"}


def test_a_failed_result_within_the_hours_of_a_marginal_one_is_not_excused_by_a_marginal_cohort() -> None:
    """16 nodes at 41 of 50 GB/s are marginal alike and told as a cohort; one of them failed an hour later."""
    island = Island(16)
    for day in range(4):
        for name in island.names:
            island.measure(name, 24 * day, 0.89, Status.OTHER)
    assert set(island.classified(72.5).nodes(Word.HEALTHY)) == set(island.names)
    island.measure("n003", 73, 0.5, Status.FAILED)
    found = island.classified(73.5)
    assert found.nodes(Word.SUSPECT) == ("n003",) and not found.nodes(Word.BAD)
