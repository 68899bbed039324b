# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Places on an axis: where a value lies, and where the ticks are. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..outcome.series import Axis

_MOST_TICKS = 8


def place(value: float, axis: Axis) -> float | None:
    """Return where a value lies on the axis as drawn; None where a logarithmic axis has no place for it."""
    if not axis.logarithmic:
        return value
    return math.log2(value) if value > 0 else None


def ticks(values: Sequence[float], axis: Axis, *, from_zero: bool = False) -> tuple[float, ...]:
    """Return the values of the ticks, rising; they enclose a linear axis and lie within a logarithmic one."""
    shown = [value for value in values if place(value, axis) is not None]
    if not shown:
        return ()
    low, high = min(shown), max(shown)
    if axis.logarithmic:
        return _powers(low, high, 2 if axis.unit == "B" else 10)
    return _round_steps(min(low, 0.0) if from_zero else low, high)


def _powers(low: float, high: float, base: int) -> tuple[float, ...]:
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    if last <= first:
        return tuple(dict.fromkeys((low, high)))
    step = max(1, math.ceil((last - first) / (_MOST_TICKS - 1)))
    return tuple(float(base) ** power for power in range(last, first - 1, -step))[::-1]


def _round_steps(low: float, high: float) -> tuple[float, ...]:
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / (_MOST_TICKS - 2)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(round(number * step, 12) for number in range(first, last + 1))
