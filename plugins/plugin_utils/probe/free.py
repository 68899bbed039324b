# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `free -b` in the C locale: size of the kernel's main memory (procps-ng, src/free.c)."""

from __future__ import annotations

import re

from .text import plain, unreadable

TOOL = "free -b"
_TOTAL = re.compile(r"Mem:\s+(\d{1,18})\s+\d+\s")


def parse(text: str) -> int:
    """Return the main memory in bytes.

    Raises:
        InputError: no memory line, or 0 bytes.
    """
    for line in plain(text).splitlines():
        match = _TOTAL.match(line)
        if match is not None and int(match[1]):
            return int(match[1])
    raise unreadable(TOOL, text[:80], "a line `Mem: <total> <used> ...`")
