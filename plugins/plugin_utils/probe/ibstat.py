# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `ibstat`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import guid, plain, unreadable, whole

TOOL = "ibstat"
_CA = re.compile(r"CA '([^']+)'")
_GUID = re.compile(r"0x[0-9a-fA-F]{16}")
_FIELD = re.compile(r"\s+([A-Za-z][A-Za-z0-9 ]*?):\s*(.*?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class IbPort:
    """One port: `rate_gbps` as printed, `link_layer` is `InfiniBand` or `Ethernet`."""

    number: int
    state: str
    physical_state: str
    rate_gbps: int
    base_lid: int
    sm_lid: int
    link_layer: str
    port_guid: str

    @property
    def guid(self) -> int:
        """The port GUID as a number; 0 where the tool prints none."""
        return guid(self.port_guid, TOOL) if self.port_guid else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hca:
    """One channel adapter."""

    name: str
    kind: str
    firmware: str
    node_guid: str
    ports: tuple[IbPort, ...]


def parse(text: str) -> tuple[Hca, ...]:
    """Return the adapters in the tool's order.

    Raises:
        InputError: no adapter, or a field of an adapter or port is missing or nonsense.
    """
    clean = plain(text)
    parts = _CA.split(clean)
    if len(parts) < 3 or _fields(parts[0]):
        raise unreadable(TOOL, clean[:80], "a line such as `CA 'mlx5_0'` before the fields of an adapter")
    return tuple(_hca(parts[n], parts[n + 1]) for n in range(1, len(parts), 2))


def _hca(name: str, body: str) -> Hca:
    sections = re.split(r"^\s*Port (\d+):\s*$", body, flags=re.M)
    head = _fields(sections[0])
    ports = tuple(_port(name, sections[n], sections[n + 1]) for n in range(1, len(sections), 2))
    if not ports:
        raise unreadable(TOOL, f"{name} without a port", "at least one port")
    expected = whole(_need(head, "Number of ports", name), TOOL, "Number of ports")
    if expected != len(ports):
        raise unreadable(TOOL, f"{len(ports)} ports of {name}", f"{expected} ports")
    return Hca(
        name=name,
        # For some adapters the kernel has no value of either. The line is printed without one.
        kind=_line(head, "CA type", name),
        firmware=_line(head, "Firmware version", name),
        node_guid=_guid(head, "Node GUID", name),
        ports=ports,
    )


def _port(hca: str, number: str, body: str) -> IbPort:
    fields = _fields(body)
    where = f"{hca} port {number}"
    return IbPort(
        number=int(number),
        state=_need(fields, "State", where),
        physical_state=_need(fields, "Physical state", where),
        rate_gbps=whole(_need(fields, "Rate", where), TOOL, f"Rate of {where}"),
        base_lid=whole(_need(fields, "Base lid", where), TOOL, f"Base lid of {where}"),
        sm_lid=whole(_need(fields, "SM lid", where), TOOL, f"SM lid of {where}"),
        link_layer=_need(fields, "Link layer", where),
        port_guid=_guid(fields, "Port GUID", where),
    )


def _fields(body: str) -> dict[str, str]:
    return {match.group(1): match.group(2) for line in body.splitlines() if (match := _FIELD.fullmatch(line))}


def _line(fields: dict[str, str], name: str, where: str) -> str:
    if name not in fields:
        raise unreadable(TOOL, f"no {name} for {where}", f"a line `{name}:`")
    return fields[name]


def _guid(fields: dict[str, str], name: str, where: str) -> str:
    text = _need(fields, name, where)
    if not _GUID.fullmatch(text):
        raise unreadable(TOOL, f"{name} of {where}: {text}", "16 hexadecimal digits")
    return text


def _need(fields: dict[str, str], name: str, where: str) -> str:
    if not _line(fields, name, where):
        raise unreadable(TOOL, f"no {name} for {where}", f"a value in the line `{name}:`")
    return fields[name]
