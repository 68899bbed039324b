# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Turns SIGTERM and SIGINT into an exception that no error handler catches, so that cleanup runs then, too."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ..outcome.errors import AbortedError

_PR_SET_PDEATHSIG = 1
_NUMBERS = (signal.SIGTERM, signal.SIGINT)
_active = False
# An exception raised in these is lost, and with it the lock of `logging` that Python holds around a fork: no other
# thread could log any more. The first two are Python 3.11's.
_OF_LOGGING = frozenset(("_acquireLock", "_releaseLock", "_prepareFork", "_afterFork"))
# An exception between the begin of a transaction and its block would leave the transaction open, and the history
# locked, for as long as the exception exists: during all of the cleanup, which writes into the history as well.
_OF_TRANSACTIONS = "sqlalchemy."
_BETWEEN = "contextlib"
_AGAIN_S = 0.01


class Interrupted(BaseException):
    """A signal ends the run. Not an Exception, so that no error handler catches it and goes on."""


def may_raise(frame: FrameType | None) -> bool:
    """Return whether a signal handler may raise in this frame.

    It may not in a hook around a fork, in a finaliser, nor while a transaction begins or ends.
    """
    if frame is not None and frame.f_globals.get("__name__") == _BETWEEN:
        return False
    while frame is not None:
        name, module = frame.f_code.co_name, str(frame.f_globals.get("__name__"))
        if name == "__del__" or module.startswith(_OF_TRANSACTIONS) or (name in _OF_LOGGING and module == "logging"):
            return False
        frame = frame.f_back
    return True


def _send_again(number: int) -> None:
    """Send this process the signal again after a moment: sent at once it would re-enter the handler."""

    def send() -> None:
        time.sleep(_AGAIN_S)
        os.kill(os.getpid(), number)

    _thread.start_new_thread(send, ())


@contextmanager
def interruptible(what: str) -> Iterator[None]:
    """In this block the first SIGTERM or SIGINT stops at the next line, whatever handles errors in between.

    Further signals are ignored, so that they do not interrupt the cleanup that the first one started. Within another
    `interruptible`, and outside the main thread, nothing changes.

    Raises:
        AbortedError: on such a signal.
    """
    global _active
    if _active or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    report_lost = sys.unraisablehook

    def stop(number: int, frame: FrameType | None) -> None:
        if not may_raise(frame):
            _send_again(number)
            return
        for each in _NUMBERS:
            signal.signal(each, signal.SIG_IGN)
        came.append(number)
        raise Interrupted

    def lost(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, Interrupted):
            report_lost(unraisable)
            return
        for each in _NUMBERS:
            signal.signal(each, stop)
        _send_again(came.pop())

    before = {number: signal.signal(number, stop) for number in _NUMBERS}
    sys.unraisablehook = lost
    _active = True
    try:
        yield
    except Interrupted:
        word = signal.Signals(came[0]).name
        raise AbortedError(what, f"ended by {word}.", "start the run again; it removes what may be left") from None
    finally:
        _active = False
        sys.unraisablehook = report_lost
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_controller() -> None:
    """Let the kernel send SIGTERM to this worker when its ansible-playbook ends. In other processes nothing changes."""
    import ctypes
    import multiprocessing

    controller = multiprocessing.parent_process()
    if controller is not None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != controller.pid:  # it ended before, so no signal will come
            os.kill(os.getpid(), signal.SIGTERM)
