# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a member got slower than it was itself: a drop (EWMA, S. W. Roberts 1959) or a slow slide (CUSUM, E. S. Page
1954). Pure.

More is better. The reference is the beginning of its history, so that a slow slide is not taken for normal; the spread
of the reference widens every limit, so that a noisy figure is not a drifting one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftLimits:
    """`drop`: relative distance under the EWMA that counts, `twice` in a row; `weight`: of the newest sample in the
    EWMA; `sum_limit`, `slack`: of the CUSUM, in deviations; `slide`: relative loss that a slide must have come to;
    `least`, `most`: samples that make the reference; `spreads`: deviations that a drop must have as well.
    """

    drop: float = 0.05
    twice: int = 2
    weight: float = 0.3
    sum_limit: float = 5.0
    slack: float = 0.5
    slide: float = 0.03
    least: int = 5
    most: int = 10
    spreads: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What was found. `evaluated` is False where the history is too short; `drifting` means slower than before."""

    evaluated: bool
    drifting: bool = False
    arithmetic: str = ""


def drift(values: Sequence[float], limits: DriftLimits | None = None) -> Drift:
    """Return whether the newest of these values, the oldest first, are below what they were."""
    limits = limits or DriftLimits()
    count = len(values)
    if count < limits.least + limits.twice:
        text = f"{count} samples, {limits.least + limits.twice} are needed for a history"
        return Drift(evaluated=False, arithmetic=text)
    kept = min(limits.most, count - limits.twice)
    reference = values[:kept]
    middle = median(reference)
    if middle <= 0:
        return Drift(evaluated=False, arithmetic=f"the median of its first {kept} samples is {middle:g}")
    spread = _MAD_TO_SIGMA * median(abs(value - middle) for value in reference)
    tolerance = max(limits.drop, limits.spreads * spread / middle)
    average, low, total, mean = middle, 0, 0.0, middle
    for value in values[kept:]:
        mean += limits.weight * (value - mean)
        if value < average * (1 - tolerance):
            # What is low does not lower what it is compared with.
            low += 1
        else:
            low, average = 0, average + limits.weight * (value - average)
        # A figure that never moves has no spread; a thousandth of it is noise of any clock.
        total = max(0.0, total + (middle - value) / max(spread, middle / 1000) - limits.slack)
    slid = total > limits.sum_limit and mean < middle * (1 - max(limits.slide, limits.spreads * spread / middle * 0.5))
    dropped = low >= limits.twice
    text = (
        f"its last {low} samples are under {average * (1 - tolerance):.4g} = EWMA {average:.4g} x (1 - {tolerance:.3g})"
        if dropped
        else f"CUSUM {total:.3g} (limit {limits.sum_limit:g}), EWMA {mean:.4g} against {middle:.4g} of its first {kept}"
    )
    return Drift(evaluated=True, drifting=dropped or slid, arithmetic=text)
