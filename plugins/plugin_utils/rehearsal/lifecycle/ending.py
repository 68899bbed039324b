# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ending in order: a signal that ends this process lets it first remove what it has begun."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal came; nobody but `ending_in_order` may catch it."""


@contextmanager
def ending_in_order(alive: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Within this, SIGINT, SIGTERM and SIGHUP end the process only after what was begun is removed.

    Ansible's workers die of a signal at once: a compiler and its temporary files would stay. Here a signal is noted,
    and raised by the next look at whether the controller is alive: raised anywhere it could hit the moment in which a
    child was started that nobody knows of yet. Signals can be handled in the main thread only, and are not elsewhere.

    Args:
        alive: raises AbortedError once the controller is gone.

    Yields:
        What to call in its place, often.
    """
    if threading.current_thread() is not threading.main_thread():
        yield alive
        return
    got: list[int] = []

    def look() -> None:
        if got:
            raise Ended
        alive()

    before = {number: signal.getsignal(number) for number in _NUMBERS}
    for number, handler in before.items():
        if handler not in (None, signal.SIG_IGN):
            signal.signal(number, lambda number, _frame: got.append(number))
    try:
        yield look
        look()
    except Ended:
        signal.signal(got[0], signal.SIG_DFL)
        os.kill(os.getpid(), got[0])
        raise
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
