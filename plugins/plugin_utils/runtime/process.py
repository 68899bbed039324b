# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Processes of the controller: started with a time limit, bound to their parent, identified safely, and cleaned up."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from platform import node
from time import monotonic
from typing import Any

from ..outcome.errors import NotFoundError

# Starts a child that cannot outlive its parent.

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def bound_to_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Return a `preexec_fn` that makes the kernel send that signal to the child as soon as its parent is gone.

    It covers SIGKILL of the parent, which no handler can catch. The kernel watches the thread that started the child,
    so start children from the main thread.
    """
    parent = os.getpid()

    def bind() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended between fork and prctl
            os._exit(1)

    return bind


# Runs a command on the controller with a time limit, and leaves nothing behind.


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command: argv, exit code (None if it was ended at the limit), output, seconds taken."""

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
    """Run a command in its own process group. At the limit, and on an interrupt, the whole group is ended.

    Args:
        argv: the program and its arguments.
        timeout_s: time limit.
        stdin: its standard input.
        env: its environment; ours if None.
        cwd: its working directory.
        grace_s: time for cleanup after SIGTERM, before SIGKILL; 0: SIGKILL at once.

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
        # An orphaned helm would run on for minutes.
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
    """End the group.

    With a grace period first by SIGTERM, while its output is read, so that a full pipe cannot block it.
    """
    if grace_s and signal_group(process, signal.SIGTERM):
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=grace_s)
    signal_group(process, signal.SIGKILL)


def signal_group(process: subprocess.Popen[Any], number: signal.Signals) -> bool:
    """Send a signal to the process group that this process leads. Return whether the group exists."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


# Keeps beginning and end of a stream, with a line in between that gives the number of dropped bytes.
#
# The line is part of the text, so that later readers of the evidence know it as well.

_MARK = "[gpufleet: {} bytes of this log are left out here]"
_CUT = re.compile(r"^" + re.escape(_MARK).replace(re.escape("{}"), r"(\d{1,20})") + r"$", re.MULTILINE)
_OPEN_END = "[gpufleet: the end of this log could not be read]"


class Capped:
    """First and last half of `limit` bytes of a stream of any length."""

    def __init__(self, limit: int) -> None:
        """Start empty. `limit` is in bytes."""
        self._half = max(1, limit // 2)
        self._head, self._tail = bytearray(), bytearray()
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        """Add the next chunk of the stream."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        surplus = len(self._tail) - self._half
        if surplus > 0:
            self._left_out += surplus
            del self._tail[:surplus]

    def content(self) -> bytes:
        """Return the kept bytes. If some were dropped: whole lines around a line that gives their number."""
        if not self._left_out:
            return bytes(self._head + self._tail)
        head, tail = bytes(self._head), bytes(self._tail)
        # A line that is cut in the middle could be read as something else.
        begun, ended = head.rfind(b"\n") + 1, tail.find(b"\n") + 1 or len(tail)
        left_out = self._left_out + len(head) - begun + ended
        return head[:begun] + _MARK.format(left_out).encode() + b"\n" + tail[ended:]


def with_open_end(log: str) -> str:
    """Return a log that was cut before its end, with a line that marks it as cut."""
    return f"{log.rstrip()}\n{_OPEN_END}\n"


def after_gap(text: str) -> str:
    """Return the text after the line about dropped bytes. Without such a line: the whole text."""
    found = _CUT.search(text)
    return text[found.end() :] if found else text


def left_out_of(log: str) -> str:
    """Return what is missing from a log as a clause for a message; empty for a complete log."""
    if log.rstrip().endswith(_OPEN_END):
        return "the end of its log could not be read"
    found = _CUT.search(log)
    return f"{int(found[1])} bytes in the middle of its log were left out, more than is read of one" if found else ""


# A file in memory, for programs that need a file: if the processes are killed, nothing remains on a disk.


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Give the path of a file with these bytes, which child processes can read until the end of the block."""
    file = lasting_memory_file(content)
    try:
        yield f"/proc/{os.getpid()}/fd/{file}"
    finally:
        os.close(file)


def lasting_memory_file(content: bytes) -> int:
    """Return the descriptor of a file in memory with these bytes. It exists until it is closed or this process ends."""
    file = os.memfd_create("gpufleet", os.MFD_CLOEXEC)
    with open(file, "wb", closefd=False) as stream:
        stream.write(content)
    return file


# Identifies processes: a pid can be reused, a pid with its start time cannot.

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process: its pid and its start time (clock ticks since boot, field 22 of /proc/<pid>/stat)."""

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        """Return whether this very process still runs. A zombie does not."""
        state = _state(self.pid)
        return state is not None and state[1] == self.start_ticks and state[0] not in "ZX"


def identify(pid: int) -> ProcessId | None:
    """Return the identity of a running process, None if there is none."""
    state = _state(pid)
    return ProcessId(pid, state[1]) if state is not None and state[0] not in "ZX" else None


def controller_note() -> str:
    """Return which ansible-playbook runs, for `controller_runs`; empty outside a worker, where no playbook does."""
    import multiprocessing

    found = identify(controller_pid()) if multiprocessing.parent_process() is not None else None
    return json.dumps({"pid": found.pid, "start_ticks": found.start_ticks, "host": node()}) + "\n" if found else ""


def controller_runs(path: Path) -> bool:
    """Tell whether the ansible-playbook of that file runs on this machine. False without the file."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        return bool(plain["host"] == node() and ProcessId(int(plain["pid"]), int(plain["start_ticks"])).alive())
    except (OSError, ValueError, TypeError, KeyError):
        return False


def controller_pid() -> int:
    """Return the pid of the ansible-playbook that forked the worker of an action; outside a worker our own."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    return parent.pid if parent is not None and parent.pid is not None else os.getpid()


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the command's name.

    Raises:
        OSError: there is no such process.
    """
    # The command name may have spaces and parentheses, so count fields after the last one.
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _state(pid: int) -> tuple[str, int] | None:
    try:
        fields = stat_fields(pid)
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def group_runs(number: int) -> bool:
    """Tell whether a process of that group still runs. A zombie does not."""
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            try:
                state, _parent, group = stat_fields(int(entry.name))[:3]
            except (OSError, ValueError):
                continue
            if group == str(number) and state not in "ZX":
                return True
    return False


def is_locked(path: Path) -> bool:
    """Tell whether a process has an exclusive lock on that file. False if the file is missing or unreadable.

    The test uses a shared lock, so two that test at the same time do not take each other for the owner.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False
