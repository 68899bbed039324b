# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of three readings of `ps`, seconds apart: processes that wait and cannot be interrupted (state D, ps(1))."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .blocks import blocks
from .text import unreadable

TOOL = "ps -e -o pid,ppid,stat,etimes,comm"
_READINGS = ("1", "2", "3")
_ROW = re.compile(r"\s{0,12}(\d{1,9})\s+(\d{1,9})\s+(D\S{0,8})\s+(\d{1,12})\s+(\S.{0,80})")
_COUNT = re.compile(r"processes (\d{1,7})")
_KERNEL = 2


@dataclass(frozen=True, slots=True)
class Waiting:
    """A process that waited in every reading; `age_s` is how long ago it was started. Threads of the kernel are left
    out: some of them always wait so."""

    pid: int
    program: str
    age_s: int


def parse(text: str) -> tuple[Waiting, ...]:
    """Return the processes that waited in all readings.

    Raises:
        InputError: a reading is missing, or does not say of how many processes it is.
    """
    parts = blocks(text, TOOL)
    if tuple(parts) != _READINGS:
        raise unreadable(TOOL, f"readings {', '.join(parts)}", f"readings {', '.join(_READINGS)}")
    readings = [_reading(lines) for lines in parts.values()]
    always = set(readings[0]).intersection(*readings[1:])
    return tuple(readings[-1][pid] for pid in sorted(always))


def _reading(lines: list[str]) -> dict[int, Waiting]:
    found: dict[int, Waiting] = {}
    counts = []
    for line in lines:
        if count := _COUNT.fullmatch(line.strip()):
            counts.append(int(count[1]))
        elif row := _ROW.fullmatch(line.rstrip()):
            if _KERNEL not in (int(row[1]), int(row[2])):
                found[int(row[1])] = Waiting(int(row[1]), row[5], int(row[4]))
        elif line.strip():
            raise unreadable(TOOL, line, "`4242 1 D 7200 python3`")
    if len(counts) != 1 or not counts[0]:
        raise unreadable(TOOL, f"{counts} processes", "the number of all processes, once and not 0")
    return found
