# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a roll and a cycle over healthy nodes end with: a verdict of their own, the same in each file, and no gate."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from live_site import LiveSite, live_site
from rehearsal_harness import Rehearsed, left_behind, rehearse

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS

ROLL = {"wave_roll": "autumn", "wave_change": "none", "wave_keep": "0", "wave_size": "2"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    work = tmp_path_factory.mktemp("verdicts")
    with live_site(work, 2) as site:
        yield site
    assert not left_behind(work)


def played(site: LiveSite, playbook: str, cmdline: str = "", **stated: object) -> tuple[Rehearsed, str]:
    """Run a playbook of the site; return what came of it and the lines that it ends with."""
    done = rehearse(site.directory, playbook=playbook, inventory=site.inventory, cmdline=cmdline, **stated)
    assert "PLAY RECAP" in done.output, done.output[-3000:]
    return done, done.output[done.output.index("PLAY RECAP") :]


def run_passed(done: Rehearsed) -> str:
    lines = (done.run_dir / "metrics.prom").read_text(encoding="utf-8").splitlines()
    return next(line.rpartition(" ")[2] for line in lines if line.startswith("gpufleet_bringup_run_passed{"))


def without_gates(text: str) -> bool:
    told = " ".join(line for line in text.splitlines() if not line.startswith(("note ", "- rehearsal:")))
    return not set(told.replace("|", " ").split()) & ({*GATE_IDS} - {"nodes"})


def test_a_roll_in_which_all_nodes_return_is_passed(site: LiveSite) -> None:
    planned, end = played(site, "waves.yml", "--check", **ROLL)
    assert planned.rc == 0, planned.output[-3000:]
    assert "verdict  CHECK MODE: roll autumn: nothing was changed and no test was run; 2 nodes in 2 waves" in end
    assert "planned" in end and without_gates(end)
    done, end = played(site, "waves.yml", **ROLL)
    assert done.rc == 0, done.output[-3000:]
    verdict = "REHEARSAL roll autumn: 2 of 2 nodes returned; a rehearsal is never an acceptance"
    assert f"verdict  {verdict}" in end and without_gates(end), end
    assert [line.split()[:3] for line in end.splitlines() if line.startswith("gpu")] == [
        ["gpu01", "0", "returned"], ["gpu02", "1", "returned"],
    ]  # fmt: skip
    assert (done.stats["gpufleet_passed"], done.stats["gpufleet_exit_code"]) == (True, 0)
    assert done.stats["gpufleet_verdict"] == verdict and run_passed(done) == "1"
    summary = (done.run_dir / "report.md").read_text(encoding="utf-8")
    assert summary.startswith("## REHEARSAL: roll autumn of rehearsal: passed") and without_gates(summary)


def test_a_cycle_that_finds_nothing_wrong_is_passed_and_names_its_page(site: LiveSite) -> None:
    stack = site.run("gpu_stack")
    assert stack.rc == 0, stack.output[-3000:]
    logs = str(site.directory / "logs")
    done, end = played(site, "continuous.yml", "--check", continuous_log_dir=logs)
    assert done.rc == 0 and "CHECK MODE: continuous validation" in end and without_gates(end), done.output[-3000:]
    done, end = played(site, "continuous.yml", continuous_log_dir=logs)
    assert done.rc == 0, done.output[-3000:]
    assert re.search(r"verdict  REHEARSAL continuous validation: 1 cycle, (\d+) of \1 tests passed; 2 unknown", end), (
        end
    )
    assert "cycle-001  passed" in end and "continuous.html" in end and "0.0 s" not in end and without_gates(end)
    assert done.stats["gpufleet_passed"] is True and run_passed(done) == "1"
    assert done.stats["gpufleet_report"].endswith("/continuous.html")
