# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the commands of all simulated hosts during a rehearsal: one Python process that forks for each of them.

On a real site every host starts its own Python. Here all hosts share one machine, and two starts of Python (the
enclosure's and the module's) are most of the cost of reading a host. So this program has already started, and has
loaded the libraries of every Ansible module (preloaded.py). Each command gets a fork, which makes the same enclosure as
usual. A command that is nothing but `python` reading a module continues in that fork; any other one becomes a shell.

    python launch.py rehearsal.hosts.resident <rehearsal dir> <plain sudo> <commands whose output is kept, JSON>

It serves a socket in the rehearsal directory (see asking.py). A command ends when its client closes the connection, and
all of them end with this program.
"""

from __future__ import annotations

import array
import atexit
import fcntl
import gc
import json
import os
import re
import select
import shlex
import signal
import socket
import sys
import threading
from contextlib import suppress
from types import FrameType, ModuleType
from typing import NoReturn

from . import enclosure, preloaded
from .asking import FDS, Order, resident_address
from .kept_answers import KeptAnswers

_BACKLOG = 512
_ORDER_S = 30.0
_TURN_MS = 10
_SUDO = ["sudo", "-H", "-S", "-n", "-u", "root"]
_SHELL = ["/bin/sh", "-c"]
_BECOME = re.compile(r"echo (BECOME-SUCCESS-[a-z]+) ; (.+)")
_UMASK = 0o022
_MOST_FILES = 1 << 20


def python_on_input(command: str, *, sudo_is_plain: bool) -> list[str] | None:
    """Return the output of a command before it becomes this Python reading a program; None for any other command.

    Ansible sends a module as `/bin/sh -c '<sudo> /bin/sh -c "echo BECOME-SUCCESS-... ; <python>"'`.
    """
    reported: list[str] = []
    try:
        words = shlex.split(command)
        while words != [sys.executable]:
            if sudo_is_plain and words[: len(_SUDO)] == _SUDO:
                words = words[len(_SUDO) :]
            elif words[:2] == _SHELL and len(words) == 3:
                become = _BECOME.fullmatch(words[2])
                reported += [become.group(1)] if become else []
                words = shlex.split(become.group(2) if become else words[2])
            else:
                return None
    except ValueError:
        return None
    return reported


class _Host:
    """The part that runs in the fork inside the host."""

    def __init__(self, sudo: bytes, commands: list[list[str]]) -> None:
        self._sudo, self._commands = sudo, commands

    def become(self, host: str, command: str) -> NoReturn:
        reported = python_on_input(command, sudo_is_plain=self._has_plain_sudo())
        if reported is None:
            enclosure.run_shell(host, command)
        # Lock and socket belong to the process that waits for this one.
        os.closerange(FDS, _MOST_FILES)
        os.environ.clear()
        os.environ.update(enclosure.login(host))
        os.write(1, "".join(f"{line}\n" for line in reported).encode())
        answers = KeptAnswers(self._commands)
        answers.offer()
        # Exit status after a traceback.
        code = 1
        try:
            code = _run_input()
            answers.keep()
        finally:
            os._exit(code)

    def _has_plain_sudo(self) -> bool:
        try:
            with open(f"{enclosure.TOOLS_AT}/bin/sudo", "rb") as tool:
                return tool.read() == self._sudo
        except OSError:
            return False


def _run_input() -> int:
    """Run the program on standard input as Python does. Return its exit status."""
    with open(0, "rb", closefd=False) as stream:
        source = stream.read()
    sys.argv[:] = [""]
    sys.path.insert(0, "")
    sys.modules["__main__"] = program = ModuleType("__main__")
    preloaded.offer()
    try:
        exec(compile(source, "<stdin>", "exec"), program.__dict__)
    except SystemExit as end:
        return _status(end)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        # The end of the interpreter. Both names are not public, and in every Python since 3.9.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for written in (sys.stdout, sys.stderr):
            written.flush()
    return 0


def _status(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def _serve(connection: socket.socket, rehearsal: str, host: _Host) -> int:
    """Run the one command of a connection. Return the exit status of this process."""
    enclosure.die_with_parent()
    os.setsid()
    connection.settimeout(_ORDER_S)
    order, streams = _received(connection)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.umask(_UMASK)
    for name, value in order.environment.items():
        os.environ[name] = value
    try:
        status = _followed(connection, rehearsal, order, host)
    except (enclosure.Refusal, OSError) as problem:
        enclosure.refuse(problem)
        status = enclosure.REFUSED
    for number in range(3):
        os.close(number)
    connection.sendall(b"%d\n" % status)
    return 0


def _received(connection: socket.socket) -> tuple[Order, list[int]]:
    size = array.array("i").itemsize
    text, ancillary, _flags, _address = connection.recvmsg(1 << 16, socket.CMSG_SPACE(FDS * size))
    streams = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            streams.frombytes(data[: len(data) - len(data) % size])
    while not text.endswith(b"\n"):
        more = connection.recv(1 << 16)
        if not more:
            raise ConnectionError("the order is not whole")
        text += more
    return Order.read(text), list(streams)


def _followed(connection: socket.socket, rehearsal: str, order: Order, host: _Host) -> int:
    lock = enclosure.lock_file(rehearsal, order.host)
    requested = select.poll()
    requested.register(connection, select.POLLIN)
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if requested.poll(_TURN_MS):
                return enclosure.REFUSED
    first = enclosure.start(rehearsal, order.host, order.command, host.become)
    ended = os.pidfd_open(first)
    requested.register(ended, select.POLLIN)
    if ended not in dict(requested.poll()):
        # The client closed the connection. With the first process of the namespace all others end.
        signal.pidfd_send_signal(ended, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])


def _bury(_number: int, _frame: FrameType | None) -> None:
    # Not left to the kernel, which would not count their CPU time.
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def main() -> NoReturn:
    """Serve until the end."""
    rehearsal, sudo = os.path.realpath(sys.argv[1]), sys.argv[2]
    with open(sudo, "rb") as tool:
        host = _Host(tool.read(), json.loads(sys.argv[3]))
    preloaded.load()
    gc.collect()
    # Excluded from garbage collection, since a fork would copy all of it.
    gc.freeze()
    signal.signal(signal.SIGCHLD, _bury)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        with resident_address(rehearsal) as address:
            if os.path.lexists(address):
                os.unlink(address)
            listening.bind(address)
        listening.listen(_BACKLOG)
        while True:
            connection, _peer = listening.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listening.close()
                code = 1
                try:
                    code = _serve(connection, rehearsal, host)
                finally:
                    os._exit(code)
            connection.close()


if __name__ == "__main__":
    main()
