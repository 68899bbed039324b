# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the log of phc2sys (linuxptp), which sets the system's clock by the adapter's.

A line reads `phc2sys[359.907]: CLOCK_REALTIME phc offset -20 s2 freq +10469 delay 37`: nanoseconds, and s2 says locked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "journalctl -u 'phc2sys*'"
_LINE = re.compile(r"phc2sys\[[\d.]+\]:.*\bCLOCK_REALTIME\s+(?:phc|sys)\s+offset\s+(-?\d{1,18})\s+s([0-3])\s+freq\b")


@dataclass(frozen=True, slots=True)
class PtpClock:
    """The last line of the log: `offset_s` is that of the system's clock, `locked` that it follows."""

    offset_s: float
    locked: bool


def parse(text: str) -> PtpClock:
    """Return the state that the last line tells.

    Raises:
        InputError: no line tells one.
    """
    found = [match for line in plain(text).splitlines() if (match := _LINE.search(line))]
    if not found:
        raise unreadable(TOOL, plain(text)[-80:], "a line such as `CLOCK_REALTIME phc offset -20 s2 freq +10469`")
    return PtpClock(offset_s=int(found[-1].group(1)) / 1e9, locked=found[-1].group(2) == "2")
