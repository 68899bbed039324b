# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Time: current time, deadlines, durations in messages, pauses between retries, and time limits."""

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

# Current time, deadlines, durations in messages.


def now_utc() -> str:
    """Return the current time as RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since(moment: str) -> float:
    """Return the seconds since a time in the format of `now_utc`; 0 if the clock was set back meanwhile."""
    return max(0.0, round((datetime.now(UTC) - moment_of(moment)).total_seconds(), 3))


def moment_of(text: str) -> datetime:
    """Return the moment of a time in ISO 8601, as `now_utc`, Kubernetes and Slurm write it.

    Raises:
        ValueError: it is no time.
    """
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def ahead_by(date: str, otherwise: timedelta) -> timedelta:
    """Return how far the clock of a server is ahead of ours, from its current response.

    Args:
        date: the server's time to the second, as in the HTTP header Date (RFC 9110, 5.6.7).
        otherwise: returned if that is no date.
    """
    from email.utils import parsedate_to_datetime

    try:
        reported = parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return otherwise
    return (reported if reported.tzinfo else reported.replace(tzinfo=UTC)) - datetime.now(UTC)


def hours_text(hours: float) -> str:
    """Return hours for a message: `24 h`. Less than a tenth of an hour is in the format of `elapsed_text`."""
    return f"{hours:g} h" if hours >= 0.1 else elapsed_text(hours * 3600)


def part_of_hours(done: float, hours: float) -> str:
    """Return completed and required hours for a message: `2.00 of 24 h`."""
    if hours >= 0.1:
        return f"{done:.2f} of {hours:g} h"
    # A test that takes longer than required runs to its end.
    return f"{elapsed_text(done * 3600)}, {hours_text(hours)} required"


def elapsed_text(seconds: float) -> str:
    """Return a duration for a message: `0.4 s`, `12 s`, `3 min 05 s`, `1 h 02 min`."""
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


# Pauses between retries, and the pause that a server requests with `Retry-After`.

# A server cannot make us wait longer at a time.
LONGEST_PAUSE_S = 30.0


@dataclass(slots=True)
class Backoff:
    """Pauses that double from `first_s` to `largest_s`.

    Each is drawn from the upper half of its step, so that clients that lost the same server do not all retry at once.
    """

    first_s: float = 0.2
    largest_s: float = 5.0
    draw: Callable[[float, float], float] = random.uniform
    _step_s: float = 0.0

    def pause_s(self, asked_s: float = 0.0) -> float:
        """Return the next pause in seconds, at least the one that the server requested."""
        self._step_s = min(self._step_s * 2, self.largest_s) if self._step_s else self.first_s
        return max(min(asked_s, LONGEST_PAUSE_S), self.draw(self._step_s / 2, self._step_s))


def retry_after_s(text: str, now: datetime | None = None) -> float:
    """Return the seconds of a `Retry-After` header, a number or an HTTP date (RFC 9110, 10.2.3).

    Never negative and never above LONGEST_PAUSE_S; 0 if it is neither.
    """
    text = text.strip()
    if text.isascii() and text.isdigit():
        # Twelve digits are plenty, and int() refuses thousands of them.
        return min(float(text[:12]), LONGEST_PAUSE_S)
    # Imported here, since few servers send a date.
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text[:64])
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - (now or datetime.now(UTC))).total_seconds(), 0.0), LONGEST_PAUSE_S)


# Pauses of work in threads. Signals do not reach a thread, so an event ends its work.

_here = threading.local()


@contextmanager
def ended_by(stop: threading.Event) -> Iterator[None]:
    """In this thread and block, the first pause after `stop` is set ends the work, which then cleans up."""
    _here.stop = stop
    try:
        yield
    finally:
        _here.stop = None


def pause(seconds: float) -> None:
    """Wait `seconds`.

    Raises:
        Interrupted: the event of `ended_by` was set.
    """
    stop: threading.Event | None = getattr(_here, "stop", None)
    if stop is None:
        time.sleep(seconds)
    elif stop.wait(seconds):
        raise Interrupted


# Ends a computation of this process when its time is over, without an extra thread or process.

# The exception is raised again every second, since code that catches every exception may swallow the first one.
_AGAIN_S = 1.0


_cleanups = 0


class _TimeIsUp(BaseException):
    """Not an Exception, so that no handler of read errors catches it and goes on."""


@contextmanager
def time_limit(what: str, limit_s: float, hint: str) -> Iterator[None]:
    """End the block after `limit_s` seconds of wall clock, also within a regular expression.

    - Blocks of `unlimited` are not ended.
    - A library call that does not handle signals ends first, and then the block.
    - Outside the main thread there is no limit.
    - An outer limit that ends sooner remains; any other outer limit continues afterwards.

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
        # At least a millisecond, since 0 would switch off the outer limit.
        rest_s = max(0.001, left_s - (monotonic() - begun)) if left_s else 0.0
        signal.setitimer(signal.ITIMER_REAL, rest_s, interval_s)


@contextmanager
def unlimited() -> Iterator[None]:
    """Suspend all time limits in this block, which removes what a test created and has its own limits.

    A limit that already ended the test is raised again every second. One that ends meanwhile ends the code after the
    block. Outside the main thread nothing changes.
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
