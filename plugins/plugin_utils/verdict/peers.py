# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Comparing peers with each other: whether a cohort has a fast and a slow part, and who is in the slow one.

Defects slow things down, they do not speed them up. So members are compared with the faster of two modes, however many
are in the slower one: of a cohort in which every second host is slow, the median and the spread of all say nothing.

One host is no mode. Where one host is faster than two and more others, either it was measured too fast or all others
are slow, and figures alone do not show which: two hosts with the same fault are far less likely than one, and one value
has no spread. Then the figure that the others must reach decides, and without such a figure no host is named. The more
members there are, the farther out is the farthest healthy one. So the deviations that count grow with their number: of
a hundred cohorts without a fault one has a member under the limit, whatever its size.

A single fastest host is set aside only among twenty hosts and more: real figures have heavy tails, and one is always
the highest. Two equally fast hosts are a mode in any cohort.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import NormalDist, median

# With so many hosts besides a faster one, that one is the odd one; of two hosts the slower one is suspect.
_LEAST_OTHERS = 2
# How many healthy members of a cohort may be under the limit: one in a hundred cohorts.
_LIES_UNDER = 0.01
# From so many members on the half over the median shows by how much healthy ones differ.
_UPPER_FROM = 32
# Fraction of the usual value by which two measurements of one thing differ.
NOISE = 0.01
# Of so many hosts one may be set aside that is faster than all others.
_ONE_OF = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLimits:
    """The limits of a comparison of peers.

    `tolerance` is the least relative distance to the faster mode that counts, `spreads` the least deviations. `least`
    is the smallest cohort whose agreement proves anything. `share` is the fraction of it that may be suspect before no
    member is named. `grows`: the deviations grow with the number of members; not where repeats separate noise from
    persistent differences.
    """

    tolerance: float = 0.05
    spreads: float = 3.0
    least: int = 4
    share: float = 0.5
    grows: bool = True

    def for_members(self, count: int) -> PeerLimits:
        """Return the rule for a cohort of so many members."""
        if not self.grows:
            return self
        return replace(self, spreads=max(self.spreads, NormalDist().inv_cdf(1 - _LIES_UNDER / max(count, 1))))


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerVerdict:
    """The result of a comparison.

    `median` and `spread` are those of the faster mode, `limit` is the line under which a member is suspect. `evaluated`
    is False where there was no peer to compare with. `enough` is False for a cohort so small that a slow member is
    found but agreement proves nothing. `cohort_to_blame`: most are suspect, or all so slow, that the comparison cannot
    name the ones at fault. `alone` is the one host that is faster than all others. If the others reach what they must,
    or are many that agree, they were compared without it. Else no member can be named and `cohort_to_blame` is set.
    """

    evaluated: bool
    enough: bool = False
    median: float = 0.0
    spread: float = 0.0
    limit: float = 0.0
    suspects: tuple[str, ...] = ()
    cohort_to_blame: bool = False
    alone: str = ""
    arithmetic: str = ""

    @property
    def undecided(self) -> str:
        """Why no member can be named, in words; empty where a single fastest host is not the reason."""
        if not (self.alone and self.cohort_to_blame):
            return ""
        return (
            f"{self.alone} alone is faster than all others: whether it was measured too fast or they are slow cannot "
            "be told by comparing"
        )


@dataclass(frozen=True, slots=True)
class _Mode:
    """The faster part of a cohort and the line under it."""

    members: int
    middle: float
    spread: float
    tolerance: float

    @property
    def line(self) -> float:
        return self.middle * (1 - self.tolerance)


def itself(name: str) -> Collection[str]:
    """Return the hosts of a member that is a host."""
    return (name,)


