# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Figures against accepted ones: one host that lost is named, what all lost is told once, other software is no loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from figure_rows import DRIVERS, GATE, HOSTS, SITE, accepted, all_nodes, busbw, context, fleet

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison import against_baseline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.comparison.gate import ComparedGate, compare_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Basis, Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.baseline import AcceptedBaseline

CHECK = "fabric-baseline"
BASELINE = accepted(fleet())


def compared(outcomes: tuple[Outcome, ...], judging: JudgeContext | None = None) -> ComparedGate:
    return compare_gate(GATE, outcomes, judging or context(BASELINE))


def only(outcomes: tuple[Outcome, ...], judging: JudgeContext | None = None) -> Outcome:
    (outcome,) = compared(outcomes, judging).outcomes
    return outcome


def reason(found: ComparedGate) -> str:
    assert not any(outcome.check == CHECK for outcome in found.outcomes)
    return next(entry.reason for entry in found.not_declared if entry.id == CHECK)


def about(outcome: Outcome) -> tuple[str, str, str]:
    return outcome.status.value, outcome.cause, outcome.subjects[0].name


def test_a_healthy_run_passes_and_says_what_was_compared() -> None:
    found = compared(fleet())
    (passed,) = found.outcomes
    assert about(passed) == ("passed", "", SITE.name) and "16 compared" in passed.summary
    assert {entry.basis for entry in passed.expected} == {Basis.BASELINE}
    assert found.declared == (CHECK,)


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (0.97, ("passed", "", SITE.name)),
        (0.93, ("other", "below-baseline", "gpu03")),
        (0.85, ("failed", "slower-than-baseline", "gpu03")),
        (1.2, ("passed", "", SITE.name)),
    ],
)
def test_one_host_that_lost_is_named(factor: float, expected: tuple[str, str, str]) -> None:
    assert about(only(fleet({"gpu03": factor}))) == expected


def test_what_all_hosts_lost_is_a_regression_told_once() -> None:
    found = only(fleet(dict.fromkeys(HOSTS, 0.92)))
    assert about(found) == ("failed", "regression", SITE.name)
    assert {subject.node for subject in found.subjects[1:]} == set(HOSTS)
    assert " of 16 lost together" in found.summary and "no fault of a host" in found.hint


def test_a_host_that_lost_more_than_the_others_is_named_beside_the_regression() -> None:
    found = compared(fleet(dict.fromkeys(HOSTS, 0.92) | {"gpu05": 0.7})).outcomes
    assert [about(outcome)[1:] for outcome in found] == [("regression", SITE.name), ("slower-than-baseline", "gpu05")]


def test_what_half_of_the_fleet_lost_is_told_once() -> None:
    found = only(fleet(dict.fromkeys(HOSTS[::2], 0.85)))
    assert about(found) == ("failed", "regression", SITE.name) and "8 of 16" in found.summary
    assert {subject.node for subject in found.subjects[1:]} == set(HOSTS[::2])


def test_two_of_many_are_faults_of_their_own() -> None:
    found = compared(fleet({"gpu03": 0.85, "gpu09": 0.85})).outcomes
    assert {about(outcome)[2] for outcome in found} == {"gpu03", "gpu09"}


@pytest.mark.parametrize(("whole", "cause"), [(0.97, ""), (0.93, "below-baseline"), (0.85, "regression")])
def test_a_figure_of_the_whole_cluster_stands_for_itself(whole: float, cause: str) -> None:
    assert about(only(fleet(whole=whole)))[1:] == (cause, SITE.name)


def test_two_hosts_that_lost_alike_are_too_few_to_be_certain() -> None:
    """Chance is not excluded with two, so a person looks at it."""
    pair = tuple(busbw(name, 470.0) for name in HOSTS[:2])
    slower = tuple(busbw(name, 435.0) for name in HOSTS[:2])
    assert about(only(slower, context(accepted(pair)))) == ("other", "below-baseline", SITE.name)


def test_another_driver_is_not_comparable_and_said() -> None:
    rolled = dict.fromkeys(HOSTS, "590.10")
    text = reason(compared(fleet(dict.fromkeys(HOSTS, 0.8)), context(BASELINE, rolled)))
    assert "driver was 580.95.05, is 590.10" in text and "nccl" not in text


