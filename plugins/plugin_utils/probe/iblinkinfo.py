# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `iblinkinfo`, with one line per port (`-l`) or in blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import guid, plain, unreadable

TOOL = "iblinkinfo"
_LINK = r"(?P<lid>\d+)\s+(?P<port>\d+)\[[^\]]*\]\s+==\((?P<link>.{0,120}?)\)==>\s*(?P<peer>.*)"
_LINE = re.compile(r'(?P<guid>0x[0-9a-f]+)\s+"(?P<name>.*?)"\s+' + _LINK)
_BLOCK_LINE = re.compile(r"(?:(?P<guid>0x[0-9a-f]+)\s+)?" + _LINK)
_SWITCH = re.compile(r"Switch:? (0x[0-9a-f]+) (.*):")
_ADAPTER = re.compile(r"(?:CA|RT|Router): (.*):")
_PEER = re.compile(
    r'(?:(?P<guid>0x[0-9a-f]+)\s+)?(?P<lid>\d+)\s+(?P<port>\d+)\[[^\]]*\]\s+"(?P<name>.*)"\s+\((?P<could>.*)\)'
)
_NO_PEER = re.compile(r'\[[^\]]*\]\s+""\s+\(.*\)')
_BLIND = '"Port not available"'
# For an unknown width or speed the tool prints `undefined (0)`, for FDR10 `10.0 Gbps (FDR10)`.
_STATE = re.compile(r"(?P<rate>.{0,80}?)\s*(?P<state>[A-Za-z?]+)\s*/\s*(?P<physical>[A-Za-z?]+)")
_WIDTH = re.compile(r"(\d+X)\s+(.*)")
_LANE = re.compile(r"(\d+(?:\.\d+)?) Gbps(?: \(FDR10\))?")
_FASTER = re.compile(r"(\d+(?:\.\d+)?) Gbps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The other end of a link."""

    name: str
    port: int
    lid: int
    guid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEnd:
    """One port.

    - `lane_gbps`: signalling rate of one lane (106.25: NDR, 53.125: HDR).
    - Width and rate are missing where the link is down, or the tool does not know them.
    - `guid`: port GUID, for a switch that of the whole device; 0 if the line has none.
    """

    name: str
    guid: int
    lid: int
    port: int
    state: str
    physical: str
    width: str = ""
    lane_gbps: float = 0.0
    could_be_gbps: float = 0.0
    switch: bool = False
    peer: Peer | None = None

    @property
    def up(self) -> bool:
        """Whether the port has a signal. Only after that the subnet manager makes it Active."""
        return self.physical == "LinkUp"


def parse(text: str) -> tuple[LinkEnd, ...]:
    """Return every port in the tool's order.

    Raises:
        InputError: a line is not what the tool prints, or there is no port at all.
    """
    ends: list[LinkEnd] = []
    node, device, switch = "", "", False
    for line in plain(text).splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if header := _SWITCH.fullmatch(stripped):
            device, node, switch = header.group(1), header.group(2).strip(), True
        elif header := _ADAPTER.fullmatch(stripped):
            device, node, switch = "", header.group(1).strip(), False
        elif match := _LINE.fullmatch(stripped):
            ends.append(_end(match, match["name"].strip(), match["guid"], False))
        elif node and (match := _BLOCK_LINE.fullmatch(stripped)):
            ends.append(_end(match, node, match["guid"] or device, switch))
        else:
            raise unreadable(
                TOOL, stripped, 'a line such as `0x... "name" 5 1[ ] ==( 4X 53.125 Gbps Active/ LinkUp)==> ...`'
            )
    if not ends:
        raise unreadable(TOOL, plain(text)[:80], "at least one port")
    return tuple(ends)


def _end(match: re.Match[str], name: str, device: str, switch: bool) -> LinkEnd:
    link = _STATE.fullmatch(match["link"].strip())
    if link is None:
        raise unreadable(TOOL, match["link"], "width, speed and state of a link")
    width, lane = _rate(link["rate"])
    peer, could = _peer(match["peer"].strip())
    return LinkEnd(
        name=name,
        guid=guid(device, TOOL) if device else 0,
        lid=int(match["lid"]),
        port=int(match["port"]),
        state=link["state"],
        physical=link["physical"],
        width=width,
        lane_gbps=lane,
        could_be_gbps=could,
        switch=switch,
        peer=peer,
    )


def _rate(text: str) -> tuple[str, float]:
    """Return width and rate of a lane. Both are missing if the tool does not know one of them."""
    width = _WIDTH.fullmatch(text.strip())
    lane = _LANE.fullmatch(width[2].strip()) if width else None
    if text.strip() and "undefined" not in text and lane is None:
        raise unreadable(TOOL, text, "width and speed such as `4X 53.125 Gbps`")
    return (width[1], float(lane[1])) if width and lane else ("", 0.0)


def _peer(text: str) -> tuple[Peer | None, float]:
    if not text or text == _BLIND or _NO_PEER.fullmatch(text):
        return None, 0.0
    match = _PEER.fullmatch(text)
    if match is None:
        raise unreadable(TOOL, text, "the other end of a link, or nothing")
    faster = _FASTER.search(match["could"])
    device = guid(match["guid"], TOOL) if match["guid"] else 0
    peer = Peer(name=match["name"].strip(), port=int(match["port"]), lid=int(match["lid"]), guid=device)
    return peer, float(faster[1]) if faster else 0.0
