# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A signal ends the process, but not before what it began is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.child import ending_in_order

# As in one of Ansible's workers: errors are taken for results, and a signal would end it at once.
WORKER = """
import os, sys
from pathlib import Path
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.child import ending_in_order
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.golang import LongCommand, run_long
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import workplace
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
say = lambda line: print(line, flush=True)
try:
    with ending_in_order(lambda: None) as alive, workplace(Path(sys.argv[1])) as work:
        # What `go build` starts works on, and writes.
        script = f"(while :; do date >{work}/$(date +%N); sleep 0.01; done) & echo $$ >{sys.argv[1]}/group; wait"
        run_long(LongCommand(["sh", "-c", script], work, os.environ, "working", 60), Progress(say), alive)
except Exception as error:
    print("taken for a result", error)
"""


def alive_in(group: int) -> list[int]:
    """Processes of a group that run; the first process of the machine may take its time to bury the others."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, IndexError):
            if entry.name.isdigit():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                found += [int(entry.name)] if int(fields[2]) == group and fields[0] not in "ZX" else []
    return found


def plain_signals() -> None:
    # Whoever runs the tests may ignore some: `nohup` does with SIGHUP.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_removes_first_what_was_begun(tmp_path: Path, number: signal.Signals) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path)], env=environ, stdout=subprocess.PIPE,
        preexec_fn=plain_signals,
    )  # fmt: skip
    assert process.stdout is not None and b"working" in process.stdout.readline()
    group = tmp_path / "group"
    while not group.exists() or not group.read_text().strip():
        time.sleep(0.01)
    process.send_signal(number)
    try:
        assert process.wait(10) == -number
    finally:
        process.kill()
        with suppress(ProcessLookupError):
            if process.returncode != -number:  # what a failed test leaves would run for ever
                os.killpg(int(group.read_text()), signal.SIGKILL)
    assert process.stdout.read() == b""
    process.stdout.close()
    assert not alive_in(int(group.read_text()))
    assert list(tmp_path.iterdir()) == [group]


def test_the_handlers_of_before_are_there_afterwards_and_other_threads_have_none() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with ending_in_order(lambda: None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    seen = []

    def within() -> None:
        with ending_in_order(lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = Thread(target=within)
    thread.start()
    thread.join()
    assert seen == [before]
