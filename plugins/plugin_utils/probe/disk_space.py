# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `df -P -k <path> ...`: how full the file systems are that hold these paths (POSIX form)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "df -P -k"
_TITLE = re.compile(r"Filesystem\s+1(?:024|K)-blocks\s+Used\s+Available\s+(?:Capacity|Use%)\s+Mounted on\s*")
_ROW = re.compile(r"(\S.{0,300}?)\s+(\d{1,18})\s+(\d{1,18})\s+(-?\d{1,18})\s+(?:\d{1,3}%|-)\s+(/.*)")


@dataclass(frozen=True, slots=True)
class FileSystem:
    """One file system at its mount point; `free_kib` is what is left for programs without administrator rights."""

    mount: str
    used_kib: int
    free_kib: int

    @property
    def free_percent(self) -> float:
        """How much of what programs may use is free; 100 of one without a size."""
        whole = self.used_kib + max(self.free_kib, 0)
        return 100.0 if whole == 0 else 100.0 * max(self.free_kib, 0) / whole


def parse(text: str) -> tuple[FileSystem, ...]:
    """Return the file systems in the tool's order, each once: several paths may lie on one.

    Raises:
        InputError: no title, no row, or a line of another kind.
    """
    lines = [line for line in plain(text).splitlines() if line.strip()]
    if not lines or not _TITLE.fullmatch(lines[0]):
        raise unreadable(TOOL, lines[0] if lines else "", "the title of `df -P -k`")
    found: dict[str, FileSystem] = {}
    for line in lines[1:]:
        match = _ROW.fullmatch(line.rstrip())
        if match is None:
            raise unreadable(TOOL, line, "`/dev/sda2 959786032 290512000 620000000 32% /`")
        found[match[5]] = FileSystem(match[5], int(match[3]), int(match[4]))
    if not found:
        raise unreadable(TOOL, "no row", "at least one file system")
    return tuple(found.values())
