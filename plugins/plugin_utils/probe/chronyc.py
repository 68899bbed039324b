# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `chronyc tracking`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable, whole

TOOL = "chronyc tracking"
_LOCAL = "7F7F01"
_REFERENCE = re.compile(r"[0-9A-Za-z.:]{1,64} \(.{0,256}\)")
_OFFSET = re.compile(r"([\d.]+) seconds (fast|slow) of NTP time")


@dataclass(frozen=True, slots=True)
class Tracking:
    """State of the clock.

    - `offset_s`: positive if the clock is fast. Without a source it is 0, so check `leap_status`.
    - `root_delay_s`, `root_dispersion_s`: distance to the reference clock. By chronyc(1) the clock is at most |offset|
      + root dispersion + half of the root delay off.
    """

    reference: str
    stratum: int
    offset_s: float
    last_offset_s: float
    leap_status: str
    root_delay_s: float
    root_dispersion_s: float

    @property
    def local(self) -> bool:
        """Whether it follows no external source. By chronyc(1) 127.127.1.1 is the local mode."""
        return self.reference.upper().startswith(_LOCAL)

    @property
    def error_bound_s(self) -> float:
        """Largest possible error of the clock in seconds."""
        return abs(self.offset_s) + self.root_dispersion_s + self.root_delay_s / 2


def parse(text: str) -> Tracking:
    """Return the state of the clock.

    Raises:
        InputError: a line is missing or not what chronyc prints.
    """
    fields: dict[str, str] = {}
    for line in plain(text).splitlines():
        name, colon, value = line.partition(" : ")
        if colon:
            fields[name.strip()] = value.strip()
    offset = _OFFSET.fullmatch(_need(fields, "System time"))
    if offset is None:
        raise unreadable(TOOL, fields["System time"], "`N seconds fast|slow of NTP time`")
    sign = 1.0 if offset.group(2) == "fast" else -1.0
    stratum = whole(_need(fields, "Stratum"), TOOL, "Stratum")
    return Tracking(
        reference=_reference(_need(fields, "Reference ID")),
        stratum=stratum,
        offset_s=sign * _seconds(offset.group(1)),
        last_offset_s=_seconds(_whole(_need(fields, "Last offset"))),
        leap_status=_need(fields, "Leap status"),
        root_delay_s=_seconds(_whole(_need(fields, "Root delay"))),
        root_dispersion_s=_seconds(_whole(_need(fields, "Root dispersion"))),
    )


def _need(fields: dict[str, str], name: str) -> str:
    if not fields.get(name):
        raise unreadable(TOOL, f"no {name}", f"a line `{name} : ...`")
    return fields[name]


def _reference(text: str) -> str:
    # `C0000201 (ntp1.example.org)`, `00000000 ()`.
    if not _REFERENCE.fullmatch(text):
        raise unreadable(TOOL, text, "a reference and its name, `C0000201 (ntp1.example.org)`")
    return text


def _whole(text: str) -> str:
    """Return the number of a field. Without its unit the line was cut, and the number may be, too."""
    number, unit, rest = text.partition(" seconds")
    if not unit or rest:
        raise unreadable(TOOL, text, "`N seconds`")
    return number


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise unreadable(TOOL, text, "seconds") from None
