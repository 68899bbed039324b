# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""SIGTERM and SIGINT as an exception that nothing takes for a fault, so that what was made is removed then, too."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..outcome.errors import AbortedError

_PR_SET_PDEATHSIG = 1
_NUMBERS = (signal.SIGTERM, signal.SIGINT)
_active = False


class Interrupted(BaseException):
    """A signal asks for the end. Not an Exception: who handles faults must not go on after it."""


@contextmanager
def interruptible(what: str) -> Iterator[None]:
    """Within it the first SIGTERM or SIGINT stops at the next line, whatever handles errors in between.

    Further ones are ignored, so that they do not break off the cleanup that the first one started. Within another
    `interruptible`, and elsewhere than in the main thread, nothing changes.

    Raises:
        AbortedError: such a signal came.
    """
    global _active
    if _active or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in _NUMBERS:
            signal.signal(each, signal.SIG_IGN)
        came.append(number)
        raise Interrupted

    before = {number: signal.signal(number, stop) for number in _NUMBERS}
    _active = True
    try:
        yield
    except Interrupted:
        word = signal.Signals(came[0]).name
        raise AbortedError(what, f"ended by {word}.", "start the run again; it removes what may be left") from None
    finally:
        _active = False
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_controller() -> None:
    """Let the kernel send SIGTERM to this worker when its ansible-playbook is gone; elsewhere nothing changes."""
    import ctypes
    import multiprocessing

    controller = multiprocessing.parent_process()
    if controller is not None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != controller.pid:  # it went before, and no signal will come
            os.kill(os.getpid(), signal.SIGTERM)
