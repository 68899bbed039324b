# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `/proc/cmdline`: boot parameters of the kernel."""

from __future__ import annotations

import re

from .text import plain, unreadable

TOOL = "cat /proc/cmdline"
# Blanks in double quotes belong to the value (Linux: Documentation/admin-guide/kernel-parameters.rst).
_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')


def parse(text: str) -> dict[str, str]:
    """Return the parameters by name, without `root`, which differs on every host.

    - A parameter without a value is `true`.
    - One that is given several times has its values joined by commas.
    - Words after `--` are for init and are no kernel parameters.

    Raises:
        InputError: no text, or several lines.
    """
    lines = plain(text).strip().splitlines()
    if len(lines) != 1:
        raise unreadable(TOOL, plain(text)[:80], "one line")
    found: dict[str, list[str]] = {}
    for word in _WORD.findall(lines[0]):
        if word == "--":
            break
        name, equals, value = word.replace('"', "").partition("=")
        found.setdefault(name, []).append(value if equals else "true")
    found.pop("root", None)
    return {name: ",".join(values) for name, values in sorted(found.items())}
