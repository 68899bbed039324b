# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `saquery -s`: ports with a subnet manager behind them."""

from __future__ import annotations

import re

from .text import plain, unreadable

TOOL = "saquery -s"
_TITLE, _DISABLED = "IsSM ports", "IsSMdisabled ports"
_LID = re.compile(r"\s*EndPortLid\.+(\d+)")


def parse(text: str) -> tuple[int, ...]:
    """Return the LIDs of the ports with a subnet manager, without those with a disabled one.

    Raises:
        InputError: it is not that list, or the list is empty.
    """
    clean = plain(text)
    _before, title, rest = clean.partition(_TITLE)
    if not title:
        raise unreadable(TOOL, clean.strip()[:80], f"the title `{_TITLE}`")
    enabled = rest.partition(_DISABLED)[0]
    lids = tuple(int(match[1]) for line in enabled.splitlines() if (match := _LID.fullmatch(line)))
    if not lids:
        raise unreadable(TOOL, enabled.strip()[:80], "at least one port record")
    return lids
