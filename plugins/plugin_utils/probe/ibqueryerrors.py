# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `ibqueryerrors`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import guid, plain, unreadable

TOOL = "ibqueryerrors"
_HEADER = re.compile(r'Errors for (?:(0x[0-9a-f]+) )?"(.*)"')
# A 64-bit counter is followed by its value in short form: `[SymbolErrorCounter == 70000 (68.359K)]`.
_COUNTER = re.compile(r"\[(\w+) == (\d+)( \([\d.]+\w{0,2}\))?\]")
_PORT = re.compile(r"GUID (0x[0-9a-f]+) port (\d+|ALL):((?:\s*\[\w+ == \d+(?: \([\d.]+\w{0,2}\))?\])+)")
_SUMMARY = re.compile(r"## Summary: (\d+) nodes checked, (\d+) bad nodes found")
_PORTS = re.compile(r"##\s+(\d+) ports checked, (\d+) ports have errors beyond threshold")
_FAILURES = re.compile(r"##\s+(\d+) PMA query failures")


@dataclass(frozen=True, slots=True, kw_only=True)
class PortErrors:
    """Counters of one port above the threshold.

    - `guid`: port GUID, for a switch that of the whole device. Releases before 2014 printed that of the device.
    - `wide`: 64-bit counters, which never saturate in practice.
    """

    node: str
    guid: int
    port: int
    counters: dict[str, int]
    wide: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """Result of the tool, without its `port ALL` lines, which only repeat the sums of the others.

    `failures` counts devices and ports whose counters could not be read.
    """

    ports: tuple[PortErrors, ...]
    nodes_checked: int
    bad_nodes: int
    ports_checked: int
    bad_ports: int
    failures: int = 0


def parse(text: str) -> ErrorReport:
    """Return the report.

    Raises:
        InputError: no summary (the tool did not finish), a line is not what the tool prints, or the summary counts
            other ports or nodes than the lines before it.
    """
    clean = plain(text)
    summary, counted = _SUMMARY.search(clean), _PORTS.search(clean)
    if summary is None or counted is None:
        raise unreadable(TOOL, clean[-80:], "a summary at the end")
    ports: list[PortErrors] = []
    node, nodes = "", 0
    for line in clean[: summary.start()].splitlines():
        stripped = line.strip()
        if header := _HEADER.fullmatch(stripped):
            node, nodes = header.group(2), nodes + 1
        elif (match := _PORT.fullmatch(stripped)) and nodes:
            if match[2] != "ALL":
                ports.append(_port(node, match))
        elif stripped:
            raise unreadable(TOOL, stripped, "a line such as `GUID 0x... port 1: [SymbolErrorCounter == 3]`")
    bad_nodes, bad_ports = int(summary[2]), int(counted[2])
    if (nodes, len(ports)) != (bad_nodes, bad_ports):
        found = f"{nodes} nodes and {len(ports)} ports with errors"
        raise unreadable(TOOL, found, f"{bad_nodes} nodes and {bad_ports} ports, as its summary says")
    failures = _FAILURES.search(clean)
    return ErrorReport(
        ports=tuple(ports), nodes_checked=int(summary[1]), bad_nodes=bad_nodes, ports_checked=int(counted[1]),
        bad_ports=bad_ports, failures=int(failures[1]) if failures else 0,
    )  # fmt: skip


def _port(node: str, match: re.Match[str]) -> PortErrors:
    found = _COUNTER.findall(match[3])
    return PortErrors(
        node=node,
        guid=guid(match[1], TOOL),
        port=int(match[2]),
        counters={name: int(value) for name, value, _short in found},
        wide=frozenset(name for name, _value, short in found if short),
    )
