# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `lspci -Dnnvvv -d ::0604`: PCI bridges, the buses below them, and what their ACS control is set to.

Only administrators see capabilities: without them lspci writes `Capabilities: <access denied>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from ..outcome.errors import InputError
from .lspci import device_of_line
from .text import plain, unreadable

TOOL = "lspci -Dnnvvv -d ::0604"
PortKind = Literal["root", "upstream", "downstream", "other"]
_BUSES = re.compile(r"Bus: primary=[0-9a-f]{2}, secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})\b")
_PORT = re.compile(r"\] Express \(v\d+\) ([A-Z][A-Za-z -]{0,40})")
_KINDS: dict[str, PortKind] = {"Root Port": "root", "Upstream Port": "upstream", "Downstream Port": "downstream"}
_ACS = "] Access Control Services"
_CONTROL = "ACSCtl:"
_SWITCH = re.compile(r"[A-Za-z]+[+-]")
# The first switch and the last one: a line with both is whole.
_SWITCHES = {"SrcValid", "DirectTrans"}


@dataclass(frozen=True, slots=True)
class PciBridge:
    """One bridge with the buses `first_bus` to `last_bus` of its domain below it; `acs` are the switches of its ACS
    control that are on."""

    address: str
    first_bus: int
    last_bus: int
    port: PortKind
    acs: tuple[str, ...]

    def leads_to(self, address: str) -> bool:
        """Whether that device, `0000:1b:00.0`, is below it."""
        domain, bus, _device = address.split(":")
        return domain == self.address.split(":")[0] and self.first_bus <= int(bus, 16) <= self.last_bus


@dataclass(slots=True)
class _Reading:
    address: str
    buses: tuple[int, int] | None = None
    port: PortKind = "other"
    has_acs: bool = False
    controls: list[tuple[str, ...]] = field(default_factory=list)


def parse(text: str) -> tuple[PciBridge, ...]:
    """Return the bridges in the tool's order.

    Raises:
        InputError: no bridge, one twice, one without its buses, one whose ACS control is not printed, capabilities
            that only administrators see, or something else than a list of devices.
    """
    bridges: list[_Reading] = []
    for line in plain(text).splitlines():
        if line.strip() and not line[0].isspace():
            device = device_of_line(line)
            # Of all devices only bridges are asked for; a whole `lspci -vvv` is read as well.
            bridges.append(_Reading(device.address if device.is_pci_bridge else ""))
        elif line.strip() and bridges and bridges[-1].address:
            _note(line.strip(), bridges[-1])
    found = tuple(_bridge(reading) for reading in bridges if reading.address)
    if not found:
        raise unreadable(TOOL, plain(text)[:80], "at least one PCI bridge")
    if len({bridge.address for bridge in found}) < len(found):
        raise unreadable(TOOL, "a bridge twice", "every address once")
    return found


def _note(line: str, bridge: _Reading) -> None:
    if line == "Capabilities: <access denied>":
        raise InputError(f"`{TOOL}`", "tells capabilities only to administrators.", "allow host_probe to become root")
    if buses := _BUSES.match(line):
        bridge.buses = (int(buses.group(1), 16), int(buses.group(2), 16))
    elif port := _PORT.search(line):
        bridge.port = next((kind for name, kind in _KINDS.items() if port.group(1).startswith(name)), "other")
    elif _ACS in line:
        bridge.has_acs = True
    elif line.startswith(_CONTROL):
        # ACSCap lists what the bridge could do, in the same words: only ACSCtl counts.
        words = line.removeprefix(_CONTROL).split()
        if not all(map(_SWITCH.fullmatch, words)) or not {word[:-1] for word in words} >= _SWITCHES:
            raise unreadable(TOOL, line, "every switch of ACS, from SrcValid to DirectTrans")
        bridge.controls.append(tuple(word[:-1] for word in words if word.endswith("+")))


def _bridge(reading: _Reading) -> PciBridge:
    if reading.buses is None:
        raise unreadable(TOOL, reading.address, "a line `Bus: primary=.., secondary=.., subordinate=..`")
    if len(reading.controls) != int(reading.has_acs):
        raise unreadable(TOOL, f"{reading.address} with {len(reading.controls)} lines ACSCtl", "one where it has ACS")
    acs = reading.controls[0] if reading.controls else ()
    return PciBridge(reading.address, *reading.buses, reading.port, acs)
