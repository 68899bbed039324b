# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the ECN switches of RoCE ports in /sys/class/net, as `grep -H` prints one line for each priority.

NVIDIA's driver package: "Explicit Congestion Notification" in the manuals of MLNX_OFED and DOCA (enable/<priority>).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "grep of /sys/class/net/*/ecn/roce_*/enable"
NONE = "no ECN settings"
_LINE = re.compile(r"/sys/class/net/([^/\s]{1,40})/ecn/roce_(np|rp)/enable/([0-7]):([01])")
_BOTH = ("np", "rp")


@dataclass(frozen=True, slots=True)
class PortEcn:
    """One network device: the priorities on which it tells senders of congestion (`notifies`, notification point), and
    on which it slows down when it is told (`reacts`, reaction point)."""

    device: str
    notifies: tuple[int, ...]
    reacts: tuple[int, ...]


def parse(text: str) -> tuple[PortEcn, ...]:
    """Return the devices in the order of their names; none where the driver has no such files.

    Raises:
        InputError: a line of another kind, a priority twice, or a device without one direction or one priority.
    """
    if text.strip() == NONE:
        return ()
    found: dict[str, dict[str, dict[int, bool]]] = {}
    for line in plain(text).splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise unreadable(TOOL, line, "`/sys/class/net/eth0/ecn/roce_np/enable/3:1`")
        device, protocol, priority = match[1], match[2], int(match[3])
        switches = found.setdefault(device, {}).setdefault(protocol, {})
        if priority in switches:
            raise unreadable(TOOL, line, "every priority once")
        switches[priority] = match[4] == "1"
    if not found:
        raise unreadable(TOOL, "nothing", f"at least one switch, or `{NONE}`")
    for device, protocols in found.items():
        if set(protocols) != set(_BOTH) or protocols["np"].keys() != protocols["rp"].keys():
            raise unreadable(TOOL, f"{device} without one of its switches", "roce_np and roce_rp of every priority")
    return tuple(
        PortEcn(device, _on(protocols["np"]), _on(protocols["rp"])) for device, protocols in sorted(found.items())
    )


def _on(switches: dict[int, bool]) -> tuple[int, ...]:
    return tuple(sorted(priority for priority, on in switches.items() if on))
