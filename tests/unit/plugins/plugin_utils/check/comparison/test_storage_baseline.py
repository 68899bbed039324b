# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What fio reached on the shared volume against what was accepted: throughput and latency, each in its direction."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

import pytest
from simulated_training import hardware
from storage_fleet import StorageFleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.against_baseline import BaselineSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.gate import compare_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.settings_layers import settings_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.shared_storage.settings import PATTERNS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.baseline import AcceptedBaseline, AcceptedFigure
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.figures import Place, figures_of

GATE, CHECK = "training_acceptance", "training-baseline"
NO_FLOOR: dict[str, Any] = {"floor_mib_s": {}, "p99_ms": {}}
DRIVER = "580.95.05"


@cache
def healthy() -> StorageFleet:
    return StorageFleet(stated=NO_FLOOR)


@cache
def baseline() -> AcceptedBaseline:
    """What a healthy fleet reached, as a person accepted it."""
    fleet = healthy()
    place = Place(site=fleet.site, hardware=hardware(), drivers=dict.fromkeys(names(fleet), DRIVER))
    figures = tuple(
        AcceptedFigure(figure=figure, gate=GATE, run_id="run-1", who="ada", accepted="2026-11-21T10:00:00Z")
        for figure in figures_of(GATE, fleet.outcomes(), place)
    )
    return AcceptedBaseline(site=fleet.site.name, rehearsal=False, figures=figures)


def names(fleet: StorageFleet) -> list[str]:
    return [host.name for host in fleet.site.hosts]


def context(fleet: StorageFleet, accepted: AcceptedBaseline | None = None, **more: Any) -> JudgeContext:
    shared = {name: {"driver": DRIVER} for name in names(fleet)}
    values = {"gate": GATE, "site": fleet.site, "today": date(2026, 11, 23), "hardware": hardware(), "shared": shared}
    return JudgeContext(**(values | {"baseline": accepted or baseline()} | more))


def answers(fleet: StorageFleet, accepted: AcceptedBaseline | None = None, **more: Any) -> list[Outcome]:
    found = compare_gate(GATE, fleet.outcomes(), context(fleet, accepted, **more)).outcomes
    return [outcome for outcome in found if outcome.check == CHECK]


def about(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    return [(outcome.status.value, outcome.cause, outcome.subjects[0].name) for outcome in outcomes]


def accepted_of(host: str, figure: str, factor: float) -> AcceptedBaseline:
    """The baseline, in which one figure of a host was that many times what it is."""
    return replace(
        baseline(),
        figures=tuple(
            replace(entry, figure=replace(entry.figure, value=entry.figure.value * factor))
            if (entry.figure.subject, entry.figure.figure) == (host, figure)
            else entry
            for entry in baseline().figures
        ),
    )


def test_every_pattern_has_two_figures_of_every_host_with_all_conditions() -> None:
    kinds = {entry.figure.figure for entry in baseline().figures}
    assert kinds == {name for pattern in PATTERNS for name in (pattern, f"{pattern}-p99")}
    assert len(baseline().figures) == len(kinds) * len(names(healthy()))
    assert not any(entry.figure.unknown for entry in baseline().figures)


def test_another_healthy_run_passes() -> None:
    assert about(answers(StorageFleet(stated=NO_FLOOR, seed=11))) == [("passed", "", "lab")]


def test_a_volume_that_got_slower_for_all_is_a_regression_that_no_peer_can_see() -> None:
    fleet = StorageFleet(stated=NO_FLOOR, faults=("storage-slow-everywhere",))
    assert fleet.findings() == []
    (found,) = answers(fleet)
    assert about([found]) == [("failed", "regression", "lab")]
    assert {subject.node for subject in found.subjects[1:]} == set(names(fleet))


@pytest.mark.parametrize(
    ("figure", "factor", "status", "cause"),
    [
        ("sequential-write", 1.5, "passed", ""),
        ("sequential-write", 2.5, "other", "below-baseline"),
        ("random-read", 6.0, "failed", "slower-than-baseline"),
        ("sequential-read-p99", 0.6, "passed", ""),
        ("random-write-p99", 0.4, "other", "below-baseline"),
        ("random-read-p99", 0.25, "failed", "slower-than-baseline"),
        ("random-read", 0.2, "passed", ""),
        ("random-read-p99", 5.0, "passed", ""),
    ],
)
def test_one_host_that_lost_is_named(figure: str, factor: float, status: str, cause: str) -> None:
    """Throughput that was higher, and a latency that was shorter, are losses; the other way round nothing is."""
    found = answers(StorageFleet(stated=NO_FLOOR, seed=11), accepted_of("gpu03", figure, factor))
    assert about(found) == [(status, cause, "gpu03" if cause else "lab")]


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"rate_mib_s": 100.0}, "rate limit"),
        ({"parallel": 4}, "hosts at a time"),
        ({"volume": {"nfs": {"server": "other", "path": "/"}}}, "volume"),
    ],
)
def test_what_was_asked_otherwise_is_not_compared(stated: dict[str, Any], told: str) -> None:
    fleet = StorageFleet(stated=NO_FLOOR | stated)
    found = compare_gate(GATE, fleet.outcomes(), context(fleet))
    (reason,) = [entry.reason for entry in found.not_declared if entry.id == CHECK]
    assert f"{told} was" in reason


def test_a_host_without_figures_is_missed_and_a_failed_one_told_by_its_own_check() -> None:
    slow = answers(StorageFleet(stated=NO_FLOOR, faults=("storage-mount-slow@gpu03",)))
    assert {outcome.blocked_by for outcome in slow if outcome.status is not Status.PASSED} == {
        "storage-throughput", "storage-latency"
    }  # fmt: skip
    assert all("gpu03" in {subject.node for subject in outcome.subjects} for outcome in slow)


def test_a_run_whose_release_knew_fewer_figures_is_compared_by_the_tolerance_of_this_one() -> None:
    then = {CHECK: {"tolerance": {"mfu": 0.05, "step-time": 0.05}, "bad": 2.0, "spreads": 3.0}}
    assert about(answers(healthy(), saved_settings=then)) == [("passed", "", "lab")]


def test_half_of_what_is_better_when_it_is_more_is_no_tolerance() -> None:
    for figure, part in (("sequential-write", 0.5), ("mfu", 0.9)):
        with pytest.raises(InputError, match=f"for {figure}, expected less than 0.5"):
            settings_for(BaselineSettings, CHECK, {"tolerance": {figure: part}})
    wide = settings_for(BaselineSettings, CHECK, {"tolerance": {"random-read-p99": 3.0}})
    assert wide.limits.tolerance["random-read-p99"] == 3.0 and wide.limits.tolerance["mfu"] == 0.05
