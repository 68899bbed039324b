# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `perfquery`: plain, extended (`-x`) and detail (`-E`) counters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "perfquery"
_HEADER = re.compile(r"# (.+?)(?: counters)?: Lid (\d+) port (\d+)\b.*")
_SELECTORS = ("PortSelect", "CounterSelect")  # what was asked, not what was counted
_COUNTER = re.compile(r"(\w+):\.*(0x[0-9a-fA-F]+|\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortCounters:
    """The counters of one port; `title` says which kind (`Port`, `Port extended`, `PortRcvErrorDetails`)."""

    title: str
    lid: int
    port: int
    counters: dict[str, int]


def parse(text: str) -> tuple[PortCounters, ...]:
    """Return the counters of every port in the output.

    Raises:
        InputError: no port, a counter before the first port, or a line is not what the tool prints.
    """
    ports: list[PortCounters] = []
    for line in plain(text).splitlines():
        stripped = line.strip()
        if not stripped:
            continue
        if header := _HEADER.fullmatch(stripped):
            ports.append(PortCounters(title=header[1], lid=int(header[2]), port=int(header[3]), counters={}))
        elif (match := _COUNTER.fullmatch(stripped)) and ports:
            if not match[1].startswith(_SELECTORS):
                ports[-1].counters[match[1]] = int(match[2], 0)
        else:
            raise unreadable(TOOL, stripped, "a counter such as `SymbolErrorCounter:....0`")
    if not ports or not all(port.counters for port in ports):
        raise unreadable(TOOL, plain(text)[:80], "the counters of at least one port")
    return tuple(ports)
