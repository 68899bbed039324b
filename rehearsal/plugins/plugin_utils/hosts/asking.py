# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs one command through the resident program of a rehearsal: the controller's side, and the protocol of both."""

from __future__ import annotations

import array
import json
import os
import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from .enclosure import CALLERS_VARIABLES

# Protocol between the connection and the resident program of a rehearsal.
#
# A connection is one command: the order as one line of JSON, with the three standard streams (SCM_RIGHTS). When the
# command has ended, the response is its exit status as one line. Closing the connection ends the command.

FDS = 3
_NAME = "resident.sock"


class Order:
    """One command: the host, the command, and the variables of the caller's environment that it gets."""

    __slots__ = ("command", "environment", "host")

    def __init__(self, host: str, command: str, environment: dict[str, str]) -> None:
        self.host = host
        self.command = command
        self.environment = environment

    def line(self) -> bytes:
        """Return the order as the line to send."""
        return json.dumps([self.host, self.command, self.environment]).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Order:
        """Return the order in a line."""
        host, command, environment = json.loads(line)
        return cls(str(host), str(command), dict(environment))


@contextmanager
def resident_address(rehearsal: str) -> Iterator[str]:
    """Yield the address of the socket. It goes through a file descriptor, since an address has at most 107 bytes."""
    directory = os.open(rehearsal, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{_NAME}"
    finally:
        os.close(directory)


# The controller's side (see resident.py).

_CHUNK = 1 << 16
_END_S = 30.0


def resident_of(root: Path) -> socket.socket | None:
    """Return a connection to the resident program of a rehearsal, None if there is none."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with resident_address(str(root)) as address:
            found.connect(address)
    except OSError:
        found.close()
        return None
    return found


def ask(resident: socket.socket, host: str, command: str, stdin: bytes) -> tuple[int, bytes, bytes]:
    """Run a command on a host. Return exit code, standard output and standard error.

    However this function ends, the command has ended by then.

    Raises:
        ConnectionError: the resident program ended.
    """
    with ExitStack() as streams:
        pipes = [os.pipe() for _stream in range(3)]
        ours = [streams.enter_context(open(end, mode, 0)) for end, mode in _ends(pipes)]
        try:
            _order(resident, host, command, [pipes[0][0], pipes[1][1], pipes[2][1]])
            stdout, stderr = _exchanged(ours, stdin)
            status = resident.recv(_CHUNK)
        except BaseException:
            with suppress(OSError):
                resident.shutdown(socket.SHUT_WR)
                resident.settimeout(_END_S)
                while resident.recv(_CHUNK):
                    continue
            raise
    if not status:
        raise ConnectionError("the rehearsal ended meanwhile")
    return int(status), stdout, stderr


def _ends(pipes: list[tuple[int, int]]) -> list[tuple[int, str]]:
    return [(pipes[0][1], "wb"), (pipes[1][0], "rb"), (pipes[2][0], "rb")]


def _order(resident: socket.socket, host: str, command: str, streams: list[int]) -> None:
    kept = {name: os.environ[name] for name in CALLERS_VARIABLES if name in os.environ}
    line = Order(host, command, kept).line()
    try:
        sent = resident.sendmsg([line], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))])
        # Only if something is left: a short command may have ended already, and even an empty write is a broken pipe
        # then.
        if sent < len(line):
            resident.sendall(line[sent:])
    finally:
        for stream in streams:
            os.close(stream)


def _exchanged(streams: list[IO[Any]], stdin: bytes) -> tuple[bytes, bytes]:
    """Write the input and read both outputs to their ends."""
    source, *outputs = streams
    left = memoryview(stdin)
    kept: dict[int, list[bytes]] = {output.fileno(): [] for output in outputs}
    with selectors.DefaultSelector() as waiting:
        for output in outputs:
            waiting.register(output, selectors.EVENT_READ)
        if left:
            os.set_blocking(source.fileno(), False)
            waiting.register(source, selectors.EVENT_WRITE)
        else:
            source.close()
        while waiting.get_map():
            for key, _events in waiting.select():
                if key.fileobj is source:
                    try:
                        left = left[os.write(key.fd, left) :]
                    except BrokenPipeError:
                        # The command ended, or does not read.
                        left = left[:0]
                    if not left:
                        waiting.unregister(source)
                        source.close()
                elif chunk := os.read(key.fd, _CHUNK):
                    kept[key.fd].append(chunk)
                else:
                    waiting.unregister(key.fileobj)
    stdout, stderr = (b"".join(chunks) for chunks in kept.values())
    return stdout, stderr
