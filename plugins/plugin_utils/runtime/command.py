# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Running a command on the controller, with a time limit and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from ..outcome.errors import NotFoundError
from .bound import bound_to_parent


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command did: argv, exit code (None when the limit ended it), its output, seconds taken."""

    argv: tuple[str, ...]
    rc: int | None
    stdout: str
    stderr: str
    duration_s: float

    @property
    def timed_out(self) -> bool:
        """Whether the time limit ended it."""
        return self.rc is None


def run_command(
    argv: Sequence[str],
    timeout_s: float,
    *,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    grace_s: float = 0.0,
) -> CommandResult:
    """Run a command in a process group of its own; at the limit, and when we are ended, the whole group is.

    Args:
        argv: the program and its arguments.
        timeout_s: the limit.
        stdin: what it reads.
        env: its environment; ours if None.
        cwd: its working directory.
        grace_s: how long it may clean up after SIGTERM, before SIGKILL; 0: it gets SIGKILL at once.

    Raises:
        NotFoundError: the program is not there.
    """
    search_path = (env or os.environ).get("PATH")
    if shutil.which(argv[0], path=search_path) is None:
        raise NotFoundError(f"command {argv[0]}", "not found on PATH.", f"install {argv[0]} on the controller")
    started = monotonic()
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env) if env is not None else None,
        cwd=cwd,
        start_new_session=True,
        # A helm that nobody waits for would go on for minutes.
        preexec_fn=bound_to_parent(signal.SIGTERM if grace_s else signal.SIGKILL),
        text=True,
        errors="replace",
    )
    try:
        stdout, stderr = process.communicate(stdin, timeout=timeout_s)
        rc: int | None = process.returncode
    except subprocess.TimeoutExpired:
        _end(process, grace_s)
        stdout, stderr = process.communicate()
        rc = None
    except BaseException:
        _end(process, grace_s)
        process.wait()
        raise
    return CommandResult(tuple(argv), rc, stdout, stderr, monotonic() - started)


def _end(process: subprocess.Popen[str], grace_s: float) -> None:
    """End the group; with a grace first by SIGTERM, reading on so that a full pipe cannot keep it from ending."""
    if grace_s and _signal_group(process, signal.SIGTERM):
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=grace_s)
    _signal_group(process, signal.SIGKILL)


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True
