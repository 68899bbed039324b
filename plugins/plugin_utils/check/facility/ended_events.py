# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which events of a BMC's log have ended (DMTF DSP0268, LogEntry EntryCode). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...probe.redfish_log import LogEntry

_ASSERT, _DEASSERT = "Assert", "Deassert"
# What tells the two apart in a message.
_STATE = re.compile(r"\b(?:de-?)?assert(?:ed|ion)?\b")


def without_ended(entries: Sequence[LogEntry]) -> tuple[LogEntry, ...]:
    """Return the entries but for those that ended: asserted, later deasserted by the same sensor with the same words.

    Racking, cording and firmware leave such pairs. Where the sensor, the order or the words are not known, it stays.
    """
    ends: dict[tuple[str, ...], str] = {}
    for entry in entries:
        if entry.code == _DEASSERT and entry.sensor and entry.created:
            key = _key(entry)
            ends[key] = max(ends.get(key, ""), entry.created)
    return tuple(
        entry
        for entry in entries
        if entry.code != _DEASSERT
        and not (
            entry.code == _ASSERT and entry.sensor and entry.created and entry.created <= ends.get(_key(entry), "")
        )
    )


def _key(entry: LogEntry) -> tuple[str, ...]:
    said = _STATE.sub("", entry.message.lower())
    return entry.log, entry.sensor, entry.message_id, " ".join(said.split())
