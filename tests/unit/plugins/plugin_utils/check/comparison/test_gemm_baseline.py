# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rates of GPUs against what was accepted: the slowest GPU of a host counts, what all lost is no fault of a host."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import cache

import pytest
from simulated_training import hardware
from unit_fleet import UnitFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.gate import compare_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe.dl_unit import RATES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.baseline import AcceptedBaseline, AcceptedFigure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.figures import Place, figures_of

GATE, CHECK, DRIVER, NODES = "fabric_validation", "fabric-baseline", "580.95.05", 12


@cache
def outcomes(seed: int = 3) -> tuple[Outcome, ...]:
    return tuple(UnitFleet(nodes=NODES, seed=seed).outcomes())


@cache
def baseline() -> AcceptedBaseline:
    site = UnitFleet(nodes=NODES).site
    place = Place(site=site, hardware=hardware(), drivers=dict.fromkeys((host.name for host in site.hosts), DRIVER))
    figures = tuple(
        AcceptedFigure(figure=figure, gate=GATE, run_id="run-1", who="ada", accepted="2026-11-21T10:00:00Z")
        for figure in figures_of(GATE, outcomes(), place)
    )
    return AcceptedBaseline(site=site.name, rehearsal=False, figures=figures)


def accepted(factor: float, *hosts: str, figure: str) -> AcceptedBaseline:
    """The baseline, in which a figure of these hosts, or of all, was that many times what it is."""
    return replace(
        baseline(),
        figures=tuple(
            replace(entry, figure=replace(entry.figure, value=entry.figure.value * factor))
            if entry.figure.figure == figure and (not hosts or entry.figure.subject in hosts)
            else entry
            for entry in baseline().figures
        ),
    )


def answers(then: AcceptedBaseline) -> list[tuple[str, str, str]]:
    site = UnitFleet(nodes=NODES).site
    context = JudgeContext(
        gate=GATE, site=site, today=date(2026, 11, 23), hardware=hardware(), baseline=then,
        shared={host.name: {"driver": DRIVER} for host in site.hosts},
    )  # fmt: skip
    found = compare_gate(GATE, outcomes(11), context).outcomes
    return [(o.status.value, o.cause, o.subjects[0].name) for o in found if o.check == CHECK]


def test_every_rate_of_the_test_is_a_figure_of_every_host_with_all_conditions() -> None:
    assert {entry.figure.figure: entry.figure.unit for entry in baseline().figures} == RATES
    assert len(baseline().figures) == NODES * len(RATES)
    assert not any(entry.figure.unknown for entry in baseline().figures)


@pytest.mark.parametrize("figure", RATES)
@pytest.mark.parametrize(
    ("factor", "status", "cause"),
    [
        (1.0, "passed", ""), (0.7, "passed", ""), (1.08, "other", "below-baseline"),
        (1.3, "failed", "slower-than-baseline"),
    ],
)  # fmt: skip
def test_one_host_that_lost_is_named(figure: str, factor: float, status: str, cause: str) -> None:
    assert answers(accepted(factor, "gpu03", figure=figure)) == [(status, cause, "gpu03" if cause else "lab")]


@pytest.mark.parametrize("figure", RATES)
def test_what_all_lost_is_a_regression_told_once(figure: str) -> None:
    assert answers(accepted(1.1, figure=figure)) == [("failed", "regression", "lab")]
