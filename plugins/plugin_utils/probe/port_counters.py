# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the counters of network adapters in /sys/class/infiniband, as `grep -H` prints one line for each file.

What they count: the Linux kernel's Documentation/ABI/stable/sysfs-class-infiniband; those of a driver's own are in
hw_counters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "grep of /sys/class/infiniband/*/ports/*/counters"
_LINE = re.compile(r"/sys/class/infiniband/([\w.-]{1,40})/ports/(\d{1,3})/(?:hw_)?counters/(\w{1,60}):(.{0,40})")


@dataclass(frozen=True, slots=True)
class PortCounters:
    """The counters of one port by name; one that the driver does not keep (`N/A (no PMA)`) is left out."""

    port: str
    counters: dict[str, int]


def parse(text: str) -> tuple[PortCounters, ...]:
    """Return the ports as `mlx5_0:1`, in the order of their names.

    Raises:
        InputError: a line of another kind, a counter twice, or no counter.
    """
    ports: dict[str, dict[str, int]] = {}
    for line in plain(text).splitlines():
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise unreadable(TOOL, line, "`/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:0`")
        counters = ports.setdefault(f"{match.group(1)}:{match.group(2)}", {})
        if match.group(3) in counters:
            raise unreadable(TOOL, f"{match.group(3)} twice", "every counter once")
        if (value := match.group(4).strip()).isdecimal():
            counters[match.group(3)] = int(value)
    found = tuple(PortCounters(port, counters) for port, counters in sorted(ports.items()) if counters)
    if not found:
        raise unreadable(TOOL, plain(text)[:80], "at least one counter")
    return found
