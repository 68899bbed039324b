# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The effect of a software change on a figure: the same subjects before and after it, compared in pairs. Pure.

A change of driver or firmware reaches every node. So what most nodes lose together is a regression of the software,
reported once and for no node. A node is a suspect only if it lost more than the others did.

The test is Wilcoxon's signed rank test of the logarithms of after / before (F. Wilcoxon, Biometrics Bulletin 1, 1945):
exact up to 40 pairs, ties included, and by the normal approximation with correction for ties above.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median

_EXACT = 40
# Turns a median of absolute deviations into a standard deviation of normally distributed values.
_MAD_TO_SIGMA = 1.4826


class Effect(str, Enum):
    """The effect of the change.

    `part`: too many subjects lost to be single faults, and the others did not. `unknown`: too few pairs, or a change
    that chance alone may have made; this does not prove that nothing was lost.
    """

    UNCHANGED = "unchanged"
    LOSS = "loss"
    GAIN = "gain"
    PART = "part"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLimits:
    """The limits of the comparison.

    `least_change` is the least relative change of the median that counts. `significance` is the probability of chance
    below which a change is believed (two-sided, all comparisons of a report together). `least` is the fewest pairs for
    a result.

    A subject is a suspect if it lost `own_loss` more than the median did, and `spreads` deviations. If more than
    `own_share` of the subjects (and more than one) are suspects, the change hit a part of the fleet. `paired` is the
    fraction of the subjects measured before that must have been measured after.
    """

    least_change: float = 0.03
    significance: float = 0.01
    least: int = 4
    own_loss: float = 0.05
    spreads: float = 4.0
    own_share: float = 0.1
    paired: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeAfter:
    """The result of a comparison.

    `change` is the relative change of the median, `by_subject` that of each; a loss is below zero, also where less is
    better. `probability` is how likely chance alone does as much. `suspects` lost more than the others. `missing` were
    measured only on one side, or with an invalid figure.
    """

    effect: Effect
    pairs: int
    change: float = 0.0
    probability: float = 1.0
    by_subject: Mapping[str, float]
    suspects: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    arithmetic: str = ""

    @property
    def regression(self) -> bool:
        """Whether the software is at fault and no single node."""
        return self.effect in (Effect.LOSS, Effect.PART)


def before_after(
    before: Mapping[str, float],
    after: Mapping[str, float],
    *,
    more_is_better: bool = True,
    comparisons: int = 1,
    limits: ChangeLimits | None = None,
) -> BeforeAfter:
    """Return what changed between two measurements of the same subjects.

    Args:
        before: one figure of each subject from before the change (of several runs their median).
        after: the same from after it.
        more_is_better: False for times and latencies.
        comparisons: how many figures are compared in the same report; each has to be that much more certain.
        limits: the rule.
    """
    limits = limits or ChangeLimits()
    ratios = {
        name: ratio
        for name in before
        if name in after and (ratio := _ratio(before[name], after[name], more_is_better)) is not None
    }
    missing = tuple(sorted((before.keys() | after.keys()) - ratios.keys()))
    changes = {name: ratio - 1 if more_is_better else 1 - 1 / ratio for name, ratio in ratios.items()}
    count = len(ratios)
    if count < limits.least or count < limits.paired * len(before):
        text = f"{count} pairs of {len(before)} before and {len(after)} after; {limits.least} are needed, and "
        text += f"{limits.paired:.0%} of those before"
        return BeforeAfter(
            effect=Effect.UNKNOWN, pairs=count, by_subject=changes, missing=missing, arithmetic=text
        )  # fmt: skip
    middle, chance = median(changes.values()), signed_rank([_log(ratio) for ratio in ratios.values()])
    suspects, line = _suspects(changes, middle, limits)
    believed = limits.significance / max(1, comparisons)
    return BeforeAfter(
        effect=_effect(middle, chance <= believed, len(suspects), count, limits),
        pairs=count,
        change=middle,
        probability=chance,
        by_subject=changes,
        suspects=suspects,
        missing=missing,
        arithmetic=(
            f"median change of {count} pairs {middle:+.2%} (counts from {limits.least_change:.0%}), chance "
            f"{chance:.2g} (believed to {believed:.2g}, signed rank); own loss below {line:+.2%}: {len(suspects)}"
        ),
    )


def signed_rank(differences: Sequence[float]) -> float:
    """Return how likely chance alone puts differences so far to one side (two-sided, zeros left out)."""
    kept = [number for number in differences if number]
    if not kept:
        return 1.0
    # Twice the rank, so that ties have whole numbers.
    sizes = Counter(abs(number) for number in kept)
    ranks, below = dict[float, int](), 0
    for size in sorted(sizes):
        ranks[size] = 2 * below + sizes[size] + 1
        below += sizes[size]
    doubled = [ranks[abs(number)] for number in kept]
    less = min(
        sum(rank for rank, number in zip(doubled, kept, strict=True) if (number > 0) is side) for side in (True, False)
    )
    return _exactly(doubled, less) if len(kept) <= _EXACT else _normally(doubled, less)


def _exactly(doubled: Sequence[int], less: int) -> float:
    """Return the share of all sign combinations whose smaller sum is at most `less`."""
    ways = {0: 1}
    for rank in doubled:
        grown = Counter(ways)
        for total, number in ways.items():
            if total + rank <= less:
                grown[total + rank] += number
        ways = grown
    return min(1.0, float(2 * sum(ways.values()) / 2 ** len(doubled)))


def _normally(doubled: Sequence[int], less: int) -> float:
    # Each rank is on one side with an even chance; the half is the continuity correction for whole sums.
    middle, variance = sum(doubled) / 4, sum((rank / 2) ** 2 for rank in doubled) / 4
    distance = max(0.0, middle - less / 2 - 0.5) / math.sqrt(variance)
    return min(1.0, math.erfc(distance / math.sqrt(2)))


def _ratio(before: float, after: float, more_is_better: bool) -> float | None:
    """Return by what factor a figure got better, None for an invalid figure."""
    if not (math.isfinite(before) and math.isfinite(after)) or before <= 0 or after < 0:
        return None
    if more_is_better:
        return after / before
    return before / after if after else None


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio else -math.inf


def _suspects(changes: Mapping[str, float], middle: float, limits: ChangeLimits) -> tuple[tuple[str, ...], float]:
    """Return the subjects that lost more than the others, largest loss first, and the limit for that."""
    spread = _MAD_TO_SIGMA * median(abs(change - middle) for change in changes.values())
    line = middle - max(limits.own_loss, limits.spreads * spread)
    return tuple(sorted((name for name, change in changes.items() if change < line), key=changes.__getitem__)), line


def _effect(middle: float, believed: bool, suspects: int, count: int, limits: ChangeLimits) -> Effect:
    if abs(middle) >= limits.least_change:
        if not believed:
            return Effect.UNKNOWN
        return Effect.LOSS if middle < 0 else Effect.GAIN
    return Effect.PART if suspects > max(1.0, limits.own_share * count) else Effect.UNCHANGED
