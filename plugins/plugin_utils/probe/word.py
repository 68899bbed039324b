# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of tools that print one word: `uname -r`, `ofed_info -s`, `systemctl is-active`."""

from __future__ import annotations

import re

from .text import plain, unreadable

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:~-]*")


def parse(text: str) -> str:
    """Return the word: `6.8.0-45-generic`, `MLNX_OFED_LINUX-24.10-1.1.4.0` (printed with a colon), `active`.

    Raises:
        InputError: nothing, several lines, or something that is no word.
    """
    words = plain(text).split()
    if len(words) != 1 or not _WORD.fullmatch(words[0].rstrip(":")):
        raise unreadable("a tool of one word", plain(text)[:80], "one word")
    return words[0].rstrip(":")
