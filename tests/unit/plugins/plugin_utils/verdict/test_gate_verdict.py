# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The verdict of a gate and of a run: every way in which something must not pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Acceptance, Quarantine, Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    NOT_OBSERVED,
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import (
    AppliedDecision,
    GateVerdict,
    NotDeclared,
    TakenOver,
    decide,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    Work,
    all_passed,
    new_run,
    not_ended_well,
    nothing_holds,
    require_open,
    run_summary,
    undecided_gates,
    with_site,
)

TODAY = date(2026, 11, 21)
NODES = ("gpu01", "gpu02", "gpu03")
SITE = make_site(tuple(Host(name=n, sku="h100", node_name=n) for n in NODES), name="s")
EXPECTED = {"gpu-census": NODES, "clock-sync": NODES}
RATING = {Status.PASSED: Rating.GOOD, Status.FAILED: Rating.BAD}


def outcome(check: str, node: str, status: Status = Status.PASSED, rating: Rating | None = None) -> Outcome:
    bad = status in (Status.FAILED, Status.OTHER)
    return Outcome(
        check=check,
        gate="nodes",
        status=status,
        rating=rating or RATING.get(status, Rating.UNKNOWN),
        subjects=(node_subject(node),),
        summary="text",
        cause="some-cause" if bad else "",
        hint="do it" if bad else "",
    )


HEALTHY = [outcome(check, node) for check in EXPECTED for node in NODES]


def verdict(
    outcomes: list[Outcome], site: Site = SITE, expected: dict[str, tuple[str, ...]] | None = None
) -> GateVerdict:
    return decide("nodes", EXPECTED if expected is None else expected, outcomes, site, TODAY)


def test_a_healthy_gate_passes_and_counts() -> None:
    found = verdict(HEALTHY)
    assert found.status is Status.PASSED and found.counts["passed"] == 6 and not found.blocking


@given(st.integers(0, 5), st.sampled_from([s for s in Status if s is not Status.PASSED]))
def test_one_outcome_of_any_other_status_holds_the_gate_and_is_named(position: int, status: Status) -> None:
    old = HEALTHY[position]
    changed = [*HEALTHY[:position], outcome(old.check, old.subjects[0].name, status), *HEALTHY[position + 1 :]]
    found = verdict(changed)
    assert found.status is (Status.FAILED if status is Status.FAILED else Status.OTHER)
    assert [(b.check, b.subject) for b in found.blocking] == [(old.check, old.subjects[0].name)]


@given(st.sets(st.integers(0, 5), min_size=1))
def test_every_missing_answer_is_other_and_named(missing: set[int]) -> None:
    found = verdict([o for n, o in enumerate(HEALTHY) if n not in missing])
    assert found.status is Status.OTHER
    assert {(b.check, b.subject) for b in found.blocking} == {
        (HEALTHY[n].check, HEALTHY[n].subjects[0].name) for n in missing
    }


def test_what_could_not_be_observed_is_named_itself_and_not_by_the_first_check_that_waited_for_it() -> None:
    reason = "not known: facility record r.yaml: no such file."
    of_one = [replace(outcome(c, "gpu01", Status.OTHER), cause=NOT_OBSERVED, summary=reason) for c in EXPECTED]
    rest = [entry for entry in HEALTHY if entry.subjects[0].name != "gpu01"]
    said = "gate nodes is not passed: not known: facility record r.yaml: no such file"
    assert verdict([*of_one, *rest]).message == said
    one_more = verdict([*of_one, *rest[1:], outcome(rest[0].check, "gpu02", Status.OTHER)])
    assert one_more.message == f"{said}; 1 more result is not passed"
    # What was seen to be bad explains more.
    failed = outcome(rest[0].check, rest[0].subjects[0].name, Status.FAILED)
    said = verdict([*of_one, *rest[1:], failed]).message
    assert said.endswith(f"{failed.check} on gpu02: some-cause; 2 more results are not passed")


def test_no_result_at_all_is_other() -> None:
    assert verdict([]).status is Status.OTHER


def test_a_declared_check_with_no_subject_and_no_outcome_is_other() -> None:
    assert verdict([], expected={"component-health": ()}).status is Status.OTHER


def test_a_result_that_was_not_declared_holds_the_gate_even_if_it_passed() -> None:
    assert verdict([*HEALTHY, outcome("stranger", "gpu01")]).blocking[0].cause == "undeclared-check"


