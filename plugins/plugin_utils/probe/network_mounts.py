# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `findmnt -r` for file systems of the network: where they are, of which kind, to read only or not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "findmnt -l -n -r -o TARGET,FSTYPE,OPTIONS"
NONE = "no network file systems"
_ROW = re.compile(r"(/\S{0,1000}) ([a-z][\w.-]{1,40}) (\S{2,6000})")
_ON_DEMAND = "autofs"
# Volumes of pods come and go.
_OF_PODS = "/var/lib/kubelet/"


@dataclass(frozen=True, slots=True)
class Mount:
    """One file system."""

    path: str
    kind: str
    read_only: bool


def parse(text: str) -> tuple[Mount, ...]:
    """Return the mounts in the order of their paths, without what autofs mounts on demand and without volumes of pods.

    Raises:
        InputError: nothing, or a line of another kind.
    """
    if text.strip() == NONE:
        return ()
    found: dict[str, Mount] = {}
    demanded: list[str] = []
    for line in plain(text).splitlines():
        match = _ROW.fullmatch(line.rstrip())
        if match is None:
            raise unreadable(TOOL, line, "`/shared nfs4 rw,relatime,vers=4.2`")
        if match[2] == _ON_DEMAND:
            demanded.append(f"{match[1].rstrip('/')}/")
        else:
            # Of several on top of each other the last one counts.
            found[match[1]] = Mount(match[1], match[2], "ro" in match[3].split(","))
    if not found and not demanded:
        raise unreadable(TOOL, "nothing", f"at least one mount, or `{NONE}`")
    return tuple(
        mount
        for path, mount in sorted(found.items())
        if not path.startswith((_OF_PODS, *demanded)) and f"{path}/" not in demanded
    )
