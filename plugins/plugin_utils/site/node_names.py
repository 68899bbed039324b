# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The site's node-name map: names of switches by GUID, in the file that the InfiniBand tools read, too."""

from __future__ import annotations

import re
from pathlib import Path

from ..outcome.errors import InputError
from ..probe.text import guid, guid_text

_LINE = re.compile(r'(0x[0-9a-fA-F]{1,16})\s+"([^"]*)"\s*(?:#.*)?')
_LARGEST = 4 << 20


def read_node_names(path: Path) -> dict[str, str]:
    """Return the names by GUID (`0x248a070300928186`); blanks at their ends are not part of them.

    Raises:
        InputError: the file cannot be read, or a line is not `0x<guid> "name"`.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError(
                f"node-name map {path}", "is larger than 4 MiB.", "give the file of opensm or ibnetdiscover"
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"node-name map {path}", f"cannot be read: {error}.", "correct fabric.node_name_map") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            said = f'line {number} is {stripped[:60]!r}, expected `0x<guid> "name"`.'
            raise InputError(f"node-name map {path}", said, "correct the line")
        found[guid_text(guid(match[1], str(path)))] = match[2].strip()
    return found
