# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs a function over many items in a bounded number of threads. Results are in the order of the items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .interrupt import Interrupted

A = TypeVar("A")
B = TypeVar("B")


def map_bounded(function: Callable[[A], B], items: Sequence[A], workers: int) -> list[B]:
    """Return the function's result for every item. At most `workers` run at once. The first exception is raised."""
    if not items:
        return []
    pool = ThreadPoolExecutor(max_workers=max(1, min(workers, len(items))))
    waits = True
    try:
        return list(pool.map(function, items))
    except Interrupted:
        # On an interrupt do not wait for requests that are under way.
        waits = False
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=True)
