# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `/etc/os-release`."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "cat /etc/os-release"


@dataclass(frozen=True, slots=True)
class OsRelease:
    """The operating system: `id` (`ubuntu`), `version_id` (`24.04`), `pretty_name`."""

    id: str
    version_id: str
    pretty_name: str


def parse(text: str) -> OsRelease:
    """Return the operating system.

    Raises:
        InputError: no ID line, or a line that is no assignment.
    """
    fields: dict[str, str] = {}
    for line in plain(text).splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"[A-Z][A-Z0-9_]*", name.strip()):
            raise unreadable(TOOL, line, "NAME=value")
        fields[name.strip()] = _unquoted(value.strip())
    if not fields.get("ID"):
        raise unreadable(TOOL, "no ID", "a line ID=...")
    return OsRelease(fields["ID"], fields.get("VERSION_ID", ""), fields.get("PRETTY_NAME", fields["ID"]))


def _unquoted(value: str) -> str:
    try:
        return "".join(shlex.split(value, comments=False)) if value[:1] in ("'", '"') else value
    except ValueError:
        raise unreadable(TOOL, value, "a quoted value that ends") from None