def test_the_message_names_what_went_wrong_and_not_what_waits_for_it() -> None:
    blocked = {"cause": "blocked-by-gpu-census", "blocked_by": "gpu-census"}
    waiting = [replace(outcome("clock-sync", node, Status.OTHER), **blocked) for node in NODES]
    census = [*HEALTHY[:2], outcome("gpu-census", "gpu03", Status.OTHER)]
    found = verdict([*waiting, *census])
    assert "gpu-census on gpu03: some-cause; 3 more results are not passed" in found.message


def test_nothing_declared_is_skipped_with_the_reasons() -> None:
    left_out = NotDeclared(id="facility-power", title="Power", reason="needs facility_record: a tenant (of a room)")
    found = decide("facility", {}, [], SITE, TODAY, (left_out,))
    assert found.status is Status.SKIPPED and found.not_declared == (left_out,)
    assert found.message.endswith("facility-power (needs facility_record: a tenant (of a room))")
    assert found.key_figure == "not declared here: needs facility_record: a tenant (of a room)"


def _site(**change: object) -> Site:
    return replace(SITE, **change)


WAIVER = Waiver(check="gpu-census", subject="gpu02", reason="spare part", who="ada", until="2026-11-21")


def test_a_waiver_opens_the_gate_but_the_failure_stays_in_the_numbers() -> None:
    found = verdict(
        [*HEALTHY[:1], outcome("gpu-census", "gpu02", Status.FAILED), *HEALTHY[2:]], _site(waivers=(WAIVER,))
    )
    assert found.status is Status.PASSED and found.counts["failed"] == 1 and found.waived[0].who == "ada"


def test_what_is_not_good_about_a_part_of_the_site_is_an_answer_about_the_site() -> None:
    link = Subject(SubjectKind.LINK, "gpu01 mlx5_0:1 - leaf1:1", "gpu01")
    slow = replace(outcome("link-rate", "gpu01", Status.FAILED), subjects=(link,))
    expected = {"link-rate": ("s",)}
    assert [entry.cause for entry in decide("fabric", expected, [slow], SITE, TODAY).blocking] == ["some-cause"]
    waived = replace(WAIVER, check="link-rate", subject=link.name)
    assert decide("fabric", expected, [slow], _site(waivers=(waived,)), TODAY).status is Status.PASSED
    good = replace(outcome("link-rate", "gpu01"), subjects=(link,))
    found = decide("fabric", expected, [good], SITE, TODAY)
    assert [entry.cause for entry in found.blocking] == ["no-outcome"], "one good link is no answer about the site"


def test_an_expired_waiver_holds_the_gate_and_is_shown() -> None:
    old = replace(WAIVER, until="2026-11-20")
    found = verdict([*HEALTHY[:1], outcome("gpu-census", "gpu02", Status.FAILED), *HEALTHY[2:]], _site(waivers=(old,)))
    assert found.status is Status.FAILED and found.expired[0].until == "2026-11-20"


def test_an_acceptance_opens_for_marginal_and_not_for_unknown() -> None:
    site = _site(
        acceptances=(Acceptance(check="gpu-census", subject="gpu02", reason="r", who="w", until="2027-01-01"),)
    )
    rest = [*HEALTHY[:1], *HEALTHY[2:]]
    marginal = verdict([*rest, outcome("gpu-census", "gpu02", Status.OTHER, Rating.MARGINAL)], site)
    unknown = verdict([*rest, outcome("gpu-census", "gpu02", Status.OTHER)], site)
    assert marginal.status is Status.PASSED and marginal.accepted
    assert unknown.status is Status.OTHER


def test_a_quarantined_node_neither_holds_nor_counts() -> None:
    site = _site(quarantine=(Quarantine(node="gpu02", reason="r", ticket="t", who="w"),))
    expected = dict.fromkeys(EXPECTED, ("gpu01", "gpu03"))
    found = verdict([*HEALTHY, outcome("gpu-census", "gpu02", Status.FAILED)], site, expected)
    assert found.status is Status.PASSED and found.counts["failed"] == 0 and found.counts["passed"] == 4


def _run(scope: tuple[str, ...], *, rehearsal: bool = False, **statuses: Status) -> RunRecord:
    record = with_site(new_run("r", "s", "2026-11-21T00:00:00Z", scope, rehearsal=rehearsal), SITE)
    for gate, status in statuses.items():
        record = record.with_gate(GateVerdict(gate=gate, status=status, message=f"gate {gate} says"))
    return record


