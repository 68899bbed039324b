# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `lscpu` in the C locale: number and kind of the processors (util-linux, sys-utils/lscpu.c)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable, whole

TOOL = "lscpu"
_FIELD = re.compile(r"\s*([^:]{1,60}):\s*(.*)")
_SPAN = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_MOST = 1 << 16


@dataclass(frozen=True, slots=True)
class Processors:
    """`online` of `count` logical processors run; what the tool leaves out on an architecture is empty."""

    count: int
    online: int
    model: str
    sockets: str
    threads_per_core: str
    numa_nodes: str

    def text(self) -> str:
        """Return the number and kind in words: `192 x Intel(R) Xeon(R) Platinum 8468`."""
        off = f" ({self.count - self.online} are off)" if self.online < self.count else ""
        parts = (
            f"{self.online} x {self.model or 'processor'}{off}",
            f"{self.sockets} sockets" if self.sockets else "",
            f"{self.threads_per_core} threads a core" if self.threads_per_core else "",
            f"{self.numa_nodes} NUMA nodes" if self.numa_nodes else "",
        )
        return ", ".join(part for part in parts if part)


def parse(text: str) -> Processors:
    """Return the processors.

    Raises:
        InputError: no number of processors, or none that are online.
    """
    fields: dict[str, str] = {}
    for line in plain(text).splitlines():
        match = _FIELD.fullmatch(line)
        if match is not None:
            fields.setdefault(match[1].strip(), match[2].strip())
    for name in ("CPU(s)", "On-line CPU(s) list"):
        if not fields.get(name):
            raise unreadable(TOOL, text[:80], f"a line `{name}: ...`")
    count, online = whole(fields["CPU(s)"], TOOL, "CPU(s)"), _online(fields["On-line CPU(s) list"])
    if not 0 < online <= count:
        raise unreadable(TOOL, f"{online} of {count} processors", "some, and no more than there are")
    return Processors(
        count=count,
        online=online,
        model=fields.get("Model name", ""),
        sockets=fields.get("Socket(s)", ""),
        threads_per_core=fields.get("Thread(s) per core", ""),
        numa_nodes=fields.get("NUMA node(s)", ""),
    )


def _online(text: str) -> int:
    """Return how many processors a list such as `0-95,192-287` has."""
    number = 0
    for span in text.split(","):
        match = _SPAN.fullmatch(span.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < _MOST:
            raise unreadable(TOOL, text[:80], "a list of processors such as 0-95,192-287")
        number += last - first + 1
    return number
