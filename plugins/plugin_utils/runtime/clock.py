# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Time: now, deadlines, elapsed time for people, pauses between tries, and an end for what takes too long."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from types import FrameType

from ..outcome.errors import DeadlineError
from .interrupt import Interrupted, may_raise

# Time as values: now, deadlines, elapsed time for people.


def now_utc() -> str:
    """Return the time now as RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(moment: str) -> float:
    """Return the seconds since a time as `now_utc` writes it; 0 where the clock was set back meanwhile."""
    return max(0.0, round((datetime.now(UTC) - moment_of(moment)).total_seconds(), 3))


def moment_of(text: str) -> datetime:
    """Return the moment of a time in ISO 8601, as `now_utc`, Kubernetes and Slurm write it.

    Raises:
        ValueError: it is no time.
    """
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


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


def hours_text(hours: float) -> str:
    """Return hours for people, `24 h`, and less than a tenth of one as `elapsed_text`."""
    return f"{hours:g} h" if hours >= 0.1 else elapsed_text(hours * 3600)


def part_of_hours(done: float, hours: float) -> str:
    """Return how many hours of how many there were, for people: `2.00 of 24 h`."""
    if hours >= 0.1:
        return f"{done:.2f} of {hours:g} h"
    # A test that has more than was asked of it is run to its end.
    return f"{elapsed_text(done * 3600)}, {hours_text(hours)} required"


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


# Pauses between the tries of one thing, and what a server asks for with `Retry-After`.

# No server is given more of our time at once, whatever it asks for.
LONGEST_PAUSE_S = 30.0


@dataclass(slots=True)
class Backoff:
    """Pauses that double from `first_s` to `largest_s`.

    Each is drawn from the upper half of its step: many that lost one server do not come back at one moment.
    """

    first_s: float = 0.2
    largest_s: float = 5.0
    draw: Callable[[float, float], float] = random.uniform
    _step_s: float = 0.0

    def pause_s(self, asked_s: float = 0.0) -> float:
        """Return the next pause in seconds, no shorter than what the server asked for."""
        self._step_s = min(self._step_s * 2, self.largest_s) if self._step_s else self.first_s
        return max(min(asked_s, LONGEST_PAUSE_S), self.draw(self._step_s / 2, self._step_s))


def retry_after_s(text: str, now: datetime | None = None) -> float:
    """Return the seconds that a `Retry-After` asks for, a number or an HTTP date (RFC 9110, 10.2.3).

    Never negative and never above LONGEST_PAUSE_S; 0 for what is neither.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        # Longer numbers are not worth reading: int() refuses thousands of digits.
        return min(float(text[:12]), LONGEST_PAUSE_S)
    # Few servers say it as a date.
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text[:64])
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - (now or datetime.now(UTC))).total_seconds(), 0.0), LONGEST_PAUSE_S)


# Pauses of work that can be told to end from another thread, which no signal reaches.

_here = threading.local()


@contextmanager
def ended_by(told: threading.Event) -> Iterator[None]:
    """Within it, and in this thread, the first pause after `told` is set ends the work, which removes what it made."""
    _here.told = told
    try:
        yield
    finally:
        _here.told = None


def pause(seconds: float) -> None:
    """Wait so long.

    Raises:
        Interrupted: the work was told to end (`ended_by`).
    """
    told: threading.Event | None = getattr(_here, "told", None)
    if told is None:
        time.sleep(seconds)
    elif told.wait(seconds):
        raise Interrupted


# Ends a computation of this process when its time is over; no thread and no process is needed for it, or left.

# Code that takes every exception for an answer may lose the first one.
_AGAIN_S = 1.0


_cleanups = 0


class _TimeIsUp(BaseException):
    """Not an Exception: who handles faults of what it reads must not go on after it."""


@contextmanager
def time_limit(what: str, limit_s: float, hint: str) -> Iterator[None]:
    """End the block after `limit_s` seconds of wall clock, also within a regular expression; not what is `unlimited`.

    What blocks in a library that does not look at signals ends after it has returned. Elsewhere than in the main thread
    nothing is limited; a limit of somebody else that ends sooner stays as it is, any other goes on afterwards.

    Raises:
        DeadlineError: the time is over.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    begun = monotonic()
    left_s, interval_s = signal.getitimer(signal.ITIMER_REAL)
    if 0 < left_s <= limit_s:
        yield
        return
    running, mine = True, _TimeIsUp()

    def over(_number: int, frame: FrameType | None) -> None:
        if running and not _cleanups and may_raise(frame):
            raise mine

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
    try:
        try:
            yield
        finally:
            running = False
    except _TimeIsUp as error:
        if error is not mine:
            raise
        raise DeadlineError(what, f"did not end within {elapsed_text(limit_s)}.", hint) from None
    finally:
        signal.signal(signal.SIGALRM, before)
        # At least a moment: 0 would switch the other limit off.
        rest_s = max(0.001, left_s - (monotonic() - begun)) if left_s else 0.0
        signal.setitimer(signal.ITIMER_REAL, rest_s, interval_s)


@contextmanager
def unlimited() -> Iterator[None]:
    """Within it no time limit ends anything: it is for the removal of what a test made, which has limits of its own.

    One that ended the test is raised again every second; one that is over meanwhile ends what comes after it. Elsewhere
    than in the main thread nothing changes.
    """
    global _cleanups
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _cleanups += 1
    try:
        yield
    finally:
        _cleanups -= 1
