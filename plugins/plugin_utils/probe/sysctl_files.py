# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of the files below /proc/sys, as `grep -rs "" DIRECTORY...` prints them."""

from __future__ import annotations

import re

from .text import plain, unreadable

TOOL = 'grep -rs "" /proc/sys'
_LINE = re.compile(r"(/proc/sys/[^:]+):(.*)")


def parse(text: str) -> dict[str, str]:
    """Return the value of every file by path, with blanks as one space. A file of several lines has them all.

    Raises:
        InputError: no file, or a line of another kind.
    """
    found: dict[str, list[str]] = {}
    for line in plain(text).splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise unreadable(TOOL, line, "/proc/sys/PATH:VALUE")
        found.setdefault(match[1], []).append(" ".join(match[2].split()))
    if not found:
        raise unreadable(TOOL, "no file", "at least one")
    return {path: "\n".join(lines) for path, lines in sorted(found.items())}
