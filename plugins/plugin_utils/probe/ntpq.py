# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `ntpq -n -c rv` (ntpd, NTPsec): the system variables, as NTP's manual of ntpq lists them.

It prints `associd=0 status=0615 leap_none, sync_ntp, 1 event, clock_sync,` and then `name=value` pairs; the offset is
in milliseconds, and so are rootdelay and rootdisp. Without a source it prints `sync_unspec`, leap=11 and stratum=16;
with its own clock as the source (127.127.1.x, the driver LOCL) `sync_local`.
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
_ROOT_DELAY, _ROOT_DISPERSION = (
    re.compile(rf"(?:^|[,\s]){name}=(\d{{1,12}}(?:\.\d{{1,12}})?)(?=[,\s]|$)") for name in ("rootdelay", "rootdisp")
)
_NO_SOURCE, _UNSYNCHRONISED = ("sync_unspec", "sync_local"), 16


@dataclass(frozen=True, slots=True)
class NtpDaemon:
    """`synchronised`: the daemon follows a source; `offset_s` is that of the clock to it, `error_bound_s` how far the
    clock may be off (RFC 5905: offset, root dispersion and half of the root delay)."""

    synchronised: bool
    stratum: int
    offset_s: float
    error_bound_s: float


def parse(text: str) -> NtpDaemon:
    """Return what the daemon says of the clock.

    Raises:
        InputError: the line of the status, leap, stratum, root delay, root dispersion or offset is missing.
    """
    clean = plain(text)
    status = _STATUS.search(clean)
    leap, stratum, offset, delay, dispersion = (
        match[1] if (match := each.search(clean)) else None
        for each in (_LEAP, _STRATUM, _OFFSET, _ROOT_DELAY, _ROOT_DISPERSION)
    )
    if status is None or leap is None or stratum is None or offset is None or delay is None or dispersion is None:
        raise unreadable(TOOL, clean[:80], "status=, leap=, stratum=, rootdelay=, rootdisp= and offset= of the daemon")
    level = int(stratum)
    follows = leap not in _ALARM and status[2] not in _NO_SOURCE and 0 < level < _UNSYNCHRONISED
    bound_ms = abs(float(offset)) + float(dispersion) + float(delay) / 2
    return NtpDaemon(synchronised=follows, stratum=level, offset_s=float(offset) / 1000, error_bound_s=bound_ms / 1000)
