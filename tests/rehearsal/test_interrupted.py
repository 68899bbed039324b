# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ctrl-C and SIGKILL in the phases of the main job: nothing stays, and the next rehearsal works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_toolchain import build_toolchain
from rehearsal_harness import ROOT, left_behind, rehearse
from waiting import eventually

pytestmark = pytest.mark.long("kills in each phase")

# What is said in that phase, and the gate in which it is said.
PHASES = {
    "the probe of the hosts": ("Ask the tools of the host", "nodes"),
    "the installation of the stack": ("waiting until it is ready", "gpu_stack"),
    "the test pods": ("looking at gang", "gpu_stack"),
}


@pytest.mark.drawn(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_run_leaves_nothing_and_the_next_one_works(tmp_path: Path, phase: str, number: signal.Signals) -> None:
    build_toolchain()
    output = tmp_path / "output"
    said, gate = PHASES[phase]
    words = {
        "gpufleet_rehearsal_nodes": 3,
        "gpufleet_run_dir": tmp_path / "runs",
        "gpufleet_rehearsal_dir": tmp_path / "rehearsal",
    }
    extra = [word for name, value in words.items() for word in ("-e", f"{name}={value}")]
    argv = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "playbooks/rehearse.yml",
        "-e",
        f"gpufleet_gates={gate}",
        *extra,
    ]
    process = subprocess.Popen(
        argv, cwd=ROOT, stdout=output.open("w"), stderr=subprocess.STDOUT, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    eventually(lambda: said in output.read_text() or process.poll() is not None, 300, said)
    assert said in output.read_text(), output.read_text()[-3000:]
    # ansible-core says a task's name before it has its workers; the supervisor learns of workers a moment later.
    time.sleep(1)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # Ctrl-C reaches the whole group of the terminal
    else:
        process.send_signal(number)
    process.wait(120)
    assert not left_behind(tmp_path)
    (path,) = (tmp_path / "runs").glob("2*/run.json")
    record = path.read_text()
    assert '"status": "failed"' not in record
    again = rehearse(tmp_path, rehearsal_nodes=2, gates=["facility"])
    assert again.rc == 0, again.output[-3000:]
    assert not left_behind(tmp_path)
