# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a command that ends as soon as nobody attends to it any more: `python tools/attended.py COMMAND...`.

`make` waits for its commands whatever it is told: a SIGINT to it alone, a terminal that was closed or a pipe that
nobody reads any more reach it but not them, or they reach the commands and are ignored. This looks for all of it, asks
the command to end as Ctrl-C does, ends it if it does not, and waits until what it started is gone, too.

Standard library only and nothing of this collection: it runs before there is an environment.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

_POLL_S = 0.25
# To end by itself, and for what it started to go, too: together well under the 15 s that are promised.
_GRACE_S = 6.0
_AFTER_S = 6.0
# In which a command has noticed a signal.
_HEARD_S = 0.5
_MAKE = frozenset(("make", "gmake"))
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_FROM_KERNEL = 128
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None, use_errno=True)

Makes = dict[int, str]


def _stat(pid: int) -> list[str]:
    """Return the fields of a process after its name: state, parent, ... and, at 19, when it started."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def makes_above() -> Makes:
    """Return every `make` that this process works for, by pid, with its start time."""
    found: Makes = {}
    pid = os.getppid()
    while pid > 1:
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() in _MAKE:
                found[pid] = _stat(pid)[19]
            pid = int(_stat(pid)[1])
        except (OSError, IndexError, ValueError):
            break
    return found


def interrupted(makes: Makes) -> str:
    """Return what happened to a `make`: it is gone, or a signal told it to end and it waits for its commands.

    GNU make gives up its handler of a signal once it got it: then that signal is not caught any more.
    """
    for pid, start in makes.items():
        try:
            if _stat(pid)[19] != start or _stat(pid)[0] in "ZX":
                return "make is gone"
            status = Path(f"/proc/{pid}/status").read_text()
        except (OSError, IndexError):
            return "make is gone"
        masks = dict(line.split(":\t", 1) for line in status.splitlines() if line.startswith("Sig"))
        caught, ignored = (int(masks[name], 16) for name in ("SigCgt", "SigIgn"))
        for number in (signal.SIGINT, signal.SIGHUP):
            bit = 1 << (number - 1)
            # Before its handlers are there make has no commands, so what is neither caught nor ignored was caught.
            if not (caught | ignored) & bit:
                return f"make got {number.name}"
    return ""


def unheard() -> str:
    """Return why nobody can read the output any more."""
    poller = select.poll()
    poller.register(1, 0)
    events = poller.poll(0)
    return "its output was closed" if events and events[0][1] & (select.POLLERR | select.POLLHUP) else ""


def begin(argv: list[str], watched: Iterable[signal.Signals]) -> int:
    """Start the command and return its pid; it gets Ctrl-C from the terminal, and SIGINT if this process dies."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        if signal.SIGHUP in watched:
            # A closed terminal is this process's business: the command is asked to end in good order.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, watched)
        if os.getppid() == parent:
            os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
    os._exit(127)


def reap(child: int) -> int | None:
    """Take the exit status of whoever ended; return that of the command once it has."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def children() -> list[int]:
    """Return the processes of this one: the command, and what it left behind."""
    return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def end(child: int, told: bool, watched: Iterable[signal.Signals], keep: bool) -> None:
    """End the command and wait for what it started, as long as that may take; another signal ends it at once."""
    if not told:
        ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        os.kill(child, signal.SIGTERM if ignored else signal.SIGINT)
    deadline = time.monotonic() + _GRACE_S
    while reap(child) is None:
        again = signal.sigtimedwait(watched, 0.05)
        if again is not None or time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
    deadline = time.monotonic() + _AFTER_S
    while not keep and children() and time.monotonic() < deadline:
        reap(child)
        time.sleep(0.05)


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code, or 130 if it was ended."""
    keep = arguments[:1] == ["--keep"]
    argv = arguments[keep:]
    makes = makes_above()
    watched = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    signal.pthread_sigmask(signal.SIG_BLOCK, [*watched, signal.SIGCHLD])
    # What the command leaves behind becomes ours and not of the machine's first process.
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = begin(argv, [*watched, signal.SIGCHLD])
    caught = False
    while True:
        got = signal.sigtimedwait([*watched, signal.SIGCHLD], _POLL_S)
        code = reap(child)
        if code is not None:
            return code if code >= 0 else 128 - code
        caught = caught or catches_interrupt(child)
        reason = signal.Signals(got.si_signo).name if got is not None and got.si_signo != signal.SIGCHLD else ""
        reason = reason or interrupted(makes) or unheard()
        if reason:
            told = any(from_terminal(one) for one in (got, signal.sigtimedwait(watched, 0)))
            told = told or (caught and reason == signal.SIGINT.name and gave_up_interrupt(child))
            with contextlib.suppress(OSError):
                os.write(2, f"\n{Path(argv[0]).name}: ending, {reason}\n".encode())
            end(child, told, watched, keep)
            return 128 + signal.SIGINT


def catches_interrupt(pid: int) -> bool:
    """Whether a process has a handler of SIGINT now; not of one that is gone."""
    try:
        (mask,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    except (OSError, ValueError):
        return False
    return bool(int(mask.split()[1], 16) & 1 << (signal.SIGINT - 1))


def gave_up_interrupt(pid: int) -> bool:
    """Whether the command got the SIGINT as well, as of a whole process group: a second one would kill it.

    ansible-core gives its handler up at the first one (TaskQueueManager), as make does.
    """
    deadline = time.monotonic() + _HEARD_S
    while catches_interrupt(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not catches_interrupt(pid)


def from_terminal(got: signal.struct_siginfo | None) -> bool:
    """Whether it is a Ctrl-C, which the command got as well."""
    return got is not None and (got.si_signo, got.si_code) == (signal.SIGINT, _FROM_KERNEL)


def _mark(pid: int) -> str:
    """Return the words by which a process is known: its number, when it began in ticks since the machine did
    (proc_pid_stat(5), field 22), and the namespace in which that number counts; empty if it is gone."""
    try:
        return f"{pid}-{_stat(pid)[19]}-{os.stat('/proc/self/ns/pid').st_ino}"
    except (OSError, IndexError):
        return ""


def sweep(above: str) -> None:
    """Remove what attendants left that were killed: the name says whose it is."""
    here = f"-{os.stat('/proc/self/ns/pid').st_ino}"
    for place in Path(above).glob("attended-*-*-*-*"):
        owner = place.name.removeprefix("attended-").rpartition("-")[0]
        pid = owner.partition("-")[0]
        with contextlib.suppress(OSError):
            mine = place.lstat().st_uid == os.getuid() and place.is_dir() and not place.is_symlink()
            if mine and pid.isdigit() and owner.endswith(here) and _mark(int(pid)) != owner:
                shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def own_place() -> Iterator[None]:
    """Let Ansible have its temporary files in a directory that goes with this process, also if it has to be killed."""
    above = os.path.expanduser(os.environ.get("ANSIBLE_LOCAL_TEMP", "")) or None
    if above:
        os.makedirs(above, exist_ok=True)
    sweep(above or tempfile.gettempdir())
    place = tempfile.mkdtemp(prefix=f"attended-{_mark(os.getpid())}-", dir=above)
    os.environ["ANSIBLE_LOCAL_TEMP"] = place
    try:
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run() -> NoReturn:
    """Do what the command line says, and leave nothing to be flushed into a closed pipe."""
    with own_place():
        code = main(sys.argv[1:])
    os._exit(code)


if __name__ == "__main__":
    run()
