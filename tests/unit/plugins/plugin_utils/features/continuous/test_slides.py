# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A slide over a year is seen: of one node by a reference that does not move, of all nodes as a line of the fleet
(domain.md T209). Weekly tests, of which 90 days are looked at."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from service_rows import SITE, cycle, node_result

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.classify import Classified, classify
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cohorts import FirstKey
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.figures import (
    ClassLimits,
    figure_rules,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.service import (
    ContinuousService,
    after_cycle,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.slowdown import (
    First,
    first_of_history,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.remediation.app import RemediationPolicy
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Figure, NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.service import first_figures, open_service

WEEK_S, START_S = 7 * 86400.0, 1793440800.0
LIMITS = ClassLimits()


def result_of(name: str, rate: float, week: int) -> NodeResult:
    figures = (Figure(name="gemm-bf16", number=rate, unit="TFLOP/s", part=name),)
    started_s = START_S + week * WEEK_S - 60
    return node_result(
        f"c{week:02d}", name, "dl", figures=figures, parts={"gpu0": name}, digests={}, started_s=started_s
    )


def year(nodes: int, left: Callable[[int, int], float], weeks: int = 52) -> list[Classified]:
    """Return what the nodes were taken for by week; `left`: by node and week the part of the speed that is left."""
    draw, results, firsts, told = random.Random(209), list[NodeResult](), dict[FirstKey, First](), list[Classified]()
    names = [f"n{number:02d}" for number in range(nodes)]
    own = {name: draw.gauss(1, 0.005) for name in names}
    for week in range(weeks):
        now_s = START_S + week * WEEK_S
        for at, name in enumerate(names):
            results.append(result_of(name, 700 * own[name] * draw.gauss(1, 0.003) * left(at, week), week))
        seen = [result for result in results if result.started_s >= now_s - LIMITS.history_days * 86400]
        told.append(classify("c", names, ("dl",), seen, now_s, figure_rules(), LIMITS, firsts=firsts))
        for series in (series for record in told[-1].records.values() for series in record.series):
            first = first_of_history(series.speeds, LIMITS.drift)
            if first is not None and first.count == LIMITS.drift.most:
                firsts.setdefault(series.first_key, first)
    return told


def words(found: Classified) -> set[str]:
    return {entry.word for entry in found.classes}


@pytest.mark.parametrize("weekly", [0.002, 0.004])
def test_a_slide_of_the_whole_fleet_is_told_of_the_fleet(weekly: float) -> None:
    told = year(8, lambda _node, week: (1 - weekly) ** week)
    first = next(week for week, found in enumerate(told) if found.cohorts)
    assert (1 - weekly) ** first > 0.94 and "all are slower alike" in told[first].cohorts[0]
    assert all(found.cohorts for found in told[first + 2 :]) and words(told[-1]) == {"healthy"}


def test_a_summer_of_two_percent_is_no_slide_of_anybody() -> None:
    told = year(8, lambda _node, week: 1 - 0.01 * (1 - math.cos(2 * math.pi * week / 52)))
    assert not [found for found in told if found.cohorts] and set().union(*map(words, told[10:])) == {"healthy"}


@pytest.mark.parametrize(("nodes", "weekly"), [(8, 0.004), (2, 0.01)])
def test_one_that_slides_by_itself_drifts(nodes: int, weekly: float) -> None:
    told = year(nodes, lambda node, week: (1 - weekly) ** week if node == 1 else 1)
    last = {entry.node: entry.word for entry in told[-1].classes}
    assert last["n01"] in ("drifting", "suspect", "bad") and last["n00"] in ("healthy", "unknown")
    first = next(week for week, found in enumerate(told) if found.classes[1].word in ("drifting", "suspect", "bad"))
    assert (1 - weekly) ** first > 0.9


def test_what_a_series_began_with_is_written_once_and_kept(tmp_path: Path) -> None:
    store = open_service(tmp_path / "history.sqlite")
    service = ContinuousService(
        nodes={"n00": "n00"}, tests=("dl",), directory=tmp_path / "report", policy=RemediationPolicy()
    )
    for number, (weeks, rate) in enumerate((((range(12)), 700.0), (range(40, 52), 500.0))):
        ours = cycle(f"c{number}")
        store.begin_cycle(ours)
        for week in weeks:
            filler = cycle(f"d{week}")
            store.begin_cycle(filler)
            store.add_result(NodeResult(**{
                name: getattr(result_of("n00", rate, week), name) for name in NodeResult.__slots__
            } | {"cycle_id": filler.cycle_id}))  # fmt: skip
        after_cycle(store, ours, service, now_s=START_S + max(weeks) * WEEK_S)
        (kept,) = first_figures(store, SITE, rehearsal=False)
        assert (kept.middle, kept.results, kept.since_s) == (700.0, 10, START_S - 60)
