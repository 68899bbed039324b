# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The hours of a week in which idle nodes may be tested, by the clocks of a time zone. Pure.

A window that ends earlier than it begins goes over midnight and belongs to the day on which it begins. Hours are those
of the wall: on the night in which clocks are set, a window is an hour longer or shorter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from ..outcome.errors import InputError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TEXT = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """From `opens` to `closes` on each of `days` (0 is Monday), by the clocks of `zone`; both equal is all day."""

    opens: time
    closes: time
    days: frozenset[int]
    zone: str

    def __str__(self) -> str:
        days = "" if len(self.days) == len(DAYS) else f" on {', '.join(DAYS[day] for day in sorted(self.days))}"
        return f"{self.opens:%H:%M}-{self.closes:%H:%M} {self.zone}{days}"

    @property
    def longest_s(self) -> float:
        """How long it is open, on a day without a change of clocks."""
        minutes = _minutes(self.closes) - _minutes(self.opens)
        if len(self.days) == len(DAYS) and not minutes:
            return float("inf")
        return 60.0 * (minutes if minutes > 0 else minutes + 24 * 60)

    def closes_at(self, now_s: float) -> float | None:
        """Return when the window that is open at this time closes; None if none is open."""
        if self.longest_s == float("inf"):
            return float("inf")
        ends = [end for begin, end in self._around(now_s) if begin <= now_s < end]
        return max(ends, default=None)

    def opens_at(self, now_s: float) -> float:
        """Return when the next window opens after this time."""
        return min(begin for begin, end in self._around(now_s) if begin > now_s and end > begin)

    def _around(self, now_s: float) -> list[tuple[float, float]]:
        zone = ZoneInfo(self.zone)
        today = datetime.fromtimestamp(now_s, UTC).astimezone(zone).date()
        found = []
        # A day back for what goes over midnight, eight ahead for what opens once a week.
        for offset in range(-1, 9):
            day = today + timedelta(days=offset)
            if day.weekday() in self.days:
                last = day + timedelta(days=1) if self.closes <= self.opens else day
                begin, end = (datetime.combine(at, hour, zone) for at, hour in ((day, self.opens), (last, self.closes)))
                found.append((begin.timestamp(), end.timestamp()))
        return found


def window_of(hours: str, zone: str, days: Sequence[str] = DAYS) -> TimeWindow | None:
    """Return the window that a site states as `22:00-06:00`; None for no hours, which is any time.

    Raises:
        InputError: no such hours, day or time zone.
    """
    if not hours.strip():
        return None
    match = _TEXT.fullmatch(hours.strip())
    if match is None or (match.group(3) == "24" and match.group(4) != "00"):
        raise InputError("window", f"is {hours!r}, expected hours such as 22:00-06:00.", "window: 22:00-06:00")
    unknown = [day for day in days if day not in DAYS]
    if unknown or not days:
        text = f"{', '.join(unknown)}: no day." if unknown else "there is none."
        raise InputError("window days", text, f"name some of {', '.join(DAYS)}")
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, LookupError):
        text = f"is {zone!r}, which this controller does not know."
        raise InputError(
            "window zone", text, "name one such as Europe/Berlin; python -m zoneinfo needs tzdata"
        ) from None
    opens = time(int(match.group(1)), int(match.group(2)))
    closes = time(int(match.group(3)) % 24, int(match.group(4)))
    return TimeWindow(opens, closes, frozenset(DAYS.index(day) for day in days), zone)


def _minutes(at: time) -> int:
    return at.hour * 60 + at.minute
