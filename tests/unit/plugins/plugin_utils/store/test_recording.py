# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Recording from a run directory: what comes from its CTRF files, and that no non_pass reaches the verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import (
    Outcome,
    Rating,
    Status,
    node_subject,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.ctrf import write_suite
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import ctrf_path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.history import record_history
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import HARDWARE, SITE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.history import open_store
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import GateVerdict
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run

VERDICT = GateVerdict(gate="nodes", status=Status.PASSED, message="every declared check passed", checks=1)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    path = tmp_path / "run-1"
    site = make_site((Host(name="gpu01", sku="h100", node_name="gpu01"),), name="island")
    (path / "ctrf").mkdir(parents=True)
    (path / SITE).write_text(dumps(site))
    (path / HARDWARE).write_text("{}")
    outcome = Outcome(
        check="gpu-census",
        gate="nodes",
        status=Status.PASSED,
        rating=Rating.GOOD,
        subjects=(node_subject("gpu01"),),
        summary="8 GPUs",
    )
    write_suite(ctrf_path(path, "nodes"), "nodes", (outcome,), run_id="run-1", rehearsal=False, version="0.1.0")
    record = new_run("run-1", "island", "2026-11-21T09:00:00Z", ("nodes",), rehearsal=False)
    Run(path).save_record(record.with_gate(VERDICT))
    return Run(path)


def _passes(path: Path) -> list[tuple[str, str]]:
    return [(entry.check, entry.subject) for entry in open_store(path).last_passes("island", rehearsal=False)]


def test_a_decided_gate_is_recorded(run: Run, tmp_path: Path) -> None:
    lines: list[str] = []
    path = tmp_path / "history.sqlite"
    assert record_history(run, VERDICT, str(path), lines.append, print, converged=True) == []
    assert _passes(path) == [("gpu-census", "gpu01")]
    assert lines == [f"history: 1 results, 1 passes in {path}"[:199]]


def test_results_of_an_earlier_try_are_no_results_of_a_gate_that_did_not_converge(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    record_history(run, VERDICT, str(path), print, print, converged=True)
    refused = replace(VERDICT, status=Status.OTHER, message="not converged")
    assert record_history(run, refused, str(path), print, print, converged=False) == []
    assert _passes(path) == []


def test_results_that_cannot_be_read_are_no_passes(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    ctrf_path(run.path, "nodes").write_text("{")
    assert record_history(run, replace(VERDICT, status=Status.OTHER), str(path), print, print, converged=True) == []
    assert _passes(path) == []


@pytest.mark.parametrize("name", ["damaged", "no\0name"])
def test_a_history_that_cannot_be_used_is_a_warning_and_a_line(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "damaged").write_bytes(b"no database " * 500)
    lines: list[str] = []
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    (warning,) = record_history(run, VERDICT, str(tmp_path / name), lines.append, print, converged=True)
    assert warning.startswith("gate nodes is not in the history: ") and lines == [warning]
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("nowhere", ["", None])
def test_without_a_file_there_is_no_history(run: Run, nowhere: str | None, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert record_history(run, VERDICT, nowhere, pytest.fail, print, converged=True) == []
    assert sorted(tmp_path.rglob("*")) == before
