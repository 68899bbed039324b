# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `timedatectl show` (systemd): whether a time service is on and the kernel's clock is synchronised."""

from __future__ import annotations

from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "timedatectl show"


@dataclass(frozen=True, slots=True)
class TimeService:
    """`enabled`: a time service is active; `synchronised`: the kernel says so. It tells no offset."""

    enabled: bool
    synchronised: bool


def parse(text: str) -> TimeService:
    """Return what it says of the clock.

    Raises:
        InputError: one of the two lines is missing or says neither yes nor no.
    """
    fields = dict(line.split("=", 1) for line in plain(text).splitlines() if "=" in line)
    words = [fields.get(name, "") for name in ("NTP", "NTPSynchronized")]
    if not set(words) <= {"yes", "no"}:
        raise unreadable(TOOL, plain(text)[:80], "NTP= and NTPSynchronized=, each yes or no")
    return TimeService(enabled=words[0] == "yes", synchronised=words[1] == "yes")
