# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The simulator's console: what is told to it, and what it says of the ports of an adapter."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence

_LOG = 1
_CHUNK = 1 << 16
_LIMIT_S = 10.0


class Console:
    """Both ends of the console. What nobody here asked for goes on to the log, which is standard output."""

    def __init__(self, told: int, said: int) -> None:
        """Take the file descriptors: the console's input, which others may write to as well, and its output."""
        self.said = said
        self._told = told
        self._asked = 0
        os.set_blocking(said, False)

    def tell(self, line: str) -> None:
        """Give the simulator one line."""
        os.write(self._told, f"{line}\n".encode())

    def pass_on(self) -> bool:
        """Write what the simulator said into the log, so that it can go on talking; tell whether that was all ever."""
        try:
            while chunk := os.read(self.said, _CHUNK):
                os.write(_LOG, chunk)
        except BlockingIOError:
            return False
        return True

    def states(self, adapters: Sequence[str]) -> str:
        """Return what the simulator says of these adapters: neighbour, LIDs, width, speed and state of every port.

        Empty if it does not say so in time.
        """
        self._asked += 1
        begin, end = (f'nodeid "H-{word}-{self._asked}" not found' for word in ("begin", "end"))
        # An unknown name before and behind: what others ask for at the same time lies outside, or is seen.
        for name in (f"H-begin-{self._asked}", *adapters, f"H-end-{self._asked}"):
            self.tell(f'Dump "{name}"')
        text, deadline = "", time.monotonic() + _LIMIT_S
        while end not in text:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self.said], [], [], left_s)[0]:
                return ""
            chunk = os.read(self.said, _CHUNK)
            if not chunk:
                return ""
            text += chunk.decode(errors="replace")
        blocks = text.partition(begin)[2].partition(end)[0]
        # Each answer begins with the time of day.
        return "\n".join(line for line in blocks.splitlines() if "# Net status" not in line)