PASSED_ALL = dict.fromkeys(GATE_IDS, Status.PASSED)


def test_only_all_eight_gates_on_real_hardware_are_accepted() -> None:
    assert run_summary(_run(GATE_IDS, **PASSED_ALL)) == "accepted 3 of 3 nodes"
    rehearsed = run_summary(_run(GATE_IDS, rehearsal=True, **PASSED_ALL))
    assert "REHEARSAL" in rehearsed and "accepted" not in rehearsed


def test_a_run_with_an_undecided_gate_has_not_ended_well() -> None:
    assert not_ended_well(_run(GATE_IDS, **PASSED_ALL)) == ()
    partly = _run(GATE_IDS, **{gate: Status.PASSED for gate in GATE_IDS if gate != "training_acceptance"})
    assert undecided_gates(partly) == ("training_acceptance",)
    (text,) = not_ended_well(partly)
    assert text.startswith("1 of 8 gates in scope were not decided: training_acceptance; run without --tags")
    assert not_ended_well(_run(("nodes",), nodes=Status.FAILED)) == ("gate nodes says",)
    assert not_ended_well(_run(())) == ("no gate is in scope, so nothing is proven",)
    assert not_ended_well(replace(_run(("nodes",)), problem="no host answers")) == (
        "the run was not started: no host answers",
    )


@given(st.sets(st.sampled_from(GATE_IDS), max_size=7))
def test_a_part_of_the_gates_is_never_accepted(scope: set[str]) -> None:
    text = run_summary(_run(tuple(g for g in GATE_IDS if g in scope), **PASSED_ALL))
    assert "accepted" not in text
    assert all(gate in text for gate in scope)


@pytest.mark.parametrize("status", [s for s in Status if s not in (Status.PASSED, Status.SKIPPED)])
def test_one_gate_that_is_not_passed_keeps_the_run_from_passing(status: Status) -> None:
    record = _run(GATE_IDS, **PASSED_ALL | {"nodes": status})
    assert not all_passed(record) and run_summary(record).startswith("not passed")


def test_an_empty_scope_proves_nothing() -> None:
    assert not all_passed(_run(())) and run_summary(_run(())).startswith("nothing was proven")


def test_a_gate_stays_closed_until_the_one_before_it_in_scope_opened() -> None:
    record = _run(("facility", "nodes", "gpu_stack"))
    require_open(record, "facility")
    with pytest.raises(BringupError, match="facility is pending"):
        require_open(record, "nodes")
    require_open(_run(("facility", "nodes"), facility=Status.SKIPPED), "nodes")
    with pytest.raises(BringupError, match="outside the scope"):
        require_open(record, "fabric")


def test_inference_depends_on_the_fabric_and_not_on_training() -> None:
    passed = dict.fromkeys(GATE_IDS[:6], Status.PASSED)
    require_open(_run(GATE_IDS, **passed, training_acceptance=Status.FAILED), "inference_acceptance")


def test_both_acceptance_gates_that_are_not_passed_are_in_the_sentence() -> None:
    bad = {"training_acceptance": Status.FAILED, "inference_acceptance": Status.OTHER}
    text = run_summary(_run(GATE_IDS, **PASSED_ALL | bad))
    assert "training_acceptance says" in text and "inference_acceptance says" in text


@pytest.mark.parametrize("status", [Status.PASSED, Status.FAILED])
def test_a_step_that_was_skipped_is_named(status: Status) -> None:
    text = run_summary(_run(("training_acceptance",), training_acceptance=status))
    assert text.endswith("not proven before: facility, fabric, nodes, gpu_stack, telemetry, fabric_validation")
    whole = run_summary(_run(GATE_IDS[:3], **PASSED_ALL))
    assert "not proven" not in whole


def test_what_a_site_does_not_declare_was_not_passed() -> None:
    text = run_summary(_run(GATE_IDS[:3], **PASSED_ALL | {"facility": Status.SKIPPED}))
    assert text == "passed for fabric, nodes; not declared here: facility"


