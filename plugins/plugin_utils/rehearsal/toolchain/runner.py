# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Running a long command with progress, bound to the life of the controller."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from ...outcome.errors import BringupError
from ...runtime.bound import bound_to_parent
from ...runtime.clock import Deadline
from ...runtime.progress import Progress
from ...runtime.redaction import excerpt

_POLL_S = 0.2
_GONE_S = 2.0


@dataclass(frozen=True, slots=True)
class LongCommand:
    """A command that takes minutes: what to run, where, and what to say meanwhile."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    saying: str
    limit_s: float


def run_long(command: LongCommand, progress: Progress, alive: Callable[[], None]) -> None:
    """Run a command to its end.

    Raises:
        BringupError: it ended with an error; its last output is the evidence.
        DeadlineError: the time limit ran out.
        AbortedError: the controller ended meanwhile.
    """
    code, output = run_watched(command, progress, alive)
    if code != 0:
        tail = excerpt(output[-4000:])
        reason = f"{command.argv[0]} ended with exit code {code}."
        raise BringupError(command.saying, reason, _hint(tail), evidence=(tail,))


def run_watched(command: LongCommand, progress: Progress, alive: Callable[[], None]) -> tuple[int, str]:
    """Run a command to its end; return its exit code and all that it printed.

    Raises:
        DeadlineError: the time limit ran out.
        AbortedError: the controller ended meanwhile.
    """
    progress.tick(command.saying)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            list(command.argv), cwd=command.cwd, env=dict(command.env), stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=bound_to_parent(),
        )  # fmt: skip
        try:
            _follow(process, command, progress, alive)
        except BaseException:
            _kill_group(process)
            raise
        log.seek(0)
        return process.returncode, log.read().decode(errors="replace")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the whole group, and see it gone: a compiler outlives `go build` otherwise, and writes where we remove."""
    deadline = Deadline.after(_GONE_S)
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while deadline.left_s > 0:
            # Again, for who was just being forked.
            os.killpg(process.pid, signal.SIGKILL)
            sleep(0.02)
    except ProcessLookupError:
        process.wait()


def _follow(
    process: subprocess.Popen[bytes], command: LongCommand, progress: Progress, alive: Callable[[], None]
) -> None:
    deadline = Deadline.after(command.limit_s)
    while process.poll() is None:
        alive()
        deadline.check(command.saying, "still running", "run it again: what is built stays built")
        progress.tick(command.saying)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)


def _hint(output: str) -> str:
    if "no space left" in output:
        return "make room on the disk of the cache and run it again"
    if any(sign in output for sign in ("dial tcp", "no such host", "i/o timeout", "connection refused")):
        return "check the network or set GOPROXY (pip: PIP_INDEX_URL) to a mirror that this machine reaches"
    if "signal: killed" in output:
        return "the build ran out of memory; free some or build with fewer processes at once (GOFLAGS=-p=1)"
    return "read the output above"