def compare(
    values: Mapping[str, float],
    limits: PeerLimits | None = None,
    least_median: float | None = None,
    hosts: Callable[[str], Collection[str]] = itself,
) -> PeerVerdict:
    """Return the members that are slower than the faster mode of the cohort allows.

    Args:
        values: one figure of each member; more is better.
        limits: the rule.
        least_median: what the median of the faster mode must reach, from a ceiling; below it the cohort is to blame.
        hosts: the hosts of a member's figure: GPUs of one host are not independently measured peers.
    """
    rule = limits or PeerLimits()
    spare = len({host for name in values for host in hosts(name)}) // _ONE_OF
    found = _compare(values, rule, least_median, hosts, spare)
    hidden = _without_first(values, rule, least_median, hosts) if found.evaluated and not found.suspects else None
    return hidden or found


def _compare(
    values: Mapping[str, float],
    limits: PeerLimits,
    least_median: float | None,
    hosts: Callable[[str], Collection[str]],
    spare: int = 0,
) -> PeerVerdict:
    """Compare; up to `spare` hosts may be set aside, one after the other, each faster than all that are left."""
    count = len(values)
    if count < 2:
        return PeerVerdict(evaluated=False, arithmetic=f"{count} members, 2 are needed to compare")
    limits = limits.for_members(count)
    mode = _faster_mode(sorted(values.values(), reverse=True), limits)
    alone = _alone(values, mode, hosts)
    if alone and (least_median is not None or spare):
        others = _without(values, alone, hosts)
        found = _compare(others, limits, least_median, hosts, spare - 1 if spare else 0)
        well = not found.cohort_to_blame if least_median is None else found.median >= least_median
        if well:
            text = f"{found.arithmetic}; without {alone}, which alone is faster ({mode.middle:.4g})"
            return replace(found, alone=alone, arithmetic=text)
    suspects = tuple(name for name, value in values.items() if value < mode.line)
    slow_cohort = mode.middle <= 0 or (least_median is not None and mode.middle < least_median)
    return PeerVerdict(
        evaluated=True,
        enough=count >= limits.least,
        median=mode.middle,
        spread=mode.spread,
        limit=mode.line,
        suspects=suspects,
        cohort_to_blame=slow_cohort or bool(alone) or len(suspects) > allowed(count, limits),
        alone=alone,
        arithmetic=(
            f"median {mode.middle:.4g} of the faster {mode.members} of {count} x (1 - max({limits.tolerance:g} x "
            f"sqrt(1 + 2 / {mode.members}), {limits.spreads:.3g} x {mode.spread:.3g} / {mode.middle:.4g})) = "
            f"{mode.line:.4g}"
        ),
    )


def _without_first(
    values: Mapping[str, float],
    limits: PeerLimits,
    least_median: float | None,
    hosts: Callable[[str], Collection[str]],
) -> PeerVerdict | None:
    """Return the slow members without the fastest host, where its distance from the others hid them."""
    first = max(values, key=lambda name: values[name])
    if len(hosts(first)) > 1:
        return None
    odd = min(hosts(first))
    others = _without(values, odd, hosts)
    if len(others) < limits.least:
        return None
    found = _compare(others, limits, least_median, hosts)
    far = values[first] > 2 * found.median - found.limit
    if not found.suspects or found.cohort_to_blame or not far:
        return None
    return replace(found, alone=odd, arithmetic=f"{found.arithmetic}; without {odd}, which alone is faster")


def _without(values: Mapping[str, float], host: str, hosts: Callable[[str], Collection[str]]) -> dict[str, float]:
    """Return the members that are no figures of that host."""
    return {name: value for name, value in values.items() if host not in hosts(name)}


def _alone(values: Mapping[str, float], mode: _Mode, hosts: Callable[[str], Collection[str]]) -> str:
    """Return the one host that all members of the faster mode belong to, empty if there are more or none is slower."""
    order = sorted(values, key=lambda name: -values[name])
    fast = {host for name in order[: mode.members] for host in hosts(name)}
    others = {host for name in order[mode.members :] for host in hosts(name)} - fast
    return min(fast) if len(fast) == 1 and len(others) >= _LEAST_OTHERS else ""


