# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Two faults of two gates are named by one run: a slow cable, and a GPU that is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rehearsal_harness import left_behind, rehearse


@pytest.mark.drawn(1, of="a gate that fails from its start")
def test_one_run_names_the_cable_and_the_gpu(tmp_path: Path) -> None:
    faults = ["cable-slow@gpu01/mlx5_4", "gpu-missing@gpu03/gpu5"]
    run = rehearse(tmp_path, rehearsal_nodes=4, rehearsal_faults=faults, gates=["fabric", "nodes", "gpu_stack"])
    assert run.rc != 0
    assert (run.status("fabric"), run.status("nodes"), run.status("gpu_stack")) == ("failed", "pending", "pending")
    assert {gate for gate, _check, _subjects, _cause in run.failed()} == {"fabric"}
    observed = json.loads((run.run_dir / "looks" / "nodes.json").read_text(encoding="utf-8"))["results"]["tests"]
    named = {(test["labels"]["cause"], *test["labels"]["subject"]) for test in observed}
    assert ("gpu-missing", "gpu03", "gpu03/gpu5") in named, named
    assert {test["status"] for test in observed} <= {"failed", "other"}
    stack = json.loads((run.run_dir / "looks" / "gpu_stack.json").read_text(encoding="utf-8"))["results"]["tests"]
    assert not any(test["status"] == "failed" for test in stack), "what gate 4 installs is not asked"
    page = (run.run_dir / "report.md").read_text(encoding="utf-8")
    assert "Observed, not proven" in page and "gpu-missing" in page
    assert "observed, not proven" in run.output and not left_behind(tmp_path)
