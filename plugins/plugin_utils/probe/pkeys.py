# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the partition keys of network adapters in /sys/class/infiniband, as `grep -H` prints one line for each.

Linux: Documentation/ABI/stable/sysfs-class-infiniband, .../ports/<port-num>/pkeys/<pkey-index>.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "grep of /sys/class/infiniband/*/ports/*/pkeys"
NONE = "no partition keys"
_LINE = re.compile(r"/sys/class/infiniband/([\w.-]{1,40})/ports/(\d{1,3})/pkeys/\d{1,5}:0x([0-9a-fA-F]{4})")


@dataclass(frozen=True, slots=True)
class PortKeys:
    """The keys of one port, each once; entries of its table that are empty (0x0000) are left out."""

    port: str
    keys: tuple[int, ...]


def parse(text: str) -> tuple[PortKeys, ...]:
    """Return the ports as `mlx5_0:1`, in the order of their names; none on a host without adapters.

    Raises:
        InputError: nothing, or a line of another kind.
    """
    if text.strip() == NONE:
        return ()
    ports: dict[str, set[int]] = {}
    for line in plain(text).splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise unreadable(TOOL, line, "`/sys/class/infiniband/mlx5_0/ports/1/pkeys/0:0xffff`")
        ports.setdefault(f"{match[1]}:{match[2]}", set()).add(int(match[3], 16))
    if not ports:
        raise unreadable(TOOL, "nothing", f"at least one key, or `{NONE}`")
    return tuple(PortKeys(port, tuple(sorted(keys - {0}))) for port, keys in sorted(ports.items()))
