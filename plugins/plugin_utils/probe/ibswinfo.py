# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `ibswinfo` (stanford-rc/ibswinfo): power supplies, fans and temperature of an unmanaged switch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "ibswinfo"
_FIELD = re.compile(r"\s{0,8}([A-Za-z][A-Za-z0-9 #/()\[\]:.-]{0,40}?)\s{1,40}\| (.{1,80})")
_SUPPLY = re.compile(r"PSU(\d{1,2}) status")
_FAN = re.compile(r"fan#(\d{1,2}) \(rpm\)")
_OF_SUPPLY = ("P/N", "S/N", "DC power", "fan status", "power (W)")


@dataclass(frozen=True, slots=True)
class SwitchSupply:
    """One power supply. `power_w` is None if it is not reported."""

    number: int
    status: str
    dc_power: str
    fan_status: str
    power_w: int | None


@dataclass(frozen=True, slots=True)
class SwitchHealth:
    """One switch: `fan_status` is that of its own fans, `fans_rpm` are their speeds by number."""

    part_number: str
    serial_number: str
    firmware: str
    ports: int
    supplies: tuple[SwitchSupply, ...]
    temperature_c: int
    temperature_max_c: int | None
    fan_status: str
    fans_rpm: dict[int, int]


def parse(text: str) -> SwitchHealth:
    """Return the report of the switch.

    Raises:
        InputError: no part number, temperature, fan status or power supply, a field twice, or a number that is none.
    """
    fields: dict[str, str] = {}
    supplies: list[tuple[int, dict[str, str]]] = []
    for line in plain(text).splitlines():
        match = _FIELD.fullmatch(line.rstrip())
        if match is None:
            continue
        name, value = match.group(1).strip(), match.group(2).strip()
        if supply := _SUPPLY.fullmatch(name):
            supplies.append((int(supply.group(1)), {"status": value}))
            continue
        # Fields of a power supply are indented below it.
        place = supplies[-1][1] if supplies and name in _OF_SUPPLY and line[0].isspace() else fields
        if name in place:
            raise unreadable(TOOL, f"{name} twice", "every field once")
        place[name] = value
    needed = ("part number", "serial number", "ports", "temperature (C)", "fan status")
    missing = [name for name in needed if name not in fields] + ([] if supplies else ["PSU0 status"])
    if missing:
        raise unreadable(TOOL, f"no {', '.join(missing)}", "what an unmanaged switch says of itself")
    hottest = fields.get("max temp (C)")
    return SwitchHealth(
        part_number=fields["part number"],
        serial_number=fields["serial number"],
        firmware=fields.get("firmware version", ""),
        ports=_whole("ports", fields["ports"]),
        supplies=tuple(_supply(number, entry) for number, entry in supplies),
        temperature_c=_whole("temperature (C)", fields["temperature (C)"]),
        temperature_max_c=None if hottest is None else _whole("max temp (C)", hottest),
        fan_status=fields["fan status"],
        fans_rpm={int(m.group(1)): _whole(n, v) for n, v in fields.items() if (m := _FAN.fullmatch(n))},
    )


def _supply(number: int, entry: dict[str, str]) -> SwitchSupply:
    power = entry.get("power (W)")
    watts = None if power is None else _whole("power (W)", power)
    return SwitchSupply(number, entry["status"], entry.get("DC power", ""), entry.get("fan status", ""), watts)


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise unreadable(TOOL, f"{name}: {text}", "a whole number")
    return int(text)
