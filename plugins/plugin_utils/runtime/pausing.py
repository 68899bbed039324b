# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pauses of work that can be told to end from another thread, which no signal reaches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .interrupt import Interrupted

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
