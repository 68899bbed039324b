# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of CPU frequency governors, counted by `uniq -c`.

Linux: Documentation/admin-guide/pm/cpufreq.rst, scaling_governor.
"""

from __future__ import annotations

import re

from .text import plain, unreadable

TOOL = "sort | uniq -c of scaling_governor"
NONE = "no governor"
_LINE = re.compile(r"\s*(\d{1,6}) ([a-z_]{1,30})")


def parse(text: str) -> dict[str, int]:
    """Return the number of frequency policies by governor; empty where the kernel sets no frequency.

    Raises:
        InputError: nothing, a line of another kind, or a governor twice.
    """
    if text.strip() == NONE:
        return {}
    found: dict[str, int] = {}
    for line in plain(text).splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None or match[2] in found or not int(match[1]):
            raise unreadable(TOOL, line, f"`64 performance`, every governor once, or `{NONE}`")
        found[match[2]] = int(match[1])
    if not found:
        raise unreadable(TOOL, "nothing", f"`64 performance` or `{NONE}`")
    return dict(sorted(found.items()))
