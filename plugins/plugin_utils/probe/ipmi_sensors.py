# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `ipmitool sdr`: a row for each sensor of the machine's management controller."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "ipmitool sdr"
_ROW = re.compile(r"([^|]{1,40})\|([^|]{1,60})\|\s{0,20}([a-z]{2,3})\s{0,20}")
_READING = re.compile(r"(-?\d{1,9}(?:\.\d{1,6})?) ([A-Za-z%][A-Za-z %]{0,30})")
_DISCRETE = re.compile(r"0x[0-9a-fA-F]{1,8}")
# ipmitool.1: ok, not readable, and non-critical, critical, non-recoverable, below or above the limits.
_STATES = ("ok", "ns", "nc", "cr", "nr", "lnc", "lcr", "lnr", "unc", "ucr", "unr")


@dataclass(frozen=True, slots=True)
class Sensor:
    """One sensor: `value` is None for states in bits (`0x00`), and for one that cannot be read (`ns`)."""

    name: str
    state: str
    value: float | None
    unit: str = ""


def parse(text: str) -> tuple[Sensor, ...]:
    """Return the sensors in the tool's order; two may have one name.

    Raises:
        InputError: no row, one of another kind, or a state that nobody knows.
    """
    found = tuple(_sensor(line) for line in plain(text).splitlines() if line.strip())
    if not found:
        raise unreadable(TOOL, text[:80], "at least one sensor")
    return found


def _sensor(line: str) -> Sensor:
    match = _ROW.fullmatch(line.rstrip())
    if match is None or match.group(3) not in _STATES:
        raise unreadable(TOOL, line, "`Ambient Temp | 20 degrees C | ok`")
    name, said, state = (part.strip() for part in match.groups())
    reading = _READING.fullmatch(said)
    if reading is not None:
        return Sensor(name, state, float(reading.group(1)), reading.group(2))
    if not _DISCRETE.fullmatch(said) and state == "ok":
        raise unreadable(TOOL, line, "a number with its unit, or bits such as 0x00")
    return Sensor(name, state, None)
