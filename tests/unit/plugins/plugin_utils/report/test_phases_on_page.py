# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a validation on the page: what each validator answered, with its cause, and what was not looked at."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from page_tree import Element, parse
from report_runs import MadeRun, failed, passed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import ctrf_path, load_facts, write_suites
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.html import MOST_REASONS, render_page
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import GateVerdict, decide

CLUSTER = Subject(SubjectKind.CLUSTER, "here")
GOOD = passed("gpu_stack", "gpu-allocatable", node_subject("gpu01"))
BAD = failed("gpu_stack", "gang-admission", CLUSTER, "gang-partly-placed")
LEFT_OUT = Outcome(
    check="dra-allocation", gate="gpu_stack", status=Status.SKIPPED, rating=Rating.UNKNOWN, subjects=(CLUSTER,),
    summary="left out by gpufleet_skip_checks",
)  # fmt: skip
EVIL = '<script>alert("x")</script>'


def page_of(run_dir: Path, outcomes: dict[str, tuple[Outcome, ...]], *verdicts: GateVerdict) -> Element:
    """The page of a validation whose phases gave these outcomes; the other verdicts stand as they are."""
    made = MadeRun(nodes=2, scope=())
    record = made.write(run_dir)
    for phase, found in outcomes.items():
        write_suites(run_dir, phase, found, record, "0.1.0")
        seen = [outcome for outcome in found if outcome.status is not Status.SKIPPED]
        verdict = decide(phase, {o.check: () for o in seen}, seen, made.site, date(2026, 11, 21), ())
        record = record.with_phase(replace(verdict, duration_s=90.0))
    for verdict in verdicts:
        record = record.with_phase(verdict)
    return parse(render_page(load_facts(run_dir, record)))


def rows(page: Element) -> list[list[str]]:
    """The cells of the phases, and below those of validators, in their order."""
    return [[c.text for c in row.all("td")] for body in page.section("phases").all("tbody") for row in body.all("tr")]


def test_phases_that_passed_say_so_and_name_their_validators(tmp_path: Path) -> None:
    page = page_of(tmp_path, {"readiness": (GOOD,), "deployment": (GOOD,)})
    found = rows(page)
    assert [row[:2] for row in found[:2]] == [["readiness", "passed"], ["deployment", "passed"]]
    assert found[0][3] == "1 min 30 s"
    assert [(row[0], row[2], row[3]) for row in found[4:]] == [("gpu-allocatable", "1 passed", "")] * 2
    assert found[4][1] != "", "what the check proves"
    assert page.one("h1").text.startswith("Validation of") and page.one("div", cls="verdict").text.startswith("valid")
    assert "Failed and held" not in page.text and not any(e.attributes.get("id") == "gates" for e in page.all("h2"))


def test_a_phase_that_was_not_asked_or_not_reached_says_so(tmp_path: Path) -> None:
    closed = GateVerdict(gate="deployment", status=Status.PENDING, message="phase deployment: not reached, phase x")
    found = rows(page_of(tmp_path, {"readiness": (GOOD,)}, closed))
    assert [row[:3] for row in found[1:4]] == [
        ["deployment", "pending", "phase deployment: not reached, phase x"],
        ["conformance", "pending", "not asked in this run"],
        ["performance", "pending", "not asked in this run"],
    ]
    assert [row[0] for row in found[4:]] == ["gpu-allocatable"]


def test_what_failed_and_what_was_left_out_has_its_cause_and_comes_first(tmp_path: Path) -> None:
    found = rows(page_of(tmp_path, {"conformance": (GOOD, BAD, LEFT_OUT)}))
    lines = {row[0]: row for row in found[4:]}
    assert list(lines) == ["gang-admission", "dra-allocation", "gpu-allocatable"]
    assert lines["gang-admission"][2] == "1 failed"
    told = " ".join(lines["gang-admission"][3].split())
    assert told.startswith("gang-partly-placed on here: ") and BAD.summary in told and BAD.hint.replace("`", "") in told
    assert lines["dra-allocation"][2:] == ["1 skipped", "left out by gpufleet_skip_checks"]
    assert lines["gpu-allocatable"][2:] == ["1 passed", ""]


def test_many_results_of_one_validator_are_counted(tmp_path: Path) -> None:
    many = tuple(failed("gpu_stack", "gpu-allocatable", node_subject(f"n{i:02}"), "gpus-missing") for i in range(20))
    (line,) = rows(page_of(tmp_path, {"deployment": many}))[4:]
    assert line[2] == "20 failed" and line[3].count("gpus-missing") == MOST_REASONS
    assert f"and {20 - MOST_REASONS} more in ctrf/deployment.json" in line[3]


def test_a_check_without_an_answer_and_a_file_that_cannot_be_read_are_no_pass(tmp_path: Path) -> None:
    made = MadeRun(nodes=2, scope=())
    unanswered = decide("deployment", {"gpu-containers": ()}, (), made.site, date(2026, 11, 21), ())
    (line,) = rows(page_of(tmp_path, {"readiness": ()}, unanswered))[4:]
    assert line[0] == "gpu-containers" and "passed" not in line[2] and line[3]
    page_of(tmp_path, {"readiness": (GOOD,)})
    ctrf_path(tmp_path, "readiness").write_text("{", encoding="utf-8")
    record = made.write(tmp_path).with_phase(GateVerdict(gate="readiness", status=Status.OTHER, message="unread"))
    page = parse(render_page(load_facts(tmp_path, record)))
    assert "cannot be read" in page.one("header").text and "No validator answered." in page.section("phases").text


def test_hostile_words_of_a_validator_stay_text(tmp_path: Path) -> None:
    evil = replace(BAD, summary=EVIL, hint=EVIL)
    page = page_of(tmp_path, {"conformance": (evil,)})
    assert page.all("script") == [] and EVIL in page.section("phases").text


def test_a_bring_up_keeps_its_gates_and_shows_the_readiness_that_it_asked(tmp_path: Path) -> None:
    made = MadeRun(nodes=2).healthy()
    record = made.write(tmp_path)
    assert not any(e.attributes.get("id") == "phases" for e in parse(render_page(load_facts(tmp_path, record))).all())
    verdict = GateVerdict(gate="readiness", status=Status.PASSED, message="ready")
    page = parse(render_page(load_facts(tmp_path, record.with_phase(verdict))))
    assert [row[:2] for row in rows(page)] == [["readiness", "passed"]]
    assert page.section("gates") and page.one("h1").text.startswith("Bring-up of")
