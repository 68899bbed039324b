# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Time as values: now, deadlines, elapsed time for people."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ..outcome.errors import DeadlineError


def now_utc() -> str:
    """Return the time now as RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(moment: str) -> float:
    """Return the seconds since a time as `now_utc` writes it; 0 where the clock was set back meanwhile."""
    begun = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    return max(0.0, round((datetime.now(UTC) - begun).total_seconds(), 3))


def ahead_by(date: str, otherwise: timedelta) -> timedelta:
    """Return how far the clock of somebody is ahead of ours who has just said the time.

    Args:
        date: what they said, as in the header Date of HTTP (RFC 9110, 5.6.7), to the second.
        otherwise: returned where that is no date.
    """
    from email.utils import parsedate_to_datetime

    try:
        said = parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return otherwise
    return (said if said.tzinfo else said.replace(tzinfo=UTC)) - datetime.now(UTC)


def elapsed_text(seconds: float) -> str:
    """Return a duration for people: `0.4 s`, `12 s`, `3 min 05 s`, `1 h 02 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on the monotonic clock (seconds) by which something must be done."""

    at: float
    limit_s: float

    @classmethod
    def after(cls, limit_s: float) -> Deadline:
        """Return the deadline that many seconds from now."""
        return cls(time.monotonic() + limit_s, limit_s)

    @property
    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    def check(self, subject: str, found: str, hint: str = "") -> None:
        """Raise DeadlineError if the time is over.

        Args:
            subject: what was waited for.
            found: its last known state.
            hint: what to do next.
        """
        if self.left_s <= 0:
            raise DeadlineError(subject, f"not done after {elapsed_text(self.limit_s)}; last state: {found}.", hint)
