# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of cgroup events, as `grep -s populated .../NAME.service/cgroup.events` prints them.

systemd creates a cgroup with the name of every service, and the kernel reports whether it has processes (Linux:
Documentation/admin-guide/cgroup-v2.rst, "populated"). This is readable where systemd cannot be queried.
"""

from __future__ import annotations

import re

from .text import plain, unreadable

TOOL = "grep -s populated /sys/fs/cgroup/*/*.service/cgroup.events"
_LINE = re.compile(r"/\S*/(?P<unit>[^/\s]+\.service)/cgroup\.events:populated (?P<value>[01])")
POPULATED = "Populated"


def parse(text: str) -> dict[str, dict[str, str]]:
    """Return by unit whether it has processes.

    The key is `Populated`, which is no property of systemd, since this is not systemd's state.

    Raises:
        InputError: no unit, or a line of another kind.
    """
    found: dict[str, dict[str, str]] = {}
    for line in plain(text).splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise unreadable(TOOL, line, "PATH/UNIT.service/cgroup.events:populated 0 or 1")
        found[match["unit"]] = {POPULATED: "true" if match["value"] == "1" else "false"}
    if not found:
        raise unreadable(TOOL, "no service", "at least one")
    return dict(sorted(found.items()))
