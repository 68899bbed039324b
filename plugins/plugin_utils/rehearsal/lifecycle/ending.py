# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ending in order: a signal that ends this process lets it first remove what it has begun."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal came; nobody but `ending_in_order` may catch it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within this, SIGINT, SIGTERM and SIGHUP unwind the stack and end the process at the end of it.

    Ansible's workers die of a signal at once: a compiler and its temporary files would stay. A second signal changes
    nothing, since removing takes no time. Elsewhere than in the main thread signals cannot be handled, and are not.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unwind(number: int, _frame: FrameType | None) -> None:
        for other in _NUMBERS:
            signal.signal(other, signal.SIG_IGN)
        raise Ended(number)

    before = {number: signal.getsignal(number) for number in _NUMBERS}
    for number, handler in before.items():
        if handler not in (None, signal.SIG_IGN):
            signal.signal(number, unwind)
    try:
        yield
    except Ended as ended:
        signal.signal(ended.number, signal.SIG_DFL)
        os.kill(os.getpid(), ended.number)
        raise
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
