# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the GIDs of RDMA ports: as `show_gids` prints them, or as `grep -H` prints the kernel's files.

The files: the Linux kernel's Documentation/ABI/stable/sysfs-class-infiniband (gids, gid_attrs).
"""

from __future__ import annotations

import re

from . import show_gids
from .show_gids import Gid
from .text import plain, unreadable

TOOL = "grep of /sys/class/infiniband/*/ports/*/gids"
_PLACE = "/sys/class/infiniband/"
_LINE = re.compile(
    r"/sys/class/infiniband/([\w.-]{1,40})/ports/(\d{1,3})/(gids|gid_attrs/types|gid_attrs/ndevs)/(\d{1,4}):(.{1,60})"
)
_ADDRESS = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){7}")
_MAPPED = "0000:0000:0000:0000:0000:ffff:"
_VERSIONS = {"IB/RoCE v1": "v1", "RoCE v2": "v2"}


def parse(text: str) -> tuple[Gid, ...]:
    """Return the GIDs in the order of ports and indices.

    Raises:
        InputError: neither form, a file twice, or a GID without its type.
    """
    if not text.lstrip().startswith(_PLACE):
        return show_gids.parse(text)
    files: dict[tuple[str, int, int], dict[str, str]] = {}
    for line in plain(text).splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            if not line.strip():
                continue
            raise unreadable(TOOL, line, f"`{_PLACE}mlx5_0/ports/1/gid_attrs/types/3:RoCE v2`")
        device, port, kind, index, value = match.groups()
        entry = files.setdefault((device, int(port), int(index)), {})
        if kind in entry:
            raise unreadable(TOOL, f"{kind} {index} of {device} twice", "every file once")
        entry[kind] = value.strip()
    return tuple(_gid(*key, entry) for key, entry in sorted(files.items()))


def _gid(device: str, port: int, index: int, entry: dict[str, str]) -> Gid:
    address, kind = entry.get("gids", ""), _VERSIONS.get(entry.get("gid_attrs/types", ""))
    if kind is None or not _ADDRESS.fullmatch(address):
        raise unreadable(TOOL, f"GID {index} of {device}: {address!r}, {entry.get('gid_attrs/types')!r}", "both")
    ipv4 = ""
    if address.startswith(_MAPPED):
        high, low = (int(part, 16) for part in address.removeprefix(_MAPPED).split(":"))
        ipv4 = f"{high >> 8}.{high & 255}.{low >> 8}.{low & 255}"
    return Gid(device, port, index, address, ipv4, "v1" if kind == "v1" else "v2", entry.get("gid_attrs/ndevs", ""))
