# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run whose rehearsal broke is ended and told why, wherever its output goes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle import supervisor
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.processes.spec import identify

RUN = "import signal, sys, time\n{}\nprint('running', file=sys.stderr, flush=True)\ntime.sleep(60)"
DEAF = "signal.signal(signal.SIGINT, signal.SIG_IGN)"


@pytest.mark.parametrize(("first", "ended_by"), [("", signal.SIGINT), (DEAF, signal.SIGTERM)])
@pytest.mark.parametrize("piped", [True, False])
def test_a_run_ends_and_says_what_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piped: bool, first: str, ended_by: signal.Signals
) -> None:
    monkeypatch.setattr(supervisor, "_INTERRUPT_S", 0.5)
    output = tmp_path / "output"
    with output.open("w") as stream:
        run = subprocess.Popen(
            [sys.executable, "-c", RUN.format(first or "signal.signal(signal.SIGINT, signal.SIG_DFL)")],
            stderr=subprocess.PIPE if piped else stream, text=True,
        )  # fmt: skip
    if run.stderr is not None:
        assert run.stderr.readline() == "running\n"
    else:
        while not output.read_text():
            pass
    identity = identify(run.pid)
    assert identity is not None
    # Who started a run takes its status; nobody else's child is a zombie for long.
    waiting = threading.Thread(target=run.wait)
    waiting.start()
    supervisor.end_run(identity, "etcd was killed by signal 9", "the-logs")
    waiting.join(10)
    said = run.stderr.read() if run.stderr is not None else output.read_text()
    assert run.returncode == -ended_by
    assert (
        "rehearsal: etcd was killed by signal 9, so this run says nothing of the site and ends. Read the-logs" in said
    )
