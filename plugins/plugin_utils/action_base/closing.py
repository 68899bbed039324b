# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a playbook prints when it ends: the table and the verdict of its run, or the plan.

The callback prints it where it is enabled. An installed collection has no ansible.cfg that enables it, and a playbook
that fails has no last task. So ansible-playbook prints it when its process ends: the actions are loaded there before
they are run in workers, and a worker leaves a note about the run that it started.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from ansible import context
from ansible.utils.display import Display

from ..outcome.codec import load_json
from ..outcome.errors import BringupError
from ..outcome.model import Status
from ..report.console import closing_lines
from ..runtime.files import RUN
from ..runtime.text import visible
from ..verdict.restart import without_mistakes
from ..verdict.run import RunRecord, as_interrupted
from ..verdict.saved import record_from_plain
from .command_line import command_line


class Closing:
    """Collects the results of a playbook's tasks, and prints the end."""

    def __init__(self) -> None:
        self._run_dir: Path | None = None
        self._plan: list[str] = []
        self._kept: list[str] = []
        self._stopped: dict[str, None] = {}

    def see(self, result: Mapping[str, Any]) -> None:
        """Keep the run of a result, the plan, or how to go on with a rehearsal that is kept."""
        if result.get("run_id") and result.get("run_dir"):
            self._run_dir = Path(result["run_dir"])
        self._plan = result.get("plan_lines") or result.get("closing_lines") or self._plan
        self._kept = result.get("kept_lines") or self._kept
        if result.get(_STOPPED):
            self._stopped[str(result[_STOPPED])] = None

    def print(self, *, interrupted: bool = False) -> None:
        """Print it; nothing where no run was started, no plan was made, and no error ended the playbook."""
        global _printed
        _printed = True
        display = Display()
        for result in _noted():
            self.see(result)
        record, lines = None, self._plan
        if self._run_dir is not None:
            try:
                record = _record_of(self._run_dir, interrupted=interrupted)
                lines = closing_lines(record, self._run_dir)
            except BringupError as error:
                display.warning(f"what the run ended with cannot be printed: {visible(str(error))}")
                lines = []
        stopped = [f"error    {text}" for text in self._stopped]
        again = (
            _again("\n".join(self._stopped))
            if stopped and not any(line.startswith("again: ") for line in lines)
            else ""
        )
        # What follows the run in a playbook that does more than one thing: a drift after a bring-up.
        later = self._plan if self._run_dir is not None else []
        kept = _kept_of(self._kept, record, self._run_dir)
        for part in (lines, later, kept, [*stopped, *([f"again: {again}"] if again else [])]):
            for line in ("", *part) if part else ():
                display.display(visible(line))


def _record_of(run_dir: Path, *, interrupted: bool) -> RunRecord:
    """Return the record of the run; one that was interrupted says so from now on, and its reports."""
    path = run_dir / RUN
    record = record_from_plain(load_json(path), str(path))
    ended = as_interrupted(record) if interrupted else record
    if ended != record:
        from ..run.run import Run

        try:
            Run(run_dir).save_record(ended)
        except BringupError as error:
            Display().warning(f"that the run was interrupted cannot be kept: {visible(str(error))}")
    return ended


def _kept_of(kept: list[str], record: RunRecord | None, run_dir: Path | None) -> list[str]:
    """Return how to go on with a rehearsal that is kept.

    Where a command needs a run whose gate nodes read the hosts, this playbook's own run is named. `latest` is another
    run as soon as one of these commands ran, and not every run reads the hosts.
    """
    requested = record is not None and record.gate("nodes").status not in (Status.PENDING, Status.SKIPPED)
    words = f" -e {shlex.quote(f'gpufleet_run={run_dir}')}" if requested else ""
    return [line.replace(_LATEST, words) for line in kept]


def _again(problem: str) -> str:
    return without_mistakes(command_line(sys.argv, os.environ, Path.cwd()), problem)


_STOPPED = "stopped_by"
# Whether this process has printed the end of its playbook.
_printed = False
_LATEST = " -e gpufleet_run=.run/latest"


class _AtExit:
    """Prints the end of the playbook when the process ends that loaded the actions; workers write notes.

    The callback, which reads the notes, prints it before that, but not for an interrupted playbook.
    """

    def __init__(self) -> None:
        self._controller = os.getpid()
        self._interrupted = False
        self._note_interrupt()
        # Its workers inherit the descriptor with its position; without a name no file is left behind.
        self._notes, name = tempfile.mkstemp()
        os.unlink(name)
        atexit.register(self._print)

    def _note_interrupt(self) -> None:
        """Note the user's Ctrl-C before Ansible handles it: when the process ends nothing else tells of it."""
        handler = signal.getsignal(signal.SIGINT)

        def interrupted(number: int, frame: FrameType | None) -> None:
            self._interrupted = True
            if callable(handler):
                handler(number, frame)

        if callable(handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupted)

    def note(self, result: Mapping[str, Any]) -> bool:
        """Write a note with what a worker's task reports about its run; return whether it was written."""
        kept = {name: result[name] for name in _KEPT if result.get(name)}
        if not kept or os.getpid() == self._controller:
            return False
        os.write(self._notes, json.dumps(kept).encode() + b"\n")
        return True

    def noted(self) -> list[dict[str, Any]]:
        """Return the notes of workers in their order."""
        size = os.fstat(self._notes).st_size
        return [json.loads(line) for line in os.pread(self._notes, size, 0).splitlines()]

    def _print(self) -> None:
        if os.getpid() == self._controller and not _printed:
            Closing().print(interrupted=self._interrupted)


_KEPT = ("run_id", "run_dir", "plan_lines", "closing_lines", "kept_lines", _STOPPED)


def _at_exit() -> _AtExit | None:
    # Only the command line of Ansible has arguments: tests and other programs load actions as well. A module that is
    # called by itself is no playbook.
    playbook = context.CLIARGS.get("args") and "module_name" not in context.CLIARGS
    return _AtExit() if playbook else None


_NOTES = _at_exit()


def note(result: Mapping[str, Any]) -> None:
    """Let the run or plan of this result be printed at the end."""
    if _NOTES is not None:
        _NOTES.note(result)


def told_at_end(text: str) -> bool:
    """Let an error that ends the playbook be printed at the end, once; return whether it will be."""
    return _NOTES is not None and _NOTES.note({_STOPPED: text})


def _noted() -> list[dict[str, Any]]:
    return _NOTES.noted() if _NOTES is not None else []
