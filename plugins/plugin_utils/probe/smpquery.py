# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `smpquery portinfo`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable, whole

TOOL = "smpquery portinfo"
_FIELD = re.compile(r"(\w+):\.*(.*)")
_GBPS = re.compile(r"(\d+(?:\.\d+)?) Gbps")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortInfo:
    """One port: `lane_gbps` is the faster of the plain and the extended speed that is active."""

    lid: int
    sm_lid: int
    state: str
    physical_state: str
    width: str
    lane_gbps: float


def parse(text: str) -> PortInfo:
    """Return the port.

    Raises:
        InputError: a field is missing or nonsense.
    """
    fields = {
        match[1]: match[2].strip() for line in plain(text).splitlines() if (match := _FIELD.fullmatch(line.strip()))
    }
    for name in ("Lid", "SMLid", "LinkState", "PhysLinkState", "LinkWidthActive", "LinkSpeedActive"):
        if not fields.get(name):
            raise unreadable(TOOL, plain(text).strip()[:80], f"a line `{name}:....`")
    speeds = [_GBPS.fullmatch(fields.get(name, "")) for name in ("LinkSpeedActive", "LinkSpeedExtActive")]
    return PortInfo(
        lid=whole(fields["Lid"], TOOL, "Lid"),
        sm_lid=whole(fields["SMLid"], TOOL, "SMLid"),
        state=fields["LinkState"],
        physical_state=fields["PhysLinkState"],
        width=fields["LinkWidthActive"],
        lane_gbps=max((float(match[1]) for match in speeds if match), default=0.0),
    )
