# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a playbook prints when it ends: the table and the verdict of its run, or the plan.

The callback prints it where it is enabled. An installed collection has no ansible.cfg that enables it, and a playbook
that fails has no last task. So ansible-playbook prints it when its process ends: the actions are loaded there before
they are run in workers, and a worker leaves a note of the run that it started.
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import context
from ansible.constants import config
from ansible.utils.display import Display

from ..outcome.codec import load_json
from ..outcome.errors import BringupError
from ..report.console import closing_lines
from ..run.version import COLLECTION
from ..runtime.run_dir import RUN
from ..runtime.visible import visible
from ..verdict.saved import record_from_plain


class Closing:
    """Sees the results of a playbook's tasks, and knows what is printed at the end."""

    def __init__(self) -> None:
        self._run_dir: Path | None = None
        self._plan: list[str] = []
        self._kept: list[str] = []

    def see(self, result: Mapping[str, Any]) -> None:
        """Remember the run that a result is of, the plan, or how to go on with a rehearsal that is kept."""
        if result.get("run_id") and result.get("run_dir"):
            self._run_dir = Path(result["run_dir"])
        self._plan = result.get("plan_lines") or result.get("closing_lines") or self._plan
        self._kept = result.get("kept_lines") or self._kept

    def print(self) -> None:
        """Print it; nothing where no run was started and no plan was made."""
        display = Display()
        try:
            lines = _lines_of(self._run_dir) if self._run_dir is not None else self._plan
        except BringupError as error:
            display.warning(f"what the run ended with cannot be printed: {visible(str(error))}")
            lines = []
        for part in (lines, self._kept):
            for line in ("", *part) if part else ():
                display.display(visible(line))


def _lines_of(run_dir: Path) -> list[str]:
    path = run_dir / RUN
    return closing_lines(record_from_plain(load_json(path), str(path)), run_dir)


class _AtExit:
    """Prints the closing of the playbook when the process ends that loaded the actions; workers write notes."""

    def __init__(self) -> None:
        self._controller = os.getpid()
        # Its workers inherit it, with the place where the last one wrote; without a name nothing is left of it.
        self._notes, name = tempfile.mkstemp()
        os.unlink(name)
        atexit.register(self._print)

    def note(self, result: Mapping[str, Any]) -> None:
        """Keep what a task of a worker says of its run."""
        kept = {name: result[name] for name in ("run_id", "run_dir", "plan_lines", "kept_lines") if result.get(name)}
        if kept and os.getpid() != self._controller:
            os.write(self._notes, json.dumps(kept).encode() + b"\n")

    def _print(self) -> None:
        if os.getpid() != self._controller:
            return
        closing = Closing()
        os.lseek(self._notes, 0, os.SEEK_SET)
        with os.fdopen(self._notes, encoding="utf-8") as notes:
            for line in notes:
                closing.see(json.loads(line))
        closing.print()


def _at_exit() -> _AtExit | None:
    enabled = f"{COLLECTION}.gates" in (config.get_config_value("CALLBACKS_ENABLED") or [])
    # Only the command line of Ansible has arguments: tests and other programs load actions as well.
    return _AtExit() if context.CLIARGS.get("args") and not enabled else None


_NOTES = _at_exit()


def note(result: Mapping[str, Any]) -> None:
    """Let what this result is of be printed at the end."""
    if _NOTES is not None:
        _NOTES.note(result)
