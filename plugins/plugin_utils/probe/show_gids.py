# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `show_gids` (MLNX_OFED, DOCA-OFED): the addresses of every RDMA port and the version of RoCE of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .text import plain, unreadable

TOOL = "show_gids"
_TITLE = re.compile(r"DEV\s+PORT\s+INDEX\s+GID\s+IPv4\s+VER\s+DEV")
_RULE = re.compile(r"[-\s]+")
_ROW = re.compile(
    r"(\S{1,40})\s+(\d{1,3})\s+(\d{1,4})\s+([0-9a-f]{4}(?::[0-9a-f]{4}){7})(?:\s+(\d{1,3}(?:\.\d{1,3}){3}))?"
    r"\s+(v1|v2)(?:\s+(\S{1,40}))?"
)
_COUNT = re.compile(r"n_gids_found=(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Gid:
    """One address; `ipv4` and `netdev` are empty where the row has none. `version` v2 is RoCE v2."""

    device: str
    port: int
    index: int
    gid: str
    ipv4: str
    version: Literal["v1", "v2"]
    netdev: str


def parse(text: str) -> tuple[Gid, ...]:
    """Return the addresses in the tool's order.

    Raises:
        InputError: no title, a row of another kind, an index twice, or another number of rows than the tool counts.
    """
    lines = [line.strip() for line in plain(text).splitlines() if line.strip()]
    if not lines or not _TITLE.fullmatch(lines[0]):
        raise unreadable(TOOL, lines[0] if lines else "", "the title `DEV PORT INDEX GID IPv4 VER DEV`")
    count = _COUNT.fullmatch(lines[-1])
    if count is None:
        raise unreadable(TOOL, lines[-1], "n_gids_found= in the last line")
    found = tuple(_row(line) for line in lines[1:-1] if not _RULE.fullmatch(line))
    if len(found) != int(count.group(1)):
        raise unreadable(TOOL, f"{len(found)} rows", f"the {count.group(1)} that it counts")
    if len({(gid.device, gid.port, gid.index) for gid in found}) < len(found):
        raise unreadable(TOOL, "an index twice", "every index of a port once")
    return found


def _row(line: str) -> Gid:
    match = _ROW.fullmatch(line)
    if match is None:
        raise unreadable(TOOL, line, "device, port, index, GID, IPv4 if it has one, version, network device")
    device, port, index, gid, ipv4, version, netdev = match.groups()
    return Gid(device, int(port), int(index), gid, ipv4 or "", "v1" if version == "v1" else "v2", netdev or "")
