# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `ibqueryerrors`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "ibqueryerrors"
_HEADER = re.compile(r'Errors for (?:(0x[0-9a-f]+) )?"(.*)"')
_PORT = re.compile(r"GUID (0x[0-9a-f]+) port (\d+|ALL):((?:\s*\[\w+ == \d+\])+)")
_COUNTER = re.compile(r"\[(\w+) == (\d+)\]")
_SUMMARY = re.compile(r"## Summary: (\d+) nodes checked, (\d+) bad nodes found")
_PORTS = re.compile(r"##\s+(\d+) ports checked, (\d+) ports have errors beyond threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortErrors:
    """The counters of one port that are beyond the threshold."""

    node: str
    guid: str
    port: int
    counters: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """What the tool found, without its `port ALL` lines: they repeat the sums of the others."""

    ports: tuple[PortErrors, ...]
    nodes_checked: int
    bad_nodes: int
    ports_checked: int
    bad_ports: int


def parse(text: str) -> ErrorReport:
    """Return the report.

    Raises:
        InputError: no summary (the tool did not get to its end), or a line is not what the tool prints.
    """
    clean = plain(text)
    summary, counted = _SUMMARY.search(clean), _PORTS.search(clean)
    if summary is None or counted is None:
        raise unreadable(TOOL, clean[-80:], "a summary at the end")
    ports: list[PortErrors] = []
    node = ""
    for line in clean[: summary.start()].splitlines():
        stripped = line.strip()
        if header := _HEADER.fullmatch(stripped):
            node = header.group(2)
        elif match := _PORT.fullmatch(stripped):
            if match[2] != "ALL":
                counters = {name: int(value) for name, value in _COUNTER.findall(match[3])}
                ports.append(PortErrors(node=node, guid=match[1], port=int(match[2]), counters=counters))
        elif stripped:
            raise unreadable(TOOL, stripped, "a line such as `GUID 0x... port 1: [SymbolErrorCounter == 3]`")
    return ErrorReport(
        ports=tuple(ports), nodes_checked=int(summary[1]), bad_nodes=int(summary[2]), ports_checked=int(counted[1]),
        bad_ports=int(counted[2]),
    )  # fmt: skip
