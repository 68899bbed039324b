# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Processes of the controller: started with a time limit, bound to their parent, known by identity, and nothing
left behind.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from ..outcome.errors import NotFoundError

# Starting a child that cannot outlive its parent.

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def bound_to_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Return a `preexec_fn` with which the kernel sends the child that signal as soon as its parent is gone.

    It guards against SIGKILL of the parent, which no handler sees. The kernel looks at the thread that started the
    child, so start children from the main thread.
    """
    parent = os.getpid()

    def bind() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # the parent went between fork and prctl
            os._exit(1)

    return bind


# Running a command on the controller, with a time limit and nothing left behind.


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
    if grace_s and signal_group(process, signal.SIGTERM):
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=grace_s)
    signal_group(process, signal.SIGKILL)


def signal_group(process: subprocess.Popen[Any], number: signal.Signals) -> bool:
    """Send a signal to the group of a process that leads one; tell whether there is one."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True


# A stream of which the beginning and the end are kept, and a line that says how much between them is not.
#
# The line is a part of the text, so whoever reads the evidence later knows it as well.

_MARK = "[gpufleet: {} bytes of this log are left out here]"
_CUT = re.compile(r"^" + re.escape(_MARK).replace(re.escape("{}"), r"(\d{1,20})") + r"$", re.MULTILINE)
_OPEN_END = "[gpufleet: the end of this log could not be read]"


class Capped:
    """The first and the last half of `limit` bytes of a stream, whatever its length."""

    def __init__(self, limit: int) -> None:
        """Begin with nothing; `limit` is in bytes."""
        self._half = max(1, limit // 2)
        self._head, self._tail = bytearray(), bytearray()
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        """Take the next piece of the stream."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        surplus = len(self._tail) - self._half
        if surplus > 0:
            self._left_out += surplus
            del self._tail[:surplus]

    def content(self) -> bytes:
        """Return what was kept; where something was left out, whole lines around a line that says how much."""
        if not self._left_out:
            return bytes(self._head + self._tail)
        head, tail = bytes(self._head), bytes(self._tail)
        # What is cut in the middle of a line could read as something else.
        begun, ended = head.rfind(b"\n") + 1, tail.find(b"\n") + 1 or len(tail)
        left_out = self._left_out + len(head) - begun + ended
        return head[:begun] + _MARK.format(left_out).encode() + b"\n" + tail[ended:]


def with_open_end(log: str) -> str:
    """Return a log that was cut before its end, with a line that says so."""
    return f"{log.rstrip()}\n{_OPEN_END}\n"


def after_gap(text: str) -> str:
    """Return what a text says after the line that says that something was left out; all of it without such a line."""
    found = _CUT.search(text)
    return text[found.end() :] if found else text


def left_out_of(log: str) -> str:
    """Return what a log says that is not in it, as a clause for people; empty where it is whole."""
    if log.rstrip().endswith(_OPEN_END):
        return "the end of its log could not be read"
    found = _CUT.search(log)
    return f"{int(found[1])} bytes in the middle of its log were left out, more than is read of one" if found else ""


# A file in memory for a program that wants one: where both are killed, nothing stays behind on a disk.


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Give a path at which the programs that this process starts read these bytes, until the end of the block."""
    file = lasting_memory_file(content)
    try:
        yield f"/proc/{os.getpid()}/fd/{file}"
    finally:
        os.close(file)


def lasting_memory_file(content: bytes) -> int:
    """Return the descriptor of a file in memory with these bytes, which ends with this process or when it is closed."""
    file = os.memfd_create("gpufleet", os.MFD_CLOEXEC)
    with open(file, "wb", closefd=False) as stream:
        stream.write(content)
    return file


# Processes by identity: a pid alone can be somebody else's tomorrow, a pid with its start time cannot.

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process: its pid and when it started (clock ticks since boot, field 22 of /proc/<pid>/stat)."""

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        state = _state(self.pid)
        return state is not None and state[1] == self.start_ticks and state[0] not in "ZX"


def identify(pid: int) -> ProcessId | None:
    """Return the identity of a running process, None when there is none."""
    state = _state(pid)
    return ProcessId(pid, state[1]) if state is not None and state[0] not in "ZX" else None


def controller_pid() -> int:
    """Return the pid of the ansible-playbook, which forked the worker that an action runs in; elsewhere our own."""
    import multiprocessing

    parent = multiprocessing.parent_process()
    return parent.pid if parent is not None and parent.pid is not None else os.getpid()


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the command's name.

    Raises:
        OSError: there is no such process.
    """
    # The command name may hold spaces and parentheses: count fields after the last one.
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _state(pid: int) -> tuple[str, int] | None:
    try:
        fields = stat_fields(pid)
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def group_runs(number: int) -> bool:
    """Tell whether a process of that group still runs; a zombie does not."""
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
    """Tell whether a process has locked that file for itself; not where it is not there, or may not be read.

    Two who look take each other for no holder.
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
