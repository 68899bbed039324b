# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Text for people: command lines that can be copied, and text without terminal control sequences."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

# Words of a command line, quoted for copying. Pure.

# Characters that a shell interprets within double quotes.
_LIVE = re.compile(r"[\"$`\\!]")


def shell_word(text: str) -> str:
    """Return the text as one word of a shell. Text with single quotes gets double quotes, as in `"who='A B'"`."""
    return f'"{text}"' if "'" in text and not _LIVE.search(text) else shlex.quote(text)


def extra_variable(name: str, value: str) -> str:
    """Return `-e` and the word that pass this text to Ansible, which splits at spaces what the shell unquoted."""
    if not re.search(r"[\s'\"{\\]", value):
        return "-e " + shell_word(f"{name}={value}")
    if "'" in value or "{" in value or _LIVE.search(value):
        return "-e " + shlex.quote(json.dumps({name: _meant(value)}, ensure_ascii=False))
    return "-e " + shell_word(f"{name}='{value}'")


def _meant(value: str) -> Any:
    """Return the mapping or list that a text is as JSON; any other text stays text."""
    try:
        found: Any = json.loads(value)
    except ValueError:
        return value
    return found if isinstance(found, dict | list) else value


# Text of hosts and pods, for a terminal or a document: control characters are written as escapes.

# Control characters except tab and newline, marks that change the text direction, characters that XML cannot hold.
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """Return the text with control and direction characters as `\\x1b` or `\\u202e`. `\\r\\n` ends a line."""
    return _COMMANDS.sub(_written, text.replace("\r\n", "\n"))


def _written(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
