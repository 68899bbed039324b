# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `sinfo -N -o <fields>|...`: a row for each node and partition, of which nodes are made.

What is asked for is free, so columns are found by their names. A name may stand there twice: short and long states.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "sinfo -N"
# Of a node's own name and of its state: whichever was asked for.
_NODE = ("NODELIST", "HOSTNAMES")
_STATE, _REASON, _GRES, _PARTITION = "STATE", "REASON", "GRES", "PARTITION"
# What sinfo.1 lets follow a state: * is "not responding".
_WORD = re.compile(r"([a-z][a-z_]{1,30})([*~#!%$@^+-]*)")
_NOTHING = ("", "none", "(null)", "N/A", "Unknown")
# Short and long words of a state (sinfo.1).
_LONG = {
    "alloc": "allocated", "comp": "completing", "drain": "drained", "drng": "draining", "mix": "mixed",
    "resv": "reserved", "maint": "maint", "futr": "future", "npc": "perfctrs", "unk": "unknown",
    "plnd": "planned", "boot": "reboot",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SinfoNode:
    """One node: its long state without signs, `responding` unless a sign says not, partitions in their order."""

    name: str
    state: str
    responding: bool
    reason: str
    gres: str
    partitions: tuple[str, ...]


def parse(text: str) -> tuple[SinfoNode, ...]:
    """Return the nodes in the tool's order, each once.

    Raises:
        InputError: no header with a node and a state, no row, a row of another width, or one node in two states.
    """
    lines = [line for line in plain(text).splitlines() if line.strip()]
    names = [cell.strip() for cell in lines[0].split("|")] if lines else []
    node = next((name for name in _NODE if name in names), "")
    if not node or _STATE not in names:
        raise unreadable(TOOL, lines[0] if lines else "", "a header with NODELIST (or HOSTNAMES) and STATE, by |")
    found: dict[str, SinfoNode] = {}
    for line in lines[1:]:
        cells = [cell.strip() for cell in line.split("|")]
        # A separator at the end makes an empty cell more.
        if len(cells) == len(names) + 1 and not cells[-1]:
            cells.pop()
        if len(cells) != len(names):
            raise unreadable(TOOL, line, f"{len(names)} cells")
        row = _row(names, cells, node)
        known = found.get(row.name)
        if known is not None and (known.state, known.responding) != (row.state, row.responding):
            raise unreadable(TOOL, f"{row.name} is {known.state} and {row.state}", "one state of a node")
        parts = dict.fromkeys((*(known.partitions if known else ()), *row.partitions))
        found[row.name] = SinfoNode(row.name, row.state, row.responding, row.reason, row.gres, tuple(parts))
    if not found:
        raise unreadable(TOOL, "no row", "at least one node")
    return tuple(found.values())


def _row(names: list[str], cells: list[str], node: str) -> SinfoNode:
    def word(name: str) -> str:
        value = cells[names.index(name)] if name in names else ""
        return "" if value in _NOTHING else value

    match = _WORD.fullmatch(word(_STATE).lower())
    if match is None or not word(node):
        raise unreadable(TOOL, f"{word(node)!r} in state {word(_STATE)!r}", "a node and its state")
    state = _LONG.get(match.group(1), match.group(1))
    parts = (word(_PARTITION).rstrip("*"),) if word(_PARTITION) else ()
    return SinfoNode(word(node), state, "*" not in match.group(2), word(_REASON), word(_GRES), parts)
