# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the connection and the resident program of a rehearsal say to each other.

A connection is one command: the order as one line of JSON, with the three standard streams (SCM_RIGHTS); when the
command has ended, its exit status as one line. Hanging up ends the command.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

FDS = 3
_NAME = "resident.sock"


class Order:
    """One command: the host, the command, and what of the caller's environment goes with it."""

    __slots__ = ("command", "environment", "host")

    def __init__(self, host: str, command: str, environment: dict[str, str]) -> None:
        self.host = host
        self.command = command
        self.environment = environment

    def line(self) -> bytes:
        """Return the line that is sent."""
        return json.dumps([self.host, self.command, self.environment]).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Order:
        """Return what a line says."""
        host, command, environment = json.loads(line)
        return cls(str(host), str(command), dict(environment))


@contextmanager
def resident_address(rehearsal: str) -> Iterator[str]:
    """Yield the address of the socket; by way of a file descriptor, for an address has at most 107 bytes."""
    directory = os.open(rehearsal, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{_NAME}"
    finally:
        os.close(directory)
