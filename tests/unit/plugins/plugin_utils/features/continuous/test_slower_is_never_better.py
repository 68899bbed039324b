# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that is slower is never judged better: every loss by itself, and over drawn histories (domain.md T206)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from service_rows import node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import figure_rules
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult

DAY_S, CEILING = 86400.0, 50.0
RANK = {"healthy": 0, "unknown": 1, "drifting": 2, "suspect": 3, "bad": 4}


def loop(node: str, day: int, gbps: float) -> NodeResult:
    """A result of nccl_loop, rated as the test rates it by the ceiling of its adapters."""
    part = gbps / CEILING
    status, rating = Status.FAILED, Rating.BAD
    if part >= 0.75:
        status, rating = (Status.PASSED, Rating.GOOD) if part >= 0.85 else (Status.OTHER, Rating.MARGINAL)
    cause = {Status.PASSED: "", Status.OTHER: "loop-bandwidth-marginal", Status.FAILED: "slow-adapter"}[status]
    figures = (Figure(name="busbw", number=gbps, unit="GB/s"),)
    return node_result(
        f"c{day}", node, "nccl_loop", status, rating=rating, cause=cause, figures=figures, digests={}, parts={},
        started_s=day * DAY_S, cohort="h100",
    )  # fmt: skip


def word_of_first(speeds: Sequence[Sequence[float]]) -> str:
    nodes = [f"n{number}" for number in range(len(speeds))]
    results = [loop(node, day, gbps) for node, of in zip(nodes, speeds, strict=True) for day, gbps in enumerate(of)]
    now_s = (len(speeds[0]) - 1) * DAY_S + 3600
    return classify("c", nodes, ("nccl_loop",), results, now_s, figure_rules()).classes[0].word


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 16])
def test_the_more_it_lost_the_worse_it_is(nodes: int) -> None:
    draw = random.Random(206)
    healthy = [[48.5 * (1 + draw.gauss(0, 0.004)) for _day in range(12)] for _node in range(nodes)]
    told = []
    for left in (1.0, 0.92, 0.88, 0.84, 0.80, 0.78, 0.74, 0.70, 0.5):
        lost = [gbps * (left if day >= 6 else 1) for day, gbps in enumerate(healthy[0])]
        told.append(word_of_first([lost, *healthy[1:]]))
    assert [RANK[word] for word in told] == sorted(RANK[word] for word in told), told
    assert told[0] == "healthy" and "unknown" not in told and told[-1] == "bad", told
    if nodes >= 4:
        assert told[1:] == ["bad"] * 8, told


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 8), st.integers(1, 14), st.integers(1, 14), st.floats(0.4, 1.0), st.floats(0.6, 1.0),
    st.integers(0, 10_000),
)  # fmt: skip
def test_slower_since_some_day_is_never_judged_better(
    nodes: int, days: int, since: int, more: float, first: float, seed: int
) -> None:
    draw = random.Random(seed)
    drawn = [[48.5 * (1 + draw.gauss(0, 0.006)) for _day in range(days)] for _node in range(nodes)]
    begin = draw.randrange(days)
    node = [gbps * (first if day >= begin else 1) for day, gbps in enumerate(drawn[0])]
    slower = [gbps * (more if day >= days - since else 1) for day, gbps in enumerate(node)]
    before, after = word_of_first([node, *drawn[1:]]), word_of_first([slower, *drawn[1:]])
    assert RANK[after] >= RANK[before], (before, after)


def test_a_fleet_that_is_marginal_alike_is_told_as_a_cohort_and_who_is_slower_by_itself() -> None:
    """Azure's own check accepts 40 of 50 GB/s: with marginal results dropped such a site was unknown (T214)."""
    draw = random.Random(214)
    nodes = [f"n{number:02d}" for number in range(16)]
    results = [loop(n, day, 41 * draw.gauss(1, 0.004) * (0.9 if n == "n03" else 1)) for n in nodes for day in range(9)]
    found = classify("c", nodes, ("nccl_loop",), results, 8 * DAY_S + 3600, figure_rules())
    assert {entry.node: entry.word for entry in found.classes} == dict.fromkeys(nodes, "healthy") | {"n03": "bad"}
    assert "lie between good and bad at once" in found.cohorts[0]
