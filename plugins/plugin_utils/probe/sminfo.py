# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `sminfo`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import guid, plain, unreadable

TOOL = "sminfo"
MASTER, STANDBY = "SMINFO_MASTER", "SMINFO_STANDBY"
_LINE = re.compile(r"sminfo: sm lid (\d+) sm guid (0x[0-9a-f]+), activity count (\d+) priority (\d+) state (\d+) (\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmInfo:
    """One subnet manager; `state` is `SMINFO_MASTER`, `SMINFO_STANDBY`, `SMINFO_DISCOVER` or `SMINFO_NOTACT`."""

    lid: int
    guid: int
    activity: int
    priority: int
    state: str


def parse(text: str) -> SmInfo:
    """Return the state of the subnet manager.

    Raises:
        InputError: there is no such line.
    """
    clean = plain(text)
    match = _LINE.search(clean)
    if match is None:
        raise unreadable(
            TOOL, clean.strip()[:80], "a line such as `sminfo: sm lid 1 sm guid 0x..., activity count ...`"
        )
    lid, activity, priority = (int(match[number]) for number in (1, 3, 4))
    return SmInfo(lid=lid, guid=guid(match[2], TOOL), activity=activity, priority=priority, state=match[6])
