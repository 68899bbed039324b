# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Commands end with their limit, and with whoever runs them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import run_command

RUN_SLEEP = """
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import run_command
run_command(["sh", "-c", "echo $$ > $1; exec sleep 60", "sh", __import__("sys").argv[1]], 60)
"""


def test_a_command_that_takes_too_long_is_ended_with_its_children() -> None:
    done = run_command(["sh", "-c", "echo begun; sleep 60 & wait"], 0.5)
    assert done.timed_out and done.stdout == "begun\n" and done.duration_s < 10


def test_a_missing_program_is_named() -> None:
    with pytest.raises(NotFoundError, match="no-such-program"):
        run_command(["no-such-program"], 1)


def test_a_command_dies_with_whoever_runs_it(repository: Path, tmp_path: Path) -> None:
    told = tmp_path / "pid"
    environment = os.environ | {"PYTHONPATH": str(repository / ".cache")}
    with subprocess.Popen([sys.executable, "-c", RUN_SLEEP, str(told)], env=environment) as parent:
        deadline = time.monotonic() + 20
        while not (told.exists() and told.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.05)
        pid = int(told.read_text())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_a_command_whose_caller_went_before_it_was_bound_to_it_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: mine + 1)
    assert run_command(["touch", str(tmp_path / "ran")], 5).rc == 1
    assert not (tmp_path / "ran").exists()
