# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a validation ends with on a terminal: the phases that were asked and what holds them, and no gate."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from report_runs import MadeRun, failed, passed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status, Subject, SubjectKind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import closing_lines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import load_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.markdown import render_markdown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import Blocking, GateVerdict, decide
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    new_run,
    with_phases,
    with_verb,
)

CLUSTER = Subject(SubjectKind.CLUSTER, "here")
GOOD = passed("gpu_stack", "gpu-allocatable", CLUSTER)
BAD = failed("gpu_stack", "gang-admission", CLUSTER, "gang-partly-placed")
ASKED = ("readiness", "deployment", "conformance")


def validation(**found: Status) -> RunRecord:
    """A run that was asked three phases, those of these words decided."""
    record = with_phases(new_run("r1", "lab", "2026-11-22T10:00:00Z", GATE_IDS, rehearsal=False), ASKED)
    made = MadeRun(nodes=2, scope=())
    for phase, status in found.items():
        outcome = GOOD if status is Status.PASSED else BAD
        verdict = decide(phase, {outcome.check: ()}, (outcome,), made.site, date(2026, 11, 21), ())
        record = record.with_phase(replace(verdict, duration_s=90.0))
    return record


def words(record: RunRecord) -> set[str]:
    return set(" ".join(closing_lines(record, Path("/r"))).split())


def test_the_table_has_the_phases_that_were_asked_and_no_gate() -> None:
    lines = closing_lines(validation(readiness=Status.PASSED, deployment=Status.PASSED), Path("/r"))
    assert lines[0].split() == ["phase", "status", "checks", "duration", "result"]
    assert [line.split()[:2] for line in lines[2:5]] == [
        ["readiness", "passed"], ["deployment", "passed"], ["conformance", "pending"],
    ]  # fmt: skip
    assert "1 min 30 s" in lines[3] and lines[5] == "" and "not reached" in lines[4]
    assert not {*GATE_IDS, "performance"} & words(validation(readiness=Status.PASSED))


def test_what_a_rehearsal_replaces_is_one_line_with_the_way_to_the_rest() -> None:
    notes = ("rehearsal: hosts: 4 simulated", "rehearsal: charts: stand-ins", "a dead run left pod x")
    lines = closing_lines(replace(validation(readiness=Status.PASSED), notes=notes), Path("/r"))
    assert [line for line in lines if line.startswith("note ")] == [
        "note     rehearsal: 2 things are simulated or replaced; /r/report.md lists them",
        "note     a dead run left pod x",
    ]


def test_what_holds_a_phase_is_told_with_its_cause_and_what_to_do() -> None:
    text = "\n".join(closing_lines(validation(readiness=Status.PASSED, deployment=Status.FAILED), Path("/r")))
    assert "failed   gang-admission on here: gang-partly-placed" in text and f"do: {BAD.hint}" in text
    assert "verdict  not validated: readiness passed; deployment failed; conformance pending" in text


def test_a_validation_that_was_refused_names_the_problem_and_no_gate() -> None:
    refused = replace(validation(), problem="contact: this user may not list pods.")
    text = "\n".join(closing_lines(refused, Path("/r")))
    assert "verdict  not started: contact: this user may not list pods." in text
    assert not set(GATE_IDS) & words(refused) and "passed" not in words(refused)


def test_a_bring_up_that_asked_its_readiness_keeps_its_gates() -> None:
    record = new_run("r1", "lab", "2026-11-22T10:00:00Z", GATE_IDS, rehearsal=False)
    record = record.with_phase(GateVerdict(gate="readiness", status=Status.PASSED, message="ready"))
    assert set(GATE_IDS) <= words(record) and closing_lines(record, Path("/r"))[0].split()[:2] == ["#", "gate"]


def test_the_summary_says_of_what_it_is(tmp_path: Path) -> None:
    for record, word in ((validation(), "validation"), (replace(validation(), phases=()), "bring-up")):
        facts = load_facts(tmp_path, record)
        assert render_markdown(facts).startswith(f"## {word} of lab: not passed\n")


def test_a_run_that_was_refused_shows_its_problem_and_no_table() -> None:
    record = new_run("r1", "lab", "2026-11-22T10:00:00Z", GATE_IDS, rehearsal=False)
    lines = closing_lines(replace(record, problem="hosts gpu01 and gpu02: no rack."), Path("/r"))
    assert lines[0] == "verdict  not started: hosts gpu01 and gpu02: no rack." and not set(GATE_IDS) & set(lines)


def test_one_cause_of_many_checks_is_told_once() -> None:
    record = new_run("r1", "lab", "2026-11-22T10:00:00Z", GATE_IDS, rehearsal=False)
    about = {"status": Status.OTHER, "cause": "record-invalid", "summary": "the record is a draft.", "hint": "sign it"}
    entries = tuple(Blocking(check=f"check-{i}", subject="lab", **about) for i in range(10))
    verdict = GateVerdict(gate="facility", status=Status.OTHER, message="m", checks=10, blocking=entries)
    text = "\n".join(closing_lines(record.with_gate(verdict), Path("/r")))
    assert text.count("the record is a draft.") == text.count("do: sign it") == 1
    assert "other    check-0, check-1, check-2 and 7 more on lab: record-invalid" in text


def test_what_three_cycles_found_on_a_node_is_told_once() -> None:
    record = with_verb(new_run("r1", "lab", "2026-11-22T10:00:00Z", (), rehearsal=False), "continuous validation")
    for number in (1, 2, 3):
        entry = Blocking(
            check="nccl-loop", subject="gpu04", status=Status.FAILED, cause="slow-adapter",
            summary=f"gpu04 does {20 + number} GB/s", hint="read the log",
        )  # fmt: skip
        cycle = GateVerdict(gate=f"cycle-00{number}", status=Status.FAILED, message="m", blocking=(entry,))
        record = record.with_phase(cycle)
    text = "\n".join(closing_lines(record, Path("/r")))
    assert text.count("nccl-loop on gpu04: slow-adapter") == 1 and "gpu04 does 23 GB/s" in text
