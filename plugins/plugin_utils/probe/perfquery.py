# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `perfquery`, with `-x` and `-E`: counters of ports by LID, which may be those of a switch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "perfquery"
_TITLE = re.compile(
    r"# (Port(?: extended|RcvErrorDetails)?) counters: Lid (\d{1,6}) port (\d{1,3})(?: \(CapMask.{0,80}\))?"
)
_COUNTER = re.compile(r"([A-Za-z]\w{1,60}):\.{1,60}(\d{1,20}|0x[0-9A-Fa-f]{1,16})")


@dataclass(frozen=True, slots=True)
class LidCounters:
    """One block: `kind` as its title says (Port, Port extended, PortRcvErrorDetails), without what it selects."""

    kind: str
    lid: int
    port: int
    counters: dict[str, int]


def parse(text: str) -> tuple[LidCounters, ...]:
    """Return the blocks in the tool's order.

    Raises:
        InputError: no title, a block without counters, a counter twice, or a line of another kind.
    """
    found: list[LidCounters] = []
    for line in plain(text).splitlines():
        if title := _TITLE.fullmatch(line.rstrip()):
            found.append(LidCounters(title.group(1), int(title.group(2)), int(title.group(3)), {}))
            continue
        if not line.strip():
            continue
        counter = _COUNTER.fullmatch(line.rstrip())
        if counter is None or not found:
            raise unreadable(TOOL, line, "`# Port counters: Lid 1 port 1`, and below it `SymbolErrorCounter:...0`")
        name, value = counter.groups()
        if name in found[-1].counters:
            raise unreadable(TOOL, f"{name} twice", "every counter of a port once")
        if not value.startswith("0x") and name != "PortSelect":
            found[-1].counters[name] = int(value)
    if not found or not all(block.counters for block in found):
        raise unreadable(TOOL, text[:80], "at least one counter below every title")
    return tuple(found)
