# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a member got slower than it was: by a drop, or by a slow slide (CUSUM, E. S. Page 1954, with an EWMA, S. W.
Roberts 1959). Pure.

More is better. The reference is the beginning of the history and does not move, so that a slow slide does not become
the normal. Where the history is cut, its beginning is recorded (First). The spread of the reference widens every limit,
so that a noisy figure is not a drifting one. What all members of a cohort lost together (`moved`) is no drift of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftLimits:
    """The limits of drift.

    `drop`: relative distance under the reference that counts, `twice` in a row. `weight`: of the newest sample in the
    EWMA. `sum_limit`, `slack`: of the CUSUM, in deviations. `slide`: the least relative loss of a slide. `least`,
    `most`: number of samples that make the reference. `spreads`: the least drop in deviations.
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


@dataclass(frozen=True, slots=True)
class First:
    """The beginning of a history: the median and the spread (deviations) of its first `count` samples."""

    middle: float
    spread: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The drift of a series.

    `evaluated` is False where the history is too short. `drifting` means slower than before. `first` is the reference,
    `ratio` is the newest samples divided by it.
    """

    evaluated: bool
    drifting: bool = False
    arithmetic: str = ""
    first: First | None = None
    ratio: float = 1.0


def first_of_history(values: Sequence[float], limits: DriftLimits) -> First | None:
    """Return the beginning of these values, oldest first; None where they are too few."""
    if len(values) < limits.least + limits.twice:
        return None
    reference = values[: min(limits.most, len(values) - limits.twice)]
    middle = median(reference)
    spread = _MAD_TO_SIGMA * median(abs(value - middle) for value in reference)
    return First(middle, spread, len(reference))


def drift(
    values: Sequence[float], limits: DriftLimits | None = None, first: First | None = None, moved: float = 1.0
) -> Drift:
    """Return whether the newest of these values are below what they were.

    Args:
        values: oldest first.
        limits: the rule.
        first: the beginning of the history, where that is recorded; else the beginning of the values.
        moved: current speed of the cohort as a ratio to its first; a loss that all share is reported for the cohort.
    """
    limits = limits or DriftLimits()
    began = first or first_of_history(values, limits)
    if began is None or len(values) < limits.twice:
        text = f"{len(values)} samples, {limits.least + limits.twice} are needed for a history"
        return Drift(evaluated=False, arithmetic=text)
    if began.middle <= 0:
        text = f"the median of its first {began.count} samples is {began.middle:g}"
        return Drift(evaluated=False, arithmetic=text)
    middle, spread = began.middle * min(1.0, moved), began.spread
    tolerance = max(limits.drop, limits.spreads * spread / middle)
    low, total, mean = 0, 0.0, middle
    for value in values if first else values[began.count :]:
        mean += limits.weight * (value - mean)
        low = low + 1 if value < middle * (1 - tolerance) else 0
        # A figure that never moves has no spread; a thousandth of it is noise of any clock.
        total = max(0.0, total + (middle - value) / max(spread, middle / 1000) - limits.slack)
    slid = total > limits.sum_limit and mean < middle * (1 - max(limits.slide, limits.spreads * spread / middle * 0.5))
    dropped = low >= limits.twice
    with_all = f" x {moved:.3g} of its cohort" if moved < 1 else ""
    text = (
        f"its last {low} samples are under {middle * (1 - tolerance):.4g} = {began.middle:.4g} of its first "
        f"{began.count}{with_all} x (1 - {tolerance:.3g})"
        if dropped
        else f"CUSUM {total:.3g} (limit {limits.sum_limit:g}), EWMA {mean:.4g} against {middle:.4g} of its first "
        f"{began.count}{with_all}"
    )
    newest = median(values[-limits.twice - 1 :])
    return Drift(evaluated=True, drifting=dropped or slid, arithmetic=text, first=began, ratio=newest / began.middle)
