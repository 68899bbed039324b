# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""SIGTERM as an exception, so that what a test made is removed then, too."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..outcome.errors import AbortedError


@contextmanager
def interruptible(what: str) -> Iterator[None]:
    """Within it SIGTERM raises AbortedError once; elsewhere than in the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        # A second SIGTERM must not break off the cleanup that the first one started.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise AbortedError(what, "ended by SIGTERM.", "start the run again; it sweeps what may be left")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
