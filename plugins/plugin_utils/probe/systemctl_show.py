# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `systemctl show --property=Id,... UNIT...`: properties of units, one paragraph each."""

from __future__ import annotations

from .text import plain, unreadable

TOOL = "systemctl show"


def parse(text: str) -> dict[str, dict[str, str]]:
    """Return the properties of every unit by name. A missing unit has LoadState `not-found`.

    Raises:
        InputError: no unit, a paragraph without a name, or a line that is no assignment.
    """
    found: dict[str, dict[str, str]] = {}
    for paragraph in plain(text).strip().split("\n\n"):
        fields: dict[str, str] = {}
        for line in paragraph.splitlines():
            name, equals, value = line.partition("=")
            if not equals or not name.isalnum():
                raise unreadable(TOOL, line, "Property=value")
            fields[name] = value
        unit = fields.pop("Id", "")
        if not unit:
            raise unreadable(TOOL, paragraph[:80] or "nothing", "a line Id=UNIT in every paragraph")
        # A unit with several names is printed once for each requested name.
        found[unit] = fields
    return found
