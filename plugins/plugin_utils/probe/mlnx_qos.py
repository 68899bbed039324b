# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `mlnx_qos -i <device>`: which priorities are lossless (PFC), what is trusted, how bandwidth is shared."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .blocks import blocks
from .text import unreadable

TOOL = "mlnx_qos"
PRIORITIES = 8
_TRUST = re.compile(r"Priority trust state: (\w{1,20})")
_DCBX = re.compile(r"DCBX mode: (.{1,40})")
_DSCP = re.compile(r"prio:(\d) dscp:([\d,]{1,400})")
_ENABLED = re.compile(r"enabled((?:\s+[01]){8})")
_CLASS = re.compile(r"tc: (\d) ratelimit: ([^,]{1,40}), tsa: (\w{1,20})(?:, bw: (\d{1,3})%)?")
_PRIORITY = re.compile(r"priority:\s+(\d)")


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """One traffic class; `bandwidth_percent` is None where none is guaranteed (strict, vendor)."""

    number: int
    rate_limit: str
    algorithm: str
    bandwidth_percent: int | None
    priorities: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PortQos:
    """One network device; `pfc` are the priorities whose traffic is paused and not dropped, `dscp` the priority that
    each code point is given."""

    device: str
    trust: str
    dcbx: str
    pfc: tuple[int, ...]
    dscp: dict[int, int] = field(default_factory=dict)
    classes: tuple[TrafficClass, ...] = ()


def parse(text: str) -> tuple[PortQos, ...]:
    """Return the devices in the tool's order; `device` is empty where no line names it.

    Raises:
        InputError: a device without trust state or PFC configuration, a traffic class or a code point twice.
    """
    return tuple(_device(name, [line.strip() for line in lines]) for name, lines in blocks(text, TOOL).items())


def _device(name: str, lines: list[str]) -> PortQos:
    trust = [match.group(1) for line in lines if (match := _TRUST.fullmatch(line))]
    enabled = [match.group(1).split() for line in lines if (match := _ENABLED.fullmatch(line))]
    dcbx = [match.group(1) for line in lines if (match := _DCBX.fullmatch(line))]
    if len(trust) != 1 or len(enabled) != 1:
        said = f"{name or 'a device'} with {len(trust)} trust states and {len(enabled)} rows `enabled`"
        raise unreadable(TOOL, said, "one of each")
    return PortQos(
        device=name,
        trust=trust[0],
        dcbx=dcbx[0] if dcbx else "",
        pfc=tuple(number for number, word in enumerate(enabled[0]) if word == "1"),
        dscp=_dscp(lines),
        classes=_classes(lines),
    )


def _dscp(lines: list[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for line in lines:
        if match := _DSCP.fullmatch(line):
            for point in (int(part) for part in match.group(2).split(",") if part):
                if point in found:
                    raise unreadable(TOOL, f"code point {point} twice", "every code point once")
                found[point] = int(match.group(1))
    return found


def _classes(lines: list[str]) -> tuple[TrafficClass, ...]:
    found: list[tuple[re.Match[str], list[int]]] = []
    for line in lines:
        if match := _CLASS.fullmatch(line):
            found.append((match, []))
        elif line.startswith("tc:"):
            raise unreadable(TOOL, line, "`tc: 0 ratelimit: unlimited, tsa: ets, bw: 50%`")
        elif found and (priority := _PRIORITY.fullmatch(line)):
            found[-1][1].append(int(priority.group(1)))
    numbers = [match.group(1) for match, _priorities in found]
    if len(set(numbers)) < len(numbers):
        raise unreadable(TOOL, "a traffic class twice", "every traffic class once")
    return tuple(
        TrafficClass(int(m.group(1)), m.group(2), m.group(3), int(m.group(4)) if m.group(4) else None, tuple(listed))
        for m, listed in found
    )
