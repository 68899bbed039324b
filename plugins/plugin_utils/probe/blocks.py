# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of a tool that ran once per device: every part is below a line `===== mlx5_0 =====`."""

from __future__ import annotations

import re

from .text import plain, unreadable

_TITLE = re.compile(r"={3,40} (\S{1,80})(?: [^=]{0,80})? ={3,40}\s*")


def blocks(output: str, tool: str) -> dict[str, list[str]]:
    """Return the lines of each part by device. Output without any title has an empty name.

    Raises:
        InputError: a device twice, or lines before the first title.
    """
    found: dict[str, list[str]] = {}
    before: list[str] = []
    current = before
    for line in plain(output).splitlines():
        title = _TITLE.fullmatch(line)
        if title is None:
            current.append(line)
            continue
        if title.group(1) in found:
            raise unreadable(tool, f"{title.group(1)} twice", "every device once")
        current = found[title.group(1)] = []
    if found and any(line.strip() for line in before):
        raise unreadable(tool, before[0], "the name of a device above its lines")
    return found or {"": before}
