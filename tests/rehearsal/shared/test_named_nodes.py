# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The main job on nodes that are broken: each is named, waived or left out as the site declares."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
from shared_site import SharedSite

GATES = ["facility", "nodes", "gpu_stack"]


@pytest.mark.drawn(2, of="runs after one that passed")
def test_one_node_that_does_not_answer_is_other_and_named(site: SharedSite, tmp_path: Path) -> None:
    with site.broken("node-unreachable@gpu03"):
        run = site.play(tmp_path, gates=GATES)
    assert run.rc != 0 and run.status("nodes") == "other" and run.status("gpu_stack") == "pending"
    assert not run.failed()
    assert {subject for finding in run.findings() for subject in finding.subjects} == {"gpu03"}
    assert "gpu03" in run.output


@pytest.mark.drawn(2, of="runs after one that passed")
def test_a_waiver_opens_the_gate_and_a_quarantined_node_leaves_its_scope(site: SharedSite, tmp_path: Path) -> None:
    waiver = {
        "check": "gpu-census",
        "subject": "gpu02",
        "reason": "spare part is on its way",
        "who": "ada",
        "until": str(date.today() + timedelta(days=30)),
    }
    entry = {"node": "gpu03", "reason": "GPU fell off the bus", "ticket": "T-1", "who": "bob"}
    with site.broken("gpu-missing@gpu02/gpu5", "gpu-missing@gpu03/gpu1"):
        run = site.play(tmp_path, gates=["facility", "nodes"], waivers=[waiver], quarantine=[entry], minimum_nodes=3)
    assert run.rc == 0, run.output[-3000:]
    gate = next(entry for entry in run.record["gates"] if entry["gate"] == "nodes")
    assert gate["counts"]["failed"] == 1 and [waived["who"] for waived in gate["waived"]] == ["ada"]
    assert {(check, subjects[0]) for _gate, check, subjects, _cause in run.failed()} == {("gpu-census", "gpu02")}
    assert run.record["quarantined"] == 1
    report = (run.run_dir / "report.html").read_text()
    assert "spare part" in run.output and "spare part" in report and "fell off the bus" in report
