# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Words of a command as a person can copy them. Pure."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

# What a shell reads within double quotes.
_LIVE = re.compile(r"[\"$`\\!]")


def shell_word(text: str) -> str:
    """Return the text as one word for a shell: in double quotes where it has single ones, as `"who='A B'"`."""
    return f'"{text}"' if "'" in text and not _LIVE.search(text) else shlex.quote(text)


def extra_variable(name: str, value: str) -> str:
    """Return `-e` and the word behind it that give Ansible this text: what a shell leaves, Ansible splits at spaces."""
    if not re.search(r"[\s'\"{\\]", value):
        return "-e " + shell_word(f"{name}={value}")
    if "'" in value or "{" in value or _LIVE.search(value):
        return "-e " + shlex.quote(json.dumps({name: _meant(value)}, ensure_ascii=False))
    return "-e " + shell_word(f"{name}='{value}'")


def _meant(value: str) -> Any:
    """Return the mapping or list that a text is as JSON; any other text stays one."""
    try:
        found: Any = json.loads(value)
    except ValueError:
        return value
    return found if isinstance(found, dict | list) else value