def test_hosts_with_another_driver_are_left_out_and_the_others_compared() -> None:
    half = DRIVERS | dict.fromkeys(HOSTS[:4], "590.10")
    slow = fleet({"gpu01": 0.5, "gpu09": 0.5})
    named = [about(outcome)[2] for outcome in compared(slow, context(BASELINE, half)).outcomes]
    assert named == ["gpu09"]


@pytest.mark.parametrize("changed", [{"nccl": "2.30.7"}, {"size": 1 << 30}, {"algorithm": "TREE"}, {"ranks": 4}])
def test_each_condition_keeps_figures_apart(changed: dict[str, Any]) -> None:
    text = reason(compared(fleet(**changed)))
    assert f"is {next(iter(changed.values()))}" in text


def test_a_condition_that_is_not_known_now_is_not_passed_over() -> None:
    found = only(fleet(), context(BASELINE, {}))
    assert about(found) == ("other", "conditions-unknown", SITE.name) and "driver" in found.summary


def test_what_another_check_tells_is_not_told_twice() -> None:
    slow = busbw("gpu03", 200.0, Status.FAILED)
    found = only((*(o for o in fleet() if o.subjects[0].name != "gpu03"), slow))
    assert (found.blocked_by, found.subjects[1].name) == ("nccl-intra-node-bw", "gpu03")


def test_an_accepted_figure_that_was_not_measured_is_missed() -> None:
    found = only(tuple(o for o in fleet() if o.subjects[0].name != "gpu03"))
    assert about(found) == ("other", "figure-missing", SITE.name) and "gpu03" in found.summary


def test_a_figure_that_is_no_number_is_missed() -> None:
    broken = busbw("gpu03", float("nan"))
    found = only((*(o for o in fleet() if o.subjects[0].name != "gpu03"), broken))
    assert about(found)[1] == "figure-missing"


def test_a_host_that_left_and_one_that_came_are_said() -> None:
    aside = replace(SITE, quarantine=(Quarantine(node="gpu16", reason="r", ticket="t", who="w"),))
    new = AcceptedBaseline(
        site=SITE.name,
        rehearsal=False,
        figures=tuple(entry for entry in BASELINE.figures if entry.figure.subject != "gpu15"),
    )
    outcomes = tuple(o for o in fleet() if o.subjects[0].name != "gpu16")
    found = only(outcomes, context(new, site=aside))
    assert found.status is Status.PASSED
    assert "nothing was accepted of intra-node-busbw of gpu15" in found.summary and "gpu16" in found.summary


def test_without_a_baseline_the_check_is_not_declared_and_the_reason_is_said() -> None:
    empty = AcceptedBaseline(site=SITE.name, rehearsal=False, absent="nobody accepted a run of site island")
    assert "nobody accepted a run" in reason(compared(fleet(), context(empty)))
    assert "keeps none" in reason(compared(fleet(), context(None)))


def test_the_newest_acceptance_counts() -> None:
    newer = tuple(replace(entry, accepted="2026-11-22T10:00:00Z") for entry in accepted(fleet({"gpu03": 0.8})).figures)
    both = replace(BASELINE, figures=(*newer, *BASELINE.figures))
    assert only(fleet({"gpu03": 0.8}), context(both)).status is Status.PASSED


def test_a_crash_is_not_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_given: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(against_baseline, "compare", crash)
    assert about(only(fleet()))[:2] == ("other", "check-crashed")


def test_a_tolerance_of_the_site_counts() -> None:
    site = replace(SITE, settings={CHECK: {"tolerance": {"intra-node-busbw": 0.2}}})
    assert only(fleet({"gpu03": 0.85}), context(BASELINE, site=site)).status is Status.PASSED


def test_the_verdict_of_all_nodes_needs_the_same_nodes() -> None:
    found = only((*fleet()[:-1], all_nodes(390, nodes=15)))
    assert found.status is Status.PASSED and "nodes was 16, is 15" in found.summary
