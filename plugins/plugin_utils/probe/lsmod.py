# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `lsmod`: loaded kernel modules."""

from __future__ import annotations

import re

from .text import plain, unreadable

TOOL = "lsmod"
_TITLE = re.compile(r"Module\s+Size\s+Used by\s*")
_ROW = re.compile(r"([A-Za-z0-9_]{1,64})\s+\d{1,12}\s+-?\d{1,6}(?:\s+\S.{0,2000})?")


def parse(text: str) -> frozenset[str]:
    """Return the names of the modules.

    Raises:
        InputError: another title, a row of another kind, or no module.
    """
    title, *rows = plain(text).strip().splitlines() or [""]
    if not _TITLE.fullmatch(title):
        raise unreadable(TOOL, title, "a title `Module  Size  Used by`")
    names = []
    for row in rows:
        match = _ROW.fullmatch(row.rstrip())
        if match is None:
            raise unreadable(TOOL, row, "name, size and number of users")
        names.append(match.group(1))
    if not names:
        raise unreadable(TOOL, "no module", "at least one")
    return frozenset(names)
