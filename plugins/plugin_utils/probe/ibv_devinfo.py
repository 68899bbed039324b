# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `ibv_devinfo` (rdma-core): state and MTU of every RDMA port."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "ibv_devinfo"
_DEVICE = re.compile(r"hca_id:\s+(\S{1,40})")
_PORT = re.compile(r"\s+port:\s+(\d{1,3})")
_FIELD = re.compile(r"\s+(\w{1,40}):\s+(\S.{0,120})")
_NUMBERED = re.compile(r"\S{1,40} \(\d{1,4}\)")


@dataclass(frozen=True, slots=True)
class VerbsPort:
    """One port: `mtu` and `max_mtu` are the current and the largest payload of a packet in bytes."""

    device: str
    port: int
    state: str
    mtu: int
    max_mtu: int
    link_layer: str


def parse(text: str) -> tuple[VerbsPort, ...]:
    """Return the ports in the tool's order.

    Raises:
        InputError: no port, one twice, or one that lacks a field.
    """
    ports: list[tuple[str, int, dict[str, str]]] = []
    device = ""
    for line in plain(text).splitlines():
        if match := _DEVICE.fullmatch(line.rstrip()):
            device = match.group(1)
        elif (match := _PORT.fullmatch(line.rstrip())) and device:
            ports.append((device, int(match.group(1)), {}))
        elif (match := _FIELD.fullmatch(line.rstrip())) and ports and ports[-1][0] == device:
            ports[-1][2].setdefault(match.group(1), match.group(2))
    if not ports:
        raise unreadable(TOOL, text[:80], "`hca_id: mlx5_0`, and below it `port: 1`")
    if len({(name, number) for name, number, _fields in ports}) < len(ports):
        raise unreadable(TOOL, "a port twice", "every port once")
    return tuple(_port(*port) for port in ports)


def _port(device: str, number: int, fields: dict[str, str]) -> VerbsPort:
    def word(name: str) -> str:
        value = fields.get(name, "")
        if not _NUMBERED.fullmatch(value):
            raise unreadable(TOOL, f"{name} of {device}: {value!r}", "a word and its number, such as `4096 (5)`")
        return value.partition(" ")[0]

    sizes = [word(name) for name in ("active_mtu", "max_mtu")]
    if not all(size.isascii() and size.isdigit() for size in sizes):
        raise unreadable(TOOL, f"MTU of {device}: {', '.join(sizes)}", "a number of bytes")
    return VerbsPort(device, number, word("state"), int(sizes[0]), int(sizes[1]), fields.get("link_layer", ""))
