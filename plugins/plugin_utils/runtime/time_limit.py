# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ends a computation of this process when its time is over; no thread and no process is needed for it, or left."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

from ..outcome.errors import DeadlineError
from .clock import elapsed_text

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

    def over(_number: int, _frame: FrameType | None) -> None:
        if running and not _cleanups:
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
