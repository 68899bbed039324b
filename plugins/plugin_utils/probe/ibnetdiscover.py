# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parsers of `ibnetdiscover`: its topology file, and its list of ports (`-p`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .text import plain, unreadable

TOOL = "ibnetdiscover"
_NODE = re.compile(r'(Switch|Ca|Rt)\s+(\d+)\s+"([SHR])-([0-9a-f]+)"\s*#\s*"(.*)"(?:.*\blid (\d+).*)?')
_PORT = re.compile(r'\[(\d+)\](?:\([0-9a-f]+\))?\s+"[SHR]-([0-9a-f]+)"\[(\d+)\](?:\([0-9a-f]+\))?\s*#\s*(.*)')
_RATE = re.compile(r"(\d+)x(\w+)$")
_ROW = re.compile(r"(CA|SW|RT)\s+(\d+)\s+(\d+)\s+(0x[0-9a-f]+)\s+(\d+)x\s+(\S+)(.*)")
_ROW_PEER = re.compile(r"\s*-\s*(CA|SW|RT)\s+(\d+)\s+(\d+)\s+(0x[0-9a-f]+)\s+\(\s*'(.*)' - '(.*)'\s*\)\s*")
_ROW_ALONE = re.compile(r"\s*'(.*)'\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyPort:
    """One connected port of a node: the GUID and port of its peer, width (`4x`) and speed (`NDR`)."""

    number: int
    peer_guid: str
    peer_port: int
    width: str
    speed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyNode:
    """A switch, adapter or router; `ports` counts what it has, `links` are those that are connected."""

    kind: str
    guid: str
    name: str
    ports: int
    lid: int | None
    links: tuple[TopologyPort, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRow:
    """One row of `-p`; without a peer the port is connected to nothing that answers. `speed` is `???` if unknown."""

    kind: str
    lid: int
    port: int
    guid: str
    width: str
    speed: str
    name: str
    peer_kind: str = ""
    peer_lid: int = 0
    peer_port: int = 0
    peer_guid: str = ""
    peer_name: str = ""


def parse_topology(text: str) -> tuple[TopologyNode, ...]:
    """Return every node of a topology file.

    Raises:
        InputError: no node, or a port line before the first node or without width and speed.
    """
    nodes: list[tuple[re.Match[str], list[TopologyPort]]] = []
    for line in plain(text).splitlines():
        stripped = line.strip()
        if match := _NODE.fullmatch(stripped):
            nodes.append((match, []))
        elif stripped.startswith("["):
            if not nodes:
                raise unreadable(TOOL, stripped, "a node before its ports")
            nodes[-1][1].append(_port(stripped))
    if not nodes:
        raise unreadable(TOOL, plain(text)[:80], 'a line such as `Switch 40 "S-..." # "name"`')
    return tuple(
        TopologyNode(
            kind=match[1], guid=f"0x{match[4]}", name=match[5], ports=int(match[2]),
            lid=int(match[6]) if match[6] else None, links=tuple(links),
        )
        for match, links in nodes
    )  # fmt: skip


def _port(line: str) -> TopologyPort:
    match = _PORT.fullmatch(line)
    rate = _RATE.search(match[4].strip()) if match else None
    if match is None or rate is None:
        raise unreadable(TOOL, line, "a port with its peer, width and speed")
    return TopologyPort(
        number=int(match[1]), peer_guid=f"0x{match[2]}", peer_port=int(match[3]), width=f"{rate[1]}x", speed=rate[2]
    )


def parse_ports(text: str) -> tuple[PortRow, ...]:
    """Return every row of the list of ports.

    Raises:
        InputError: no row, or one that is not what the tool prints.
    """
    rows = tuple(_row(line.strip()) for line in plain(text).splitlines() if line.strip())
    if not rows:
        raise unreadable(f"{TOOL} -p", "", "at least one port")
    return rows


def _row(line: str) -> PortRow:
    match = _ROW.fullmatch(line)
    rest = match[7] if match else ""
    peer, alone = _ROW_PEER.fullmatch(rest), _ROW_ALONE.fullmatch(rest)
    if match is None or (peer is None and alone is None):
        raise unreadable(f"{TOOL} -p", line, "a row such as `CA 5 1 0x... 4x HDR - SW 2 1 0x... ( 'a' - 'b' )`")
    own: dict[str, Any] = {
        "kind": match[1],
        "lid": int(match[2]),
        "port": int(match[3]),
        "guid": match[4],
        "width": f"{match[5]}x",
        "speed": match[6],
    }
    if peer is None:
        return PortRow(**own, name=alone[1] if alone else "")
    other: dict[str, Any] = {
        "peer_kind": peer[1],
        "peer_lid": int(peer[2]),
        "peer_port": int(peer[3]),
        "peer_guid": peer[4],
    }
    return PortRow(**own, name=peer[5], peer_name=peer[6], **other)
