# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files for programs and for pull requests: metrics that Prometheus parses, a summary that shows what it says."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from report_runs import MadeRun, failed, passed

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine, Waiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Measure,
    Status,
    Subject,
    SubjectKind,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import load_facts, write_suites
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.markdown import plain, render_markdown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.metrics import render_metrics
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.run_report import write_report
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import REPORTS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import GateVerdict, decide

ODD = 'si"te\\ with\na line'
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples_of(made: MadeRun, run_dir: Path) -> Samples:
    text = render_metrics(load_facts(run_dir, made.write(run_dir)))
    assert text.endswith("\n") and "\n\n" not in text
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.name.startswith("gpufleet_bringup_") and family.documentation and family.type == "gauge"
        for sample in family.samples:
            assert sample.timestamp is None and sample.labels["rehearsal"] in ("true", "false")
            labels = frozenset((k, v) for k, v in sample.labels.items() if k not in ("site", "rehearsal"))
            assert (sample.name, labels) not in found
            found[sample.name.removeprefix("gpufleet_bringup_"), labels] = sample.value
    return found


def at(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def test_metrics_say_what_the_run_says(tmp_path: Path) -> None:
    aside = Quarantine(node="gpu04", reason="r", ticket="t", who="w")
    waiver = Waiver(check="gpu-ecc", subject="gpu02", reason="r", who="w", until="2026-12-31")
    made = MadeRun(nodes=4, quarantine=(aside,), waivers=(waiver,)).healthy()
    bad = failed("nodes", "gpu-ecc", node_subject("gpu02"), "ecc")
    made.outcomes["nodes"] = (*made.outcomes["nodes"], bad)
    del made.outcomes["inference_acceptance"]
    found = samples_of(made, tmp_path)
    assert at(found, "run_passed") == 0
    assert (at(found, "nodes", state="in_scope"), at(found, "nodes", state="quarantined")) == (3, 1)
    assert at(found, "gate_status", gate="nodes", status="passed") == 1
    assert at(found, "gate_status", gate="inference_acceptance", status="pending") == 1
    assert sum(v for (n, _l), v in found.items() if n == "gate_status") == len(GATE_IDS)
    assert at(found, "gate_results", gate="nodes", status="failed") == 1
    assert at(found, "gate_decisions", gate="nodes", decision="waived") == 1
    assert at(found, "gate_duration_seconds", gate="nodes") == 90
    assert at(found, "check_results", gate="nodes", check="gpu-ecc", status="failed") == 1
    assert at(found, "node_results", gate="nodes", node="gpu02", status="failed") == 1
    assert at(found, "run_started_timestamp_seconds") == 1795255200.0


def test_metrics_of_a_validation_speak_of_its_phases_alone(tmp_path: Path) -> None:
    cluster = Subject(SubjectKind.CLUSTER, "site-1")
    seen = {
        "readiness": (passed("gpu_stack", "recipe-constraints", cluster),),
        "conformance": (failed("gpu_stack", "gang-admission", cluster, "gang-partial"),),
    }
    made = MadeRun(nodes=2, scope=())
    record = made.write(tmp_path)
    for phase, found in seen.items():
        write_suites(tmp_path, phase, found, record, "0.1.0")
        verdict = decide(phase, {o.check: () for o in found}, found, made.site, date(2026, 11, 21), ())
        record = record.with_phase(replace(verdict, duration_s=90.0))
    record = record.with_phase(GateVerdict(gate="performance", status=Status.PENDING, message="not reached"))
    text = render_metrics(load_facts(tmp_path, record))
    assert "gate" not in text.replace("gate in scope", "").replace("gang-admission", "")
    samples = {
        (sample.name.removeprefix("gpufleet_bringup_"), *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    about = (("rehearsal", "false"), ("site", "site-1"))

    def sample(name: str, **labels: str) -> float:
        return samples[(name, *sorted((*about, *labels.items())))]

    states = {"readiness": "passed", "conformance": "failed", "performance": "pending"}
    for phase, status in states.items():
        assert {s: sample("phase_status", phase=phase, status=s.value) for s in Status} == {
            s: float(s.value == status) for s in Status
        }
    assert sample("phase_results", phase="conformance", status="failed") == 1
    assert sample("phase_duration_seconds", phase="readiness") == 90
    assert sample("check_results", phase="conformance", check="gang-admission", status="failed") == 1
    assert sample("run_passed") == 0
    assert not any(name[0] == "phase_results" and ("phase", "performance") in name for name in samples)


def test_figures_of_the_whole_are_in_base_units(tmp_path: Path) -> None:
    made = MadeRun(nodes=2).healthy()
    whole = Subject(SubjectKind.CLUSTER, "site-1")
    measures = (
        Measure("busbw", 399.73, "GB/s"),
        Measure("ttft p99", 250, "ms"),
        Measure("mfu", 41.5, "%"),
        Measure("algorithm", "ring"),
        Measure("checked", True, "count"),
        Measure("odd", 1.0, "furlong"),
    )
    nodes = passed("fabric_validation", "node-bw", node_subject("gpu01"), measured=measures)
    made.outcomes["fabric_validation"] = (passed("fabric_validation", "bw", whole, measured=measures), nodes)
    found = {
        name: value for (name, _labels), value in samples_of(made, tmp_path).items() if name.startswith("measured")
    }
    assert found == {
        "measured_bytes_per_second": pytest.approx(399.73e9),
        "measured_seconds": 0.25,
        "measured_ratio": pytest.approx(0.415),
    }


def test_every_sample_of_a_rehearsal_says_so_and_odd_names_survive(tmp_path: Path) -> None:
    made = MadeRun(nodes=2, rehearsal=True, name=ODD).healthy()
    text = render_metrics(load_facts(tmp_path, made.write(tmp_path)))
    labels = [s.labels for family in text_string_to_metric_families(text) for s in family.samples]
    assert len(labels) > 50 and all(found["rehearsal"] == "true" and found["site"] == ODD for found in labels)


def test_the_summary_tells_gates_cases_and_decisions(tmp_path: Path) -> None:
    waiver = Waiver(check="gpu-ecc", subject="gpu02", reason="spare | ordered", who="a@b.example", until="2026-12-31")
    made = MadeRun(nodes=4, waivers=(waiver,)).healthy()
    bad = [failed("nodes", "nvlink", node_subject(name), "nvlink-inactive") for name in made.names[:3]]
    made.outcomes["nodes"] = (*bad, failed("nodes", "gpu-ecc", node_subject("gpu02"), "ecc"))
    text = render_markdown(load_facts(tmp_path, made.write(tmp_path)))
    assert text.startswith("## bring-up of site-1: not passed\n")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "| ---" not in line]
    assert len(rows) == 1 + len(GATE_IDS) and all(row.replace("\\|", "").count("|") == 6 for row in rows)
    assert "| 3 | nodes | **failed** | 1 min 30 s |" in text
    assert "- **failed** nvlink: nvlink-inactive on gpu01 to gpu03" in text
    assert "0.85 x 480, bad under 0.75 x; 8 x 400 Gb/s / 8" in text and "do: look at gpu01 with `ibstat`" in text
    assert "waiver of gpu-ecc on gpu02" in text and "spare \\| ordered; waived 1: ecc on gpu02" in text
    assert "a@<!-- -->b.example" in text


def test_the_summary_of_a_rehearsal_says_so_and_the_summary_of_a_catastrophe_is_short(tmp_path: Path) -> None:
    made = MadeRun(nodes=50, rehearsal=True).healthy()
    made.outcomes["nodes"] = tuple(
        failed("nodes", f"check-{number}", node_subject(name), "x") for number in range(30) for name in made.names
    )
    text = render_markdown(load_facts(tmp_path, made.write(tmp_path)))
    assert "REHEARSAL" in text.splitlines()[0] and "can never be, an acceptance" in text
    assert len(text) < 60000 and "and 10 more causes in the report" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a\\|b"),
        ("[x](javascript:y)", "\\[x\\](javascript:y)"),
        ("<img src=x>", "&lt;img src=x\\>"),
        ("gpu_stack _em_ **b**", "gpu_stack \\_em\\_ \\*\\*b\\*\\*"),
        ("two\nlines", "two lines"),
        ("run `a|b <c>`", "run `a\\|b <c>`"),
        ("odd ` tick", "odd \\` tick"),
        ("@all https://x.example", "@<!-- -->all https:<!-- -->//x.example"),
    ],
)
def test_markdown_shows_exactly_the_text(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_all_reports_are_written_and_nothing_else(tmp_path: Path) -> None:
    record = MadeRun(nodes=2).healthy().write(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    write_report(tmp_path, record)
    assert {path.name for path in tmp_path.iterdir()} - before == set(REPORTS)
    assert json.loads((tmp_path / "report.json").read_text())["run_id"] == "r-1"
    old = replace(record, problem="stopped")
    write_report(tmp_path, old)
    assert "not started: stopped" in (tmp_path / "report.html").read_text()
    assert Status.PASSED.value in (tmp_path / "report.md").read_text()
