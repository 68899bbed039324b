# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Text of hosts and pods for a terminal or a document: what would command these is written out instead."""

from __future__ import annotations

import re

# Control characters but tab and newline; what turns the direction of text; what XML cannot hold.
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """Return the text with control characters and their like as `\\x1b` or `\\u202e`; `\\r\\n` ends a line."""
    return _COMMANDS.sub(_written, text.replace("\r\n", "\n"))


def _written(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
