# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the work of something grows, counted in lines of Python that run: the same on every machine, however busy."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_TIMES = (1, 2, 4)
# What is this near to no square part is not counted again.
_NO_SQUARE = 0.1


def lines_run(call: Callable[[], object]) -> int:
    """Return how many lines run within a call; each turn of a loop or comprehension counts."""
    count = 0

    def trace(_frame: FrameType, event: str, _about: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    # What a collection of garbage runs belongs to the tests before.
    gc.collect()
    gc.disable()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def lines_per_pair(prepare: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return the square part of a growth: how many lines run for each member and each other member.

    Of a number of lines a + b n + c n^2, c is what is left of three sizes, each twice the one before, once the linear
    part is taken out. A loop over all members within a loop over all members has a c of 1 or more.

    Args:
        prepare: from a size to the call whose work is counted; what it needs itself does not count.
        size: the smallest size.
    """
    # What is made when it is first needed counts for nothing; some of it is made anew once more is known.
    for _time in range(2):
        prepare(size)()
    counts = [[lines_run(prepare(times * size))] for times in _TIMES]
    part = _square_part([least for (least,) in counts], size)
    if abs(part) < _NO_SQUARE:
        # A disturbance would have to run just the lines that it hides.
        return part
    return _square_part(
        [_least(prepare, times * size, known) for times, known in zip(_TIMES, counts, strict=True)], size
    )


def _square_part(lines: list[int], size: int) -> float:
    one, two, four = lines
    return ((four - two) - 2 * (two - one)) / (6 * size**2)


def _least(prepare: Callable[[int], Callable[[], object]], size: int, counts: list[int]) -> int:
    """Return how many lines a call runs at least: what is imported or collected meanwhile is no work of the call.

    It is counted until it was the same twice, or three times: what disturbs it once runs so many lines not again.
    """
    while len(counts) < 3 and len(set(counts)) == len(counts):
        counts.append(lines_run(prepare(size)))
    return min(counts)
