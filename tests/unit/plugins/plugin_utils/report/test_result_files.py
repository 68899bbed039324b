# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result files of a run that stopped, and reports that a later judgement writes again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from report_runs import MadeRun, failed, passed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.registry import all_checks
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import rejudge, rewrite_reports
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status, node_subject
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.run_report import write_report
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.decision import refuse_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.digests import keep_digests
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import write_pending_suites
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import REPORTS

SCOPE = ("fabric", "nodes")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run over two gates that has not begun."""
    MadeRun(nodes=3, scope=SCOPE).write(tmp_path)
    return Run(tmp_path)


def test_gates_that_were_not_reached_have_their_files(run: Run, ctrf_schema: dict[str, Any]) -> None:
    import jsonschema

    write_pending_suites(run)
    assert {path.stem for path in (run.path / "ctrf").iterdir()} == set(SCOPE)
    suite = json.loads((run.path / "ctrf/nodes.json").read_text())
    jsonschema.validate(suite, ctrf_schema)
    assert {test["status"] for test in suite["results"]["tests"]} == {"pending"}
    asked = {test["labels"]["check"] for test in suite["results"]["tests"]}
    assert "gpu-census" in asked and asked <= {check.spec.id for check in all_checks()}
    cases = ElementTree.parse(run.path / "junit/nodes.xml").findall(".//testcase")
    assert len(cases) == len(asked) and all(case.find("skipped") is not None for case in cases)


def test_a_gate_that_was_judged_keeps_its_results(tmp_path: Path) -> None:
    made = MadeRun(nodes=2, scope=SCOPE)
    made.outcomes["fabric"] = (passed("fabric", "cabling", node_subject("gpu01")),)
    made.write(tmp_path)
    before = (tmp_path / "ctrf/fabric.json").read_bytes()
    write_pending_suites(Run(tmp_path))
    assert (tmp_path / "ctrf/fabric.json").read_bytes() == before
    assert (tmp_path / "ctrf/nodes.json").is_file()


def test_a_gate_that_did_not_converge_says_so_in_its_files(tmp_path: Path) -> None:
    MadeRun(nodes=3, scope=("nodes",)).write(tmp_path)
    run = Run(tmp_path)
    verdict = refuse_gate(run, "nodes", "helm exited 1")
    assert verdict.status is Status.OTHER
    tests = json.loads((run.path / "ctrf/nodes.json").read_text())["results"]["tests"]
    assert (tests[0]["status"], tests[0]["message"]) == ("other", "not-converged: helm exited 1")
    assert {test["status"] for test in tests[1:]} == {"pending"}
    assert "helm exited 1" in (run.path / "report.html").read_text()


def test_judging_again_writes_the_reports_and_leaves_the_record(tmp_path: Path) -> None:
    made = MadeRun(nodes=2, scope=("nodes",))
    made.outcomes["nodes"] = (failed("nodes", "gpu-census", node_subject("gpu01"), "gpu-missing"),)
    record = made.write(tmp_path)
    write_report(tmp_path, record)
    kept = {name: (tmp_path / name).read_bytes() for name in ("run.json", "ctrf/nodes.json", "site.json")}
    for name in REPORTS:
        (tmp_path / name).unlink()
    (tmp_path / "junit/nodes.xml").write_text("<old/>")
    (tmp_path / "hardware.json").write_text("{}")
    again, differences = rejudge(Run(tmp_path))
    assert rewrite_reports(Run(tmp_path), again, differences)
    assert all((tmp_path / name).is_file() for name in REPORTS)
    assert "gpu-missing" in (tmp_path / "junit/nodes.xml").read_text()
    assert {name: (tmp_path / name).read_bytes() for name in kept} == kept
    # There are no observations, so nothing that was recorded can be confirmed.
    assert differences and "which is not confirmed" in (tmp_path / "report.html").read_text()
    assert not rewrite_reports(Run(tmp_path), again, differences)


def test_run_directories_of_before_still_have_a_page(tmp_path: Path) -> None:
    made = MadeRun(nodes=2).healthy()
    record = made.write(tmp_path)
    for path in (tmp_path / "ctrf").iterdir():
        suite = json.loads(path.read_text())
        for test in suite["results"]["tests"]:
            del test["extra"]["outcome"]["series"]
        path.write_text(json.dumps(suite))
    old = json.loads((tmp_path / "run.json").read_text())
    del old["versions"]
    (tmp_path / "run.json").write_text(json.dumps(old))
    write_report(tmp_path, Run(tmp_path).record)
    page = (tmp_path / "report.html").read_text()
    assert "Nodes and checks" in page and "Measured curves" not in page
    assert record.run_id in page


def test_one_report_has_the_results_of_the_whole_run(tmp_path: Path, ctrf_schema: dict[str, Any]) -> None:
    import jsonschema

    made = MadeRun(nodes=2, scope=SCOPE)
    made.outcomes["fabric"] = (
        passed("fabric", "cabling", node_subject("gpu01"), started="2026-11-21T10:05:00.000Z", duration_s=60.0),
    )
    made.write(tmp_path / "run")
    run, dest = Run(tmp_path / "run"), tmp_path / "out/report.json"
    write_pending_suites(run)
    run.save_record(replace(run.record, ctrf_dest=str(dest)))
    digests = keep_digests(run.path)
    run.save_whole_suite()
    text = (run.path / "ctrf/all.json").read_text()
    whole = json.loads(text)
    jsonschema.validate(whole, ctrf_schema)
    assert dest.read_text() == text and whole["runId"] == run.record.run_id
    parts = [json.loads((run.path / f"ctrf/{gate}.json").read_text())["results"] for gate in SCOPE]
    assert whole["results"]["tests"] == [test for part in parts for test in part["tests"]]
    summary = whole["results"]["summary"]
    assert summary["tests"] == sum(part["summary"]["tests"] for part in parts) and summary["passed"] == 1
    assert summary["stop"] - summary["start"] == 60_000
    # It is no suite of a gate: it is not in itself, and a run that is judged again finds nothing changed.
    run.save_whole_suite()
    assert (run.path / "ctrf/all.json").read_text() == text and keep_digests(run.path) == digests


def test_a_suite_of_skipped_tests_was_not_made_in_1970(run: Run) -> None:
    write_pending_suites(run)
    summary = json.loads((run.path / "ctrf/nodes.json").read_text())["results"]["summary"]
    assert summary["start"] == summary["stop"] > 1_700_000_000_000


def test_a_run_without_results_has_no_such_report(run: Run) -> None:
    run.save_whole_suite()
    assert not (run.path / "ctrf/all.json").exists()
