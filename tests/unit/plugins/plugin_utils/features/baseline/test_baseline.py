# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run that is accepted, refused, and compared; and runs that are judged by what was accepted before they began."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from old_runs import without_unrecorded
from returned import described, misfits

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import GatePlan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.baseline.app import (
    accept_run,
    acceptable_figures,
    acceptance_lines,
    accepted_text,
    compare_run,
    comparison_lines,
    existing_baselines,
    figures_of_run,
    keep_baseline,
    nothing_accepted,
    plain_changes,
    plain_software_changes,
    take_back,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import judged_again, rejudge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run import decision
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.baselines import BaselineStore, open_baselines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import Acceptance
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import AppliedDecision, Blocking

ARCHIVE = Path(__file__).resolve().parents[5] / "data" / "saved_runs" / "0.1.0_healthy.tar.xz"
GATE = "fabric_validation"
GATES = [GATE, "training_acceptance"]
HOSTS = ("gpu01", "gpu02", "gpu03", "gpu04")
NEWER = (
    "gpu-gemm-rate", "gpu-numerics", "host-state-after-nccl", "job-networking", "link-errors-under-load",
    "nccl-pair-bw",
)  # fmt: skip
WHO = {"who": "ada", "why": "ticket 1", "check_mode": False}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    path = tmp_path / "runs" / "r-1"
    unpack(ARCHIVE, path)
    without_unrecorded(path)
    return Run(path)


@pytest.fixture(autouse=True)
def as_declared_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks that the release of the saved run had: it has no observations for newer ones."""
    declaration = Run.declaration

    def then(run: Run, gate: str) -> GatePlan:
        found = declaration(run, gate)
        return found.only({check.id for check in found.checks} - set(NEWER))

    monkeypatch.setattr(Run, "declaration", then)


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return open_baselines(tmp_path / "history.sqlite")


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, float]], None]:
    """Makes hosts slower by a factor, as if NCCL had measured it; checks of the ceiling still pass."""

    def slow(factors: dict[str, float]) -> None:
        judge = decision.judge_gate

        def judged(*given: Any) -> tuple[Outcome, ...]:
            return tuple(_slower(outcome, factors) for outcome in judge(*given))

        monkeypatch.setattr(decision, "judge_gate", judged)

    return slow


def _slower(outcome: Outcome, factors: dict[str, float]) -> Outcome:
    factor = factors.get(outcome.subjects[0].node, 1.0) if outcome.check == "nccl-intra-node-bw" else 1.0
    values = (
        replace(m, value=round(float(str(m.value)) * factor, 2)) if m.name == "busbw" else m for m in outcome.measured
    )
    return replace(outcome, measured=tuple(values))


def _again(run: Run, store: BaselineStore) -> Run:
    """The same run as a later one, which is judged by what is accepted now."""
    keep_baseline(run, str(store.place))
    return run


def _causes(run: Run) -> list[tuple[str, str, str]]:
    outcomes = [o for o in run.own_outcomes(GATE) if o.check == "fabric-baseline"]
    return [(o.status.value, o.cause, o.subjects[0].name) for o in outcomes]


@pytest.mark.parametrize("missing", ["who", "why"])
def test_nobody_accepts_a_run_without_a_name_and_a_reason(run: Run, store: BaselineStore, missing: str) -> None:
    with pytest.raises(InputError, match="lacks who or why"):
        accept_run(run, store, GATES, **{**WHO, missing: " "})


def test_a_healthy_run_is_accepted_once_and_the_next_one_passes(run: Run, store: BaselineStore) -> None:
    accepted, new = accept_run(run, store, GATES, **WHO)
    assert new and accepted.number == 1 and len(accepted.figures) == 7
    assert accept_run(run, store, GATES, **WHO)[1] is False
    verdict = decision.decide_gate(_again(run, store), GATE)
    assert verdict.status is Status.PASSED
    assert _causes(run) == [("passed", "", "rehearsal")]
    assert [entry.id for entry in verdict.not_declared if "baseline" in entry.id] == []
    assert "accepted by ada" in acceptance_lines(store.accepted_runs("rehearsal", rehearsal=True))[0]


def test_all_hosts_slower_by_8_percent_is_a_regression_told_once(
    run: Run, store: BaselineStore, slowed: Callable[[dict[str, float]], None]
) -> None:
    accept_run(run, store, GATES, **WHO)
    slowed(dict.fromkeys(HOSTS, 0.88))
    verdict = decision.decide_gate(_again(run, store), GATE)
    assert verdict.status is Status.FAILED and _causes(run) == [("failed", "regression", "rehearsal")]


def test_one_host_slower_by_8_percent_is_named_and_waits_for_a_person(
    run: Run, store: BaselineStore, slowed: Callable[[dict[str, float]], None]
) -> None:
    accept_run(run, store, GATES, **WHO)
    slowed({"gpu03": 0.92})
    verdict = decision.decide_gate(_again(run, store), GATE)
    assert verdict.status is Status.OTHER and _causes(run) == [("other", "below-baseline", "gpu03")]


def test_a_loss_that_is_meant_is_accepted(
    run: Run, store: BaselineStore, slowed: Callable[[dict[str, float]], None]
) -> None:
    accept_run(run, store, [GATE], **WHO)
    slowed(dict.fromkeys(HOSTS, 0.88))
    decision.decide_gate(_again(run, store), GATE)
    assert accept_run(run, store, [GATE], **WHO)[1]
    assert decision.decide_gate(_again(run, store), GATE).status is Status.PASSED


def test_what_was_accepted_after_a_run_began_does_not_change_its_verdict(run: Run, store: BaselineStore) -> None:
    keep_baseline(run, str(store.place))
    verdict = decision.decide_gate(run, GATE)
    accept_run(run, store, GATES, **WHO)
    run.reload()
    assert rejudge(run)[1] == []
    reasons = {entry.id: entry.reason for entry in verdict.not_declared}
    assert "nobody accepted a run of site rehearsal" in reasons["fabric-baseline"]


def test_a_comparison_that_was_taken_out_of_the_results_is_missed(run: Run, store: BaselineStore) -> None:
    accept_run(run, store, GATES, **WHO)
    decision.decide_gate(_again(run, store), GATE)
    path = run.path / "ctrf" / f"{GATE}.json"
    document = json.loads(path.read_text())
    tests = document["results"]["tests"]
    document["results"]["tests"] = [test for test in tests if "fabric-baseline" not in json.dumps(test)]
    document["results"]["summary"]["tests"] = len(document["results"]["tests"])
    document["results"]["summary"]["passed"] -= 1
    path.write_text(json.dumps(document))
    run.reload()
    verdict = decision.verdict_from_files(run, run.declaration(GATE))
    assert verdict.status is not Status.PASSED


def test_the_baseline_of_a_run_that_was_taken_out_of_it_is_missed(run: Run, store: BaselineStore) -> None:
    accept_run(run, store, GATES, **WHO)
    decision.decide_gate(_again(run, store), GATE)
    (run.path / "baseline.json").unlink()
    run.reload()
    verdict = decision.verdict_from_files(run, run.declaration(GATE))
    assert [entry.cause for entry in verdict.blocking] == ["undeclared-check"]


def test_old_runs_are_judged_as_before(run: Run) -> None:
    assert rejudge(run)[1] == []
    assert not any("baseline" in outcome.check for outcome in judged_again(run, GATE))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"store": ""}, "without a history"),
        ({"store": "new.sqlite"}, "is new"),
        ({"check_mode": True}, "check mode"),
    ],
)
def test_why_nothing_is_compared_is_kept(run: Run, store: BaselineStore, options: dict[str, Any], word: str) -> None:
    run.save_record(replace(run.record, check_mode=options.get("check_mode", False)))
    kept = keep_baseline(run, options.get("store", str(store.place)))
    assert not kept.figures and word in kept.absent and Run(run.path).baseline == kept


def test_real_runs_are_not_compared_with_rehearsals(run: Run, store: BaselineStore) -> None:
    accept_run(run, store, GATES, **WHO)
    run.save_record(replace(run.record, rehearsal=False))
    assert keep_baseline(run, str(store.place)).figures == ()


def _blocked(run: Run, check: str) -> None:
    entry = Blocking(check=check, subject="gpu01", status=Status.FAILED, cause="seen-bad", summary="seen")
    verdict = replace(run.record.gate(GATE), status=Status.FAILED, blocking=(entry,))
    run.save_record(run.record.with_gate(verdict))


def _waived(run: Run) -> None:
    words = {"check": "nccl-pair-bw", "subject": "gpu01", "cause": "c", "reason": "r", "until": "2027-01-01"}
    verdict = replace(run.record.gate(GATE), waived=(AppliedDecision(who="eve", **words),))
    run.save_record(run.record.with_gate(verdict))


def _without_driver(run: Run) -> None:
    for path in (run.path / "evidence" / "hosts").glob("*.json"):
        path.unlink()


@pytest.mark.parametrize(
    ("spoil", "gates", "word"),
    [
        (lambda run: _blocked(run, "nccl-pair-bw"), GATES, "is failed: nccl-pair-bw on gpu01"),
        (_waived, GATES, "passed by a waiver: nccl-pair-bw on gpu01"),
        (_without_driver, GATES, "driver not known"),
        (lambda _run: None, ["nodes"], "has no figures"),
        (lambda run: run.save_record(replace(run.record, scope=("facility",))), [], r"run \S+: has no figures"),
        (lambda _run: None, ["inference_acceptance"], "server not known"),
        (lambda run: run.save_record(replace(run.record, check_mode=True)), GATES, "check mode"),
    ],
)
def test_what_is_no_baseline_is_refused_with_the_reason(
    run: Run, spoil: Callable[[Run], None], gates: list[str], word: str
) -> None:
    spoil(run)
    run.reload()
    with pytest.raises(BringupError, match=word):
        acceptable_figures(run, gates)


def test_a_roll_that_is_the_latest_run_is_refused_with_the_newest_run_that_can_be_accepted(
    run: Run, store: BaselineStore
) -> None:
    good, roll = run.path.parent / "20260101T000000Z-aaaa", run.path.parent / "20260102T000000Z-bbbb"
    shutil.copytree(run.path, good)
    shutil.copytree(run.path, roll)
    _blocked(Run(roll), "nccl-pair-bw")
    with pytest.raises(BringupError, match=r"newest run beside it that can be accepted: -e gpufleet_run=\S+aaaa"):
        accept_run(Run(roll), store, [GATE], "ada", "T-1", check_mode=True)
    _blocked(Run(good), "nccl-pair-bw")
    with pytest.raises(BringupError) as error:
        accept_run(Run(roll), store, [GATE], "ada", "T-1", check_mode=True)
    assert "newest run" not in str(error.value)


def test_nothing_accepted_says_where_the_acceptances_of_that_site_are() -> None:
    assert nothing_accepted("a", 0, rehearsal=False) == "nothing is accepted for site a"
    assert "of rehearsals there are 2, shown by: -e gpufleet_baseline_rehearsal=true" in nothing_accepted(
        "a", 2, rehearsal=False
    )
    assert "of real runs there are 1" in nothing_accepted("a", 1, rehearsal=True)


def test_only_its_own_comparison_may_have_failed(run: Run) -> None:
    _blocked(run, "fabric-baseline")
    assert acceptable_figures(run, [GATE])


def test_only_passed_results_give_figures(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = tuple(
        replace(o, status=Status.OTHER, rating=Rating.MARGINAL, cause="seen-bad", hint="h")
        if o.check == "nccl-intra-node-bw" and o.subjects[0].name == "gpu01"
        else o
        for o in run.own_outcomes(GATE)
    )
    monkeypatch.setattr(run, "own_outcomes", lambda _gate: outcomes)
    subjects = [figure.subject for figure in acceptable_figures(run, [GATE])[GATE]]
    assert "gpu01" not in subjects and "gpu02" in subjects


def test_check_mode_writes_nothing(run: Run, store: BaselineStore) -> None:
    accepted, new = accept_run(run, store, GATES, **WHO | {"check_mode": True})
    assert new and accepted.number == 0 and store.accepted_runs("rehearsal", rehearsal=True) == ()
    hosts = len({kept.figure.node for kept in accepted.figures if kept.figure.node})
    what = f"{len(accepted.figures)} figures of {hosts} hosts ({', '.join(GATES)}), by ada"
    would = accepted_text(accepted, new=True, check_mode=True)
    assert would == f"run {run.record.run_id} would be accepted: {what}; nothing was written"
    written = accept_run(run, store, GATES, **WHO)[0]
    assert accepted_text(written, new=True, check_mode=False) == f"run {run.record.run_id} accepted: {what}"
    again = accepted_text(*accept_run(run, store, GATES, **WHO)[:1], new=False, check_mode=True)
    assert " is accepted already: " in again and again.endswith("; nothing was written")
    assert "would be taken back by bob; nothing was written" in take_back(store, 1, "bob", "why", check_mode=True)
    assert store.accepted_figures("rehearsal", rehearsal=True)
    take_back(store, 1, "bob", "why", check_mode=False)
    assert store.accepted_figures("rehearsal", rehearsal=True) == ()
    assert "taken back by bob" in acceptance_lines(store.accepted_runs("rehearsal", rehearsal=True))[0]


def test_two_runs_are_compared_and_both_values_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    before = figures_of_run(run)
    outcomes = {gate: run.own_outcomes(gate) for gate in (*GATES, "inference_acceptance")}
    slower = {gate: tuple(_slower(o, {"gpu03": 0.8}) for o in own) for gate, own in outcomes.items()}
    monkeypatch.setattr(run, "own_outcomes", lambda gate: slower[gate])
    found = compare_run(run, before)
    assert [entry.figure for entry in found.worse] == ["intra-node-busbw"]
    lines = comparison_lines(found)
    assert any(line.startswith("intra-node-busbw: worse; 4 compared, worst gpu03 -20.0%") for line in lines)
    assert list(misfits(plain_changes(found), described("baseline_info", "compared"))) == []
    change = next(c for c in plain_changes(found) if c["subject"] == "gpu03" and c["figure"] == "intra-node-busbw")
    assert change["before"] > change["now"] and change["change"] == pytest.approx(-0.2, abs=0.001)


def test_a_history_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BringupError, match="no such file"):
        existing_baselines(str(tmp_path / "none.sqlite"))
    with pytest.raises(BringupError, match="is empty"):
        existing_baselines("")


def test_a_new_driver_is_told_before_and_after_and_its_key_is_kept_beside_the_old_one(
    run: Run, store: BaselineStore
) -> None:
    now = acceptable_figures(run, [GATE])[GATE]
    old = [
        replace(figure, value=figure.value * 1.1, conditions={**figure.conditions, "driver": "570.1"}) for figure in now
    ]
    words = Acceptance(
        site="rehearsal", rehearsal=True, run_id="r-0", who="ada", accepted="2026-11-01", why="t", what=GATE
    )
    store.accept(words, {GATE: old})
    found = compare_run(run, store.accepted_figures("rehearsal", rehearsal=True))
    assert not found.compared and not found.worse
    assert list(misfits(plain_software_changes(found), described("baseline_info", "software"))) == []
    told = {entry["figure"]: entry for entry in plain_software_changes(found)}
    assert told["intra-node-busbw"]["subjects"] == len(HOSTS)
    assert told["intra-node-busbw"]["change"] == pytest.approx(1 / 1.1 - 1, abs=1e-6)
    # Four hosts are too few to exclude chance, however much they lost.
    assert told["intra-node-busbw"]["effect"] == "unknown"
    lines = comparison_lines(found)
    assert any(line.startswith("before and after: intra-node-busbw with driver 570.1 -> ") for line in lines)
    accept_run(run, store, [GATE], **WHO)
    kept = store.accepted_figures("rehearsal", rehearsal=True)
    assert {entry.figure.conditions["driver"] for entry in kept} == {"570.1", now[0].conditions["driver"]}
    assert compare_run(run, kept).compared and not compare_run(run, kept).rolled
