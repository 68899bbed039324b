# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The figures of a run: rates, variation, growth, lateness, loss. Pure arithmetic on the lines of its ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median, pstdev, stdev

from .model import Rank, Run

# A growth counts from so many times its own uncertainty.
_SURE = 4.0
_SLOW_STEP = 1.1


@dataclass(frozen=True, slots=True)
class Trend:
    """A straight line through values: growth from the first to the last as a fraction of the first, its
    uncertainty, and the variation that the line leaves, as a fraction of the mean."""

    growth: float
    uncertainty: float
    variation: float

    @property
    def sure(self) -> bool:
        """Whether the growth exceeds its uncertainty by far."""
        return self.growth > _SURE * self.uncertainty


def trend_of(values: Sequence[float]) -> Trend:
    """Return the least-squares line through values at equal distances; at least three."""
    count, middle = len(values), fmean(values)
    centre = (count - 1) / 2
    spread = sum((n - centre) ** 2 for n in range(count))
    slope = sum((n - centre) * (value - middle) for n, value in enumerate(values)) / spread
    rests = [value - middle - slope * (n - centre) for n, value in enumerate(values)]
    noise = math.sqrt(sum(rest**2 for rest in rests) / max(1, count - 2))
    first = max(middle - slope * centre, 1e-12)
    return Trend(slope * (count - 1) / first, noise / math.sqrt(spread) * (count - 1) / first, noise / middle)


@dataclass(frozen=True)
class Figures:
    """The figures of one complete run, from the steps after the warm-up."""

    run: Run
    warmup: int

    @cached_property
    def steps(self) -> tuple[tuple[int, float], ...]:
        """Number and time in seconds of every step: the median of the ranks, which all wait for each other."""
        logs = [rank.log.steps for rank in self.run.ranks]
        return tuple(
            (logs[0][n].number, median(steps[n].step_time_s for steps in logs))
            for n in range(self.warmup, len(logs[0]))
        )

    @cached_property
    def step_s(self) -> float:
        """Mean time of a step."""
        return fmean(seconds for _number, seconds in self.steps)

    @cached_property
    def trend(self) -> Trend:
        """The trend of the step time."""
        return trend_of([seconds for _number, seconds in self.steps])

    @cached_property
    def trends(self) -> Mapping[str, Trend]:
        """The trend of each GPU's own part of a step."""
        return {rank.gpu: trend_of(self._computed(rank)) for rank in self.run.ranks}

    @cached_property
    def rates(self) -> Mapping[str, float]:
        """Rate of each GPU at its own part of a step: the run's median is 1, twice as slow is 0.5."""
        times = {rank.gpu: median(self._computed(rank)) for rank in self.run.ranks}
        middle = median(times.values())
        return {gpu: middle / seconds for gpu, seconds in times.items()}

    @cached_property
    def lateness(self) -> Mapping[str, float]:
        """Seconds from the first rank of all to the last one of each host."""
        first = min(rank.log.started for rank in self.run.ranks)
        found: dict[str, float] = {}
        for rank in self.run.ranks:
            found[rank.host] = max(found.get(rank.host, 0.0), rank.log.started - first)
        return found

    @cached_property
    def spoilers(self) -> tuple[str, ...]:
        """The GPU that was the slowest in most of the long steps, or all GPUs of the host that was."""
        usual = median(seconds for _number, seconds in self.steps)
        long = [number for number, seconds in self.steps if seconds > _SLOW_STEP * usual]
        worst = [self._slowest(number) for number in long]
        alone = _most(worst)
        if alone:
            return (alone,)
        host = _most([gpu.partition("/")[0] for gpu in worst])
        return tuple(rank.gpu for rank in self.run.ranks if rank.host == host)

    @cached_property
    def losses(self) -> tuple[tuple[int, float], ...]:
        """Number of every step and the mean loss of all ranks, where all are finite."""
        logs = [rank.log.steps for rank in self.run.ranks]
        means = ((logs[0][n].number, fmean(steps[n].loss for steps in logs)) for n in range(len(logs[0])))
        return tuple((number, loss) for number, loss in means if math.isfinite(loss))

    @cached_property
    def not_finite(self) -> Mapping[str, int]:
        """The first step in which a GPU's loss was not finite."""
        found = {}
        for rank in self.run.ranks:
            number = next((step.number for step in rank.log.steps if not math.isfinite(step.loss)), 0)
            if number:
                found[rank.gpu] = number
        return found

    @cached_property
    def weights(self) -> Mapping[str, str]:
        """Digest of the weights of each GPU's rank at the end."""
        return {rank.gpu: rank.log.weights for rank in self.run.ranks}

    def _slowest(self, number: int) -> str:
        return max(self.run.ranks, key=lambda rank: rank.log.steps[number - 1].compute_s).gpu

    def _computed(self, rank: Rank) -> list[float]:
        return [step.compute_s for step in rank.log.steps[self.warmup :]]


def _most(names: Sequence[str]) -> str:
    """Return the name that is given at least three times and by most; empty if there is none."""
    return next((name for name in set(names) if names.count(name) >= 3 and names.count(name) > 0.6 * len(names)), "")


@dataclass(frozen=True, slots=True)
class Fall:
    """How a loss fell: its mean at the beginning and at the end, and the standard error of the latter."""

    first: float
    last: float
    spread: float

    @property
    def part(self) -> float:
        """The fall as a fraction of the first."""
        return 1 - self.last / self.first if self.first > 0 else 0.0

    def enough(self, least: float) -> bool:
        """Whether it fell by at least that fraction, and by more than chance."""
        return self.part >= least and self.first - self.last > 2 * self.spread


def fall_of(losses: Sequence[float]) -> Fall:
    """Return how a loss fell from the first steps to the last quarter."""
    quarter = max(3, len(losses) // 4)
    last = losses[-quarter:]
    return Fall(fmean(losses[:3]), fmean(last), stdev(last) / math.sqrt(len(last)) if len(last) > 1 else pstdev(last))