def test_what_was_taken_over_is_told_apart_from_what_this_run_proved() -> None:
    over = TakenOver(runs=("r1",), oldest="2026-11-20T10:00:00Z", newest="2026-11-20T10:00:00Z", results=8)
    record = _run(GATE_IDS, **PASSED_ALL).with_gate(
        GateVerdict(gate="facility", status=Status.SKIPPED, message="m", taken_over=over)
    )
    assert run_summary(record) == "accepted 3 of 3 nodes; facility taken over from run r1 of 2026-11-20"
    assert all_passed(record)
    supposed = run_summary(replace(record, what_if="a.b=1 (was 2)"))
    assert supposed.startswith("WHAT IF a.b=1 (was 2): would pass for fabric, ")
    assert "facility taken over from run r1 of 2026-11-20; this is no verdict of the run" in supposed


def test_work_that_a_judgement_does_not_confirm_is_not_passed() -> None:
    """A cycle, a roll or a burn-in decides no gate, and its recorded sentence is none to sign then."""
    done = replace(
        _run(()),
        work=Work(verb="continuous validation", sentence="1 cycle, 24 of 24 passed", passed=True, failed=False),
    )
    assert nothing_holds(done) and all_passed(done) and "24 of 24" in run_summary(done)
    other = replace(done, unconfirmed=1)
    assert not nothing_holds(other) and not all_passed(other)
    assert run_summary(other).startswith("NOT CONFIRMED: 1 difference") and "24 of 24" not in run_summary(other)


@pytest.mark.parametrize("rehearsal", [False, True])
def test_a_run_that_proved_nothing_is_not_passed(rehearsal: bool) -> None:
    empty = _run(("facility", "fabric"), rehearsal=rehearsal, facility=Status.SKIPPED, fabric=Status.SKIPPED)
    assert not all_passed(empty) and not nothing_holds(empty)
    (why,) = not_ended_well(empty)
    assert why.startswith(
        "nothing was proven: this site declares no check of facility, fabric; state gates in gpufleet"
    )
    word = "REHEARSAL nothing was proven" if rehearsal else "nothing was proven"
    assert run_summary(empty).startswith(f"{word}; not declared here: facility, fabric")
    failed = empty.with_gate(GateVerdict(gate="fabric", status=Status.FAILED, message="gate fabric says"))
    assert not_ended_well(failed) == ("gate fabric says",)


def test_passes_that_are_taken_over_prove_what_they_proved() -> None:
    over = TakenOver(runs=("r1",), oldest="2026-11-20T10:00:00Z", newest="2026-11-20T10:00:00Z", results=8)
    taken = GateVerdict(gate="facility", status=Status.SKIPPED, message="m", taken_over=over)
    record = _run(("facility", "fabric"), fabric=Status.SKIPPED).with_gate(taken)
    assert all_passed(record) and not_ended_well(record) == ()


@pytest.mark.parametrize(("passed", "good"), [(0, False), (1, True)])
def test_a_validation_whose_every_check_was_skipped_proved_nothing(passed: int, good: bool) -> None:
    counts = {Status.PASSED.value: passed, Status.SKIPPED.value: 4}
    skipped = GateVerdict(gate="readiness", status=Status.SKIPPED, message="4 checks skipped", counts=counts)
    record = replace(_run(()), phases=(skipped,))
    assert nothing_holds(record) is good and not all_passed(record)
    assert bool(not_ended_well(record)) is not good
    word = "validated in part" if good else "not validated"
    assert run_summary(record).startswith(word)


def test_what_people_accepted_and_by_which_limits_is_in_the_sentence() -> None:
    decided = [
        AppliedDecision(check="c", subject=f"gpu{n}", cause="slow", who=who, reason="r", until="2026-12-31")
        for n, who in enumerate(("ada", "bob", "ada"))
    ]
    gate = GateVerdict(gate="nodes", status=Status.PASSED, message="m", accepted=tuple(decided), waived=(decided[0],))
    record = _run(GATE_IDS, **PASSED_ALL).with_gate(gate)
    text = "accepted 3 of 3 nodes, 1 result waived, 3 marginal results let through by 2 people"
    assert run_summary(record) == text
    limits = ("clock-sync.clock_offset_s 9 (release: 0.001)", "dcgm-diag.level 0 (release: 3)")
    said = run_summary(replace(record, own_limits=limits))
    assert said == f"{text}, with 2 limits other than the release's (dcgm-diag.level 0 (release: 3))"
    part = replace(_run(("nodes",), nodes=Status.PASSED), own_limits=limits[:1])
    assert run_summary(part).startswith("passed for nodes, with 1 limit other than the release's; not proven before")
