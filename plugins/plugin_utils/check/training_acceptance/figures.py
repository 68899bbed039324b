# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The figures of a run: rates, variation, growth, data time, loss. Pure arithmetic on the lines of its ranks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median, pstdev, stdev

from .model import Rank, Run

# Growth is certain if it exceeds this many times its own uncertainty.
_SURE = 4.0
_SLOW_STEP = 1.1
# With this many windows, they are judged and not the first steps, since they show the effect of heat under load.
_LEAST_WINDOWS = 10


@dataclass(frozen=True, slots=True)
class Trend:
    """A straight line through values.

    Attributes:
        growth: from the first to the last value, as a fraction of the first.
        uncertainty: that of the growth.
        variation: standard deviation around the line, as a fraction of the mean.
    """

    growth: float
    uncertainty: float
    variation: float

    @property
    def sure(self) -> bool:
        """Whether the growth is far larger than its uncertainty."""
        return self.growth > _SURE * self.uncertainty


def trend_of(values: Sequence[float]) -> Trend:
    """Return the least-squares line through at least three equidistant values."""
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
    """The figures of one complete run, from the steps after the warm-up.

    The first steps are recorded one by one, later ones in windows of equal length. If a run has enough windows, trends
    and rates are computed from them.
    """

    run: Run
    warmup: int

    @cached_property
    def steps(self) -> tuple[tuple[int, float], ...]:
        """Number and time in seconds of every step. For windows: their middle step and mean time.

        Each time is the median of the ranks, which all wait for each other.
        """
        logs = [rank.log for rank in self.run.ranks]
        single = tuple(
            (logs[0].steps[n].number, median(log.steps[n].step_time_s for log in logs))
            for n in range(self.warmup, len(logs[0].steps))
        )
        return (*single, *((w.first + w.count // 2, self._window_s[n]) for n, w in enumerate(logs[0].windows)))

    @cached_property
    def step_s(self) -> float:
        """Mean time of a step in seconds."""
        windows = self.run.ranks[0].log.windows
        counts = [1] * (len(self.steps) - len(windows)) + [window.count for window in windows]
        return sum(n * s for n, (_number, s) in zip(counts, self.steps, strict=True)) / sum(counts)

    @cached_property
    def load_s(self) -> float:
        """Seconds that all steps took, as the minimum of the ranks."""
        return min(rank.log.load_s for rank in self.run.ranks)

    @cached_property
    def trend(self) -> Trend:
        """The trend of the step time. Its variation combines that within windows and that between them."""
        if not self._long:
            return trend_of([seconds for _number, seconds in self.steps])
        between = trend_of(self._window_s)
        logs = [rank.log.windows for rank in self.run.ranks]
        # The median, so that a single pause in ten minutes does not count as unsteady.
        within = median(median(windows[n].step_time_sd_s for windows in logs) for n in range(len(self._window_s)))
        variation = math.hypot(within / fmean(self._window_s), between.variation)
        return Trend(between.growth, between.uncertainty, variation)

    @cached_property
    def trends(self) -> Mapping[str, Trend]:
        """The trend of each GPU's own part of a step."""
        return {rank.gpu: trend_of(self._computed(rank)) for rank in self.run.ranks}

    @cached_property
    def rates(self) -> Mapping[str, float]:
        """Rate of each GPU at its own part of a step, relative to the run's median: 0.5 is half as fast."""
        times = {rank.gpu: median(self._computed(rank)) for rank in self.run.ranks}
        middle = median(times.values())
        return {gpu: middle / seconds for gpu, seconds in times.items()}

    @cached_property
    def data_s(self) -> Mapping[str, float]:
        """Seconds that each host needs for the data of a step, as the median of its ranks.

        Empty: not all recorded it.
        """
        found: dict[str, list[float]] = {}
        for rank in self.run.ranks:
            reported = [w.data_s for w in rank.log.windows] if self._long else []
            reported = reported or [step.data_s for step in rank.log.steps[self.warmup :] if step.data_s is not None]
            found.setdefault(rank.host, []).extend([median(reported)] if reported else [])
        return {host: median(seconds) for host, seconds in found.items()} if all(found.values()) else {}

    @cached_property
    def spoilers(self) -> tuple[str, ...]:
        """The GPU that was the slowest in most of the long steps. Otherwise all GPUs of the host that was."""
        usual = median(seconds for _number, seconds in self.steps)
        logs = {rank.gpu: rank.log for rank in self.run.ranks}
        first = self.run.ranks[0].log
        long: list[dict[str, float]] = []
        for n in range(self.warmup, len(first.steps)):
            if median(log.steps[n].step_time_s for log in logs.values()) > _SLOW_STEP * usual:
                long.append({gpu: log.steps[n].compute_s for gpu, log in logs.items()})
        for n in range(len(first.windows)):
            if median(log.windows[n].step_time_max_s for log in logs.values()) > _SLOW_STEP * usual:
                long.append({gpu: log.windows[n].compute_max_s for gpu, log in logs.items()})
        worst = [max(own, key=own.__getitem__) for own in long]
        alone = _most(worst)
        if alone:
            return (alone,)
        host = _most([gpu.partition("/")[0] for gpu in worst])
        return tuple(rank.gpu for rank in self.run.ranks_of(host))

    @cached_property
    def losses(self) -> tuple[tuple[int, float], ...]:
        """Step number and mean loss of all ranks, where it is finite. For windows: their middle step."""
        logs = [rank.log for rank in self.run.ranks]
        means = [
            *((logs[0].steps[n].number, fmean(log.steps[n].loss for log in logs)) for n in range(len(logs[0].steps))),
            *(
                (w.first + w.count // 2, fmean(log.windows[n].loss for log in logs))
                for n, w in enumerate(logs[0].windows)
            ),
        ]
        return tuple((number, loss) for number, loss in means if math.isfinite(loss))

    @cached_property
    def not_finite(self) -> Mapping[str, int]:
        """By GPU, the first step in which its loss was not finite."""
        found = {}
        for rank in self.run.ranks:
            number = next((step.number for step in rank.log.steps if not math.isfinite(step.loss)), 0)
            number = number or next((w.not_finite_from for w in rank.log.windows if w.not_finite_from), 0)
            if number:
                found[rank.gpu] = number
        return found

    @cached_property
    def weights(self) -> Counter[str]:
        """Number of ranks by the digest of their final weights."""
        return Counter(rank.log.weights for rank in self.run.ranks)

    @cached_property
    def odd_weights(self) -> Mapping[str, tuple[str, ...]]:
        """By host, the GPUs whose ranks ended with other weights than most."""
        found: dict[str, tuple[str, ...]] = {}
        usual = max(self.weights, key=self.weights.__getitem__)
        for rank in self.run.ranks:
            if rank.log.weights != usual:
                found[rank.host] = (*found.get(rank.host, ()), rank.gpu)
        return found

    @property
    def _long(self) -> bool:
        return len(self.run.ranks[0].log.windows) >= _LEAST_WINDOWS

    @cached_property
    def _window_s(self) -> tuple[float, ...]:
        logs = [rank.log.windows for rank in self.run.ranks]
        return tuple(median(windows[n].step_time_s for windows in logs) for n in range(len(logs[0])))

    def _computed(self, rank: Rank) -> list[float]:
        if self._long:
            return [window.compute_s for window in rank.log.windows]
        return [step.compute_s for step in rank.log.steps[self.warmup :]]


def _most(names: Sequence[str]) -> str:
    """Return the name that occurs at least three times and in more than 60 % of the list. Empty: there is none."""
    return next((name for name in set(names) if names.count(name) >= 3 and names.count(name) > 0.6 * len(names)), "")


@dataclass(frozen=True, slots=True)
class Fall:
    """How a loss fell: its mean at the beginning and at the end, and the standard error of the latter."""

    first: float
    last: float
    spread: float

    @property
    def part(self) -> float:
        """The fall as a fraction of the first value."""
        return 1 - self.last / self.first if self.first > 0 else 0.0

    def enough(self, least: float) -> bool:
        """Whether it fell by at least `least` (a fraction), and by more than chance."""
        return self.part >= least and self.first - self.last > 2 * self.spread


def fall_of(losses: Sequence[float]) -> Fall:
    """Return how a loss fell, from the first three steps to the last quarter."""
    quarter = max(3, len(losses) // 4)
    last = losses[-quarter:]
    return Fall(fmean(losses[:3]), fmean(last), stdev(last) / math.sqrt(len(last)) if len(last) > 1 else pstdev(last))
