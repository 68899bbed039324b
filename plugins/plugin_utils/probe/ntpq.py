# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `ntpq -n -c rv` (ntpd, NTPsec): the system variables, as NTP's manual of ntpq lists them.

It prints `associd=0 status=0615 leap_none, sync_ntp, 1 event, clock_sync,` and then `name=value` pairs; the offset is
in milliseconds. Without a source it says `sync_unspec`, leap=11 and stratum=16.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import plain, unreadable

TOOL = "ntpq -n -c rv"
_STATUS = re.compile(r"\bstatus=[0-9a-f]{4} (leap_\w{1,20}|sync_alarm), (sync_\w{1,20})")
_LEAP = re.compile(r"(?:^|[,\s])leap=(\d{1,2})(?=[,\s]|$)")
_STRATUM = re.compile(r"(?:^|[,\s])stratum=(\d{1,3})(?=[,\s]|$)")
_OFFSET = re.compile(r"(?:^|[,\s])offset=([+-]?\d{1,12}(?:\.\d{1,12})?)(?=[,\s]|$)")
_ALARM = ("11", "3")
_NO_SOURCE, _UNSYNCHRONISED = "sync_unspec", 16


@dataclass(frozen=True, slots=True)
class NtpDaemon:
    """`synchronised`: the daemon follows a source; `offset_s` is that of the clock to it."""

    synchronised: bool
    stratum: int
    offset_s: float


def parse(text: str) -> NtpDaemon:
    """Return what the daemon says of the clock.

    Raises:
        InputError: the line of the status, leap, stratum or offset is missing.
    """
    clean = plain(text)
    status, leap, stratum, offset = (each.search(clean) for each in (_STATUS, _LEAP, _STRATUM, _OFFSET))
    if status is None or leap is None or stratum is None or offset is None:
        raise unreadable(TOOL, clean[:80], "status=, leap=, stratum= and offset= of the daemon")
    level = int(stratum.group(1))
    follows = leap.group(1) not in _ALARM and status.group(2) != _NO_SOURCE and 0 < level < _UNSYNCHRONISED
    return NtpDaemon(synchronised=follows, stratum=level, offset_s=float(offset.group(1)) / 1000)
