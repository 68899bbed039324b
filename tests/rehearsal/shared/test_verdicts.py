# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a roll and a cycle over healthy nodes end with: a verdict of their own, the same in each file, and no gate."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rehearsal_harness import Rehearsed
from shared_site import NODES, SharedSite

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS

# The canary, and all others at once.
ROLL = {"wave_roll": "autumn", "wave_change": "none", "wave_keep": "0", "wave_size": str(NODES - 1)}


def played(
    site: SharedSite, directory: Path, playbook: str, cmdline: str = "", **stated: object
) -> tuple[Rehearsed, str]:
    """Run a playbook of the site; return what came of it and the lines that it ends with."""
    done = site.play(directory, playbook, cmdline, **stated)
    assert "PLAY RECAP" in done.output, done.output[-3000:]
    return done, done.output[done.output.index("PLAY RECAP") :]


def run_passed(done: Rehearsed) -> str:
    lines = (done.run_dir / "metrics.prom").read_text(encoding="utf-8").splitlines()
    return next(line.rpartition(" ")[2] for line in lines if line.startswith("gpufleet_bringup_run_passed{"))


def without_gates(text: str) -> bool:
    told = " ".join(line for line in text.splitlines() if not line.startswith(("note ", "- rehearsal:")))
    return not set(told.replace("|", " ").split()) & ({*GATE_IDS} - {"nodes"})


@pytest.mark.drawn(1, of="verbs after an accepted run")
def test_a_roll_in_which_all_nodes_return_is_passed(site: SharedSite, tmp_path: Path) -> None:
    planned, end = played(site, tmp_path, "waves.yml", "--check", **ROLL)
    assert planned.rc == 0, planned.output[-3000:]
    assert "verdict  CHECK MODE: roll autumn: nothing was changed and no test was run; 4 nodes in 2 waves" in end
    assert "planned" in end and without_gates(end)
    done, end = played(site, tmp_path, "waves.yml", **ROLL)
    assert done.rc == 0, done.output[-3000:]
    verdict = "REHEARSAL roll autumn: 4 of 4 nodes returned; a rehearsal is never an acceptance"
    assert f"verdict  {verdict}" in end and without_gates(end), end
    # The recap has a line for each host as well, which begins with a colour where the terminal has colours.
    of_nodes = (line for line in end.splitlines() if line.startswith("gpu") and " : ok=" not in line)
    assert [line.split()[:3] for line in of_nodes] == [
        ["gpu01", "0", "returned"], *([f"gpu0{number}", "1", "returned"] for number in range(2, NODES + 1)),
    ]  # fmt: skip
    assert (done.stats["gpufleet_passed"], done.stats["gpufleet_exit_code"]) == (True, 0)
    assert done.stats["gpufleet_verdict"] == verdict and run_passed(done) == "1"
    summary = (done.run_dir / "report.md").read_text(encoding="utf-8")
    assert summary.startswith("## REHEARSAL: roll autumn of rehearsal: passed") and without_gates(summary)


@pytest.mark.drawn(1, of="verbs after an accepted run")
def test_a_cycle_that_finds_nothing_wrong_is_passed_and_names_its_page(site: SharedSite, tmp_path: Path) -> None:
    logs = str(tmp_path / "logs")
    done, end = played(site, tmp_path, "continuous.yml", "--check", continuous_log_dir=logs)
    assert done.rc == 0 and "CHECK MODE: continuous validation" in end and without_gates(end), done.output[-3000:]
    done, end = played(site, tmp_path, "continuous.yml", continuous_log_dir=logs)
    assert done.rc == 0, done.output[-3000:]
    assert re.search(r"verdict  REHEARSAL continuous validation: 1 cycle, (\d+) of \1 tests passed; 4 healthy", end), (
        end
    )
    assert "cycle-001  passed" in end and "continuous.html" in end and "0.0 s" not in end and without_gates(end)
    assert done.stats["gpufleet_passed"] is True and run_passed(done) == "1"
    assert done.stats["gpufleet_report"].endswith("/continuous.html")
