# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Comparing equals with each other: median and spread of a cohort, and who falls out of it.

Defects slow things down, they do not speed them up. The spread is therefore taken from the better half, so that a few
slow members neither hide each other nor widen the tolerance; it is the median absolute deviation of that half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

# From a median absolute deviation to a standard deviation, for a normal distribution.
_NORMAL = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLimits:
    """`tolerance` is the least relative distance to the median that counts, `spreads` how many standard deviations;
    `least` is the smallest cohort that is judged, `share` the part of it that may be suspect before it is to blame.
    """

    tolerance: float = 0.05
    spreads: float = 3.0
    least: int = 4
    share: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerVerdict:
    """What a comparison found.

    `evaluated` is False for too small a cohort: then nothing is known, which is no pass. `cohort_to_blame` says that so
    many are suspect, or all so slow, that what they share is at fault and no member is.
    """

    evaluated: bool
    median: float = 0.0
    spread: float = 0.0
    limit: float = 0.0
    suspects: tuple[str, ...] = ()
    cohort_to_blame: bool = False
    arithmetic: str = ""


def compare(
    values: Mapping[str, float], limits: PeerLimits | None = None, least_median: float | None = None
) -> PeerVerdict:
    """Return who is slower than the cohort allows.

    Args:
        values: one figure of each member; more is better.
        limits: the rule.
        least_median: what the cohort's median must reach, from a ceiling; below it the cohort is to blame.
    """
    limits = limits or PeerLimits()
    if len(values) < limits.least:
        return PeerVerdict(evaluated=False, arithmetic=f"{len(values)} peers, {limits.least} are needed to compare")
    middle = median(values.values())
    spread = _NORMAL * median(value - middle for value in values.values() if value >= middle)
    tolerance = max(limits.tolerance, limits.spreads * spread / middle) if middle > 0 else limits.tolerance
    line = middle * (1 - tolerance)
    suspects = tuple(name for name, value in values.items() if value < line)
    slow_cohort = middle <= 0 or (least_median is not None and middle < least_median)
    return PeerVerdict(
        evaluated=True,
        median=middle,
        spread=spread,
        limit=line,
        suspects=suspects,
        cohort_to_blame=slow_cohort or len(suspects) > _allowed(len(values), limits),
        arithmetic=(
            f"median {middle:.4g} of {len(values)} x (1 - max({limits.tolerance:g}, "
            f"{limits.spreads:g} x {spread:.3g} / {middle:.4g})) = {line:.4g}"
        ),
    )


def _allowed(members: int, limits: PeerLimits) -> int:
    """Return how many suspects a cohort may have: two of eight can be two bad nodes, two of six an uneven cohort."""
    return max(int(limits.share * members), 2 if members >= 2 * limits.least else 1)


def confirmed(samples: Sequence[bool], repeats: int = 3) -> bool:
    """Return whether a suspicion holds: of `repeats` samples more than half were over the line.

    One sample confirms nothing, and neither do repeats that were not run.
    """
    return len(samples) >= repeats and sum(samples[:repeats]) * 2 > repeats