def _faster_mode(values: Sequence[float], limits: PeerLimits) -> _Mode:
    """Return the faster mode of descending values: all of them where there is only one mode.

    Much slower members widen the spread of the slower part, so the faster part is split again until it is one mode. It
    never becomes less than half of the cohort that way.
    """
    kept, mode = list(values), _split(values, limits)
    found = mode
    while mode is not None:
        found, kept = mode, [value for value in kept if value >= mode.line]
        mode = _split(kept, limits)
        if mode is not None and 2 * sum(value >= mode.line for value in kept) < len(values):
            mode = None
    return found or _Mode(len(values), *_one_mode(values, limits))


def _one_mode(values: Sequence[float], limits: PeerLimits) -> tuple[float, float, float]:
    middle, count = median(values), len(values)
    spread = _deviation(middle, values, count - 1)
    # Slow members widen only the lower half.
    upper = [value for value in values if value > middle]
    above = _deviation(middle, upper, len(upper))
    spread = min(spread, above) if count >= _UPPER_FROM else spread
    return middle, spread, _tolerance(middle, spread, count, limits)


def _deviation(middle: float, values: Sequence[float], count: int) -> float:
    return math.sqrt(sum((value - middle) ** 2 for value in values) / max(1, count))


def _split(values: Sequence[float], limits: PeerLimits) -> _Mode | None:
    """Return the faster of the two modes that are farthest apart, None where no split of descending values is one.

    A split counts where the whole slower part is under the limit of the faster one. Where the slower part is the larger
    one, its median has to be.
    """
    count, best, most = len(values), None, 1.0
    sums = [0.0, *accumulate(values)]
    squares = [0.0, *accumulate(value * value for value in values)]

    def about(first: int, last: int, middle: float) -> float:
        number = last - first
        total, square = sums[last] - sums[first], squares[last] - squares[first]
        return max(0.0, square - 2 * middle * total + number * middle * middle)

    for fast in range(1, count):
        middle, slow = _middle(values, 0, fast), _middle(values, fast, count)
        if middle <= 0:
            break
        spread = math.sqrt((about(0, fast, middle) + about(fast, count, slow)) / max(1, count - 2))
        mode = _Mode(fast, middle, spread, _tolerance(middle, spread, fast, limits))
        highest = slow if 2 * fast < count else values[fast]
        if highest < mode.line and mode.tolerance > 0:
            distance = (middle - slow) / (mode.tolerance * middle)
            if distance > most:
                best, most = mode, distance
    return best


def _tolerance(middle: float, spread: float, members: int, limits: PeerLimits) -> float:
    """Return the relative distance that counts. The fewer members a mode has, the less sure its median is."""
    if middle <= 0:
        return limits.tolerance
    return max(limits.tolerance * math.sqrt(1 + 2 / members), limits.spreads * spread / middle)


def _middle(values: Sequence[float], first: int, last: int) -> float:
    half, odd = divmod(last - first, 2)
    return values[first + half] if odd else (values[first + half - 1] + values[first + half]) / 2


def allowed(members: int, limits: PeerLimits) -> int:
    """Return how many suspects a cohort may have: a share of it, at least one, or two from twice the least size on
    (eight)."""
    return max(int(limits.share * members), 2 if members >= 2 * limits.least else 1)


def as_slow(values: Mapping[str, float], slow: Collection[str], usual: float) -> frozenset[str]:
    """Return the slow members, and those that are as slow as one of them.

    Figures that differ by less than the noise of a measurement are one finding, and have one status.

    Args:
        values: one figure of each member; more is better.
        slow: names of members on the slow side of a limit.
        usual: the figure of the others.
    """
    fastest = max((values[name] for name in slow), default=-math.inf)
    return frozenset(slow) | {name for name, value in values.items() if value <= fastest + NOISE * usual}


def confirmed(samples: Sequence[bool], repeats: int = 3) -> bool:
    """Return whether a suspicion is confirmed: of `repeats` samples more than half crossed the limit.

    One sample confirms nothing, and neither do repeats that were not run.
    """
    return len(samples) >= repeats and sum(samples[:repeats]) * 2 > repeats
