# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `ethtool -S <device>`: counters of a network device.

The driver chooses the names. For mlx5 they are described in the Linux kernel's
Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst.
"""

from __future__ import annotations

import re

from .blocks import blocks
from .port_counters import PortCounters
from .text import unreadable

TOOL = "ethtool -S"
_TITLE = "NIC statistics:"
_COUNTER = re.compile(r"\s*([A-Za-z][\w.\[\]() /-]{0,60}?): (-?\d{1,20})")


def parse(text: str) -> tuple[PortCounters, ...]:
    """Return the devices in the tool's order; `port` is the device, empty where no line names it.

    Raises:
        InputError: a device without title or counters, a counter twice, or a line of another kind.
    """
    return tuple(_device(name, lines) for name, lines in blocks(text, TOOL).items())


def _device(name: str, lines: list[str]) -> PortCounters:
    reported = [line.rstrip() for line in lines if line.strip()]
    if not reported or reported[0].strip() != _TITLE:
        raise unreadable(TOOL, f"{name or 'a device'}: {reported[0] if reported else ''}", f"`{_TITLE}`")
    counters: dict[str, int] = {}
    for line in reported[1:]:
        match = _COUNTER.fullmatch(line)
        if match is None:
            raise unreadable(TOOL, line, "`rx_packets: 17`")
        if match.group(1) in counters:
            raise unreadable(TOOL, f"{match.group(1)} twice", "every counter once")
        counters[match.group(1)] = int(match.group(2))
    if not counters:
        raise unreadable(TOOL, f"{name or 'a device'} without counters", "at least one counter")
    return PortCounters(name, counters)
