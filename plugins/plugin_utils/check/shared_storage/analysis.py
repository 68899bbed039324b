# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evaluate all fio runs together: figures of each host, how hosts compare, which ones are measured again. Pure.

The observer calls it to decide whether to run again, and the judges for their verdicts, so that both get the same
result.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import mean, median

from ...verdict.peers import PeerLimits, PeerVerdict, as_slow, compare
from ..benchmark.host_runs import HostRecord, HostResults
from ..benchmark.plan import BenchmarkHost, BenchmarkPlan
from ..benchmark.records import SavedRuns
from .run import Pattern, StorageReading
from .settings import PATTERNS, StorageSettings

# The fio runs of the hosts as values: what was planned, what was run, and what their logs contain.


@dataclass(frozen=True, kw_only=True)
class Plan(BenchmarkPlan[BenchmarkHost]):
    """The hosts, and how the volume is measured on each."""

    settings: StorageSettings


SavedObservation = SavedRuns[Plan, HostRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with what its log contains."""

    record: HostRecord
    reading: StorageReading


@dataclass(frozen=True, kw_only=True)
class Results(HostResults[Plan, Run]):
    """The plan and all runs."""


# Which runs were made at the same moment. A shared volume is only as fast as its current load allows, so the figure of
# a host is compared with what others reached at the same moment. Pure. Tools that measure a file system from many
# clients start all of them together for this reason (IOR synchronises its processes by MPI: wiki.lustre.org/IOR,
# "Purpose").

# Two runs are of the same moment if they overlap for at least half of the shorter one's time.
_SHARED = 0.5
_Key = tuple[str, str]


class Moments:
    """The runs of a cohort, grouped by when they were made: hosts are measured in groups, one after the other."""

    def __init__(self, runs: Iterable[Run], least: int) -> None:
        """Keep the runs whose time is known.

        A group with fewer than `least` other runs is too small to compare with.
        """
        self.least = least
        self._groups: list[list[Run]] = []
        self._group_of: dict[tuple[str, int], int] = {}
        self._rates: dict[tuple[int, _Key], tuple[list[float], list[float]]] = {}
        spans = sorted((span, run.record.host, run.record.attempt, run) for run in runs if (span := _span(run)))
        first = (0.0, 0.0)
        for span, host, attempt, run in spans:
            if not self._groups or not _together(first, span):
                self._groups.append([])
                first = span
            self._groups[-1].append(run)
            self._group_of[host, attempt] = len(self._groups) - 1

    def parts(
        self, runs: Iterable[Run], key: _Key, rate: Callable[[Run], float], well: Collection[str]
    ) -> tuple[tuple[float, bool], ...]:
        """Return for each run of a host its rate divided by the median rate of others at the same moment.

        The second value is true if the median is of hosts that are not suspects themselves. Runs with too few others
        beside them are left out.

        Args:
            runs: all runs of the host.
            key: what is compared; one key always comes with the same `rate` and `well`.
            rate: the figure of a run; more is better.
            well: the hosts that are not suspects. The median is taken over them if enough of them are in the group.
        """
        parts = []
        for run in runs:
            group = self._group_of.get((run.record.host, run.record.attempt))
            if group is None:
                continue
            everybody, sound = self._of_group(group, key, rate, well)
            own = rate(run)
            company = _without(sound, own) if run.record.host in well else sound
            sure = len(company) >= self.least
            if not sure:
                company = _without(everybody, own)
            middle = median(company) if len(company) >= self.least else 0.0
            if middle > 0:
                parts.append((own / middle, sure))
        return tuple(parts)

    def _of_group(
        self, group: int, key: _Key, rate: Callable[[Run], float], well: Collection[str]
    ) -> tuple[list[float], list[float]]:
        """Return the figures of all runs of a moment, and those of hosts that are not suspects, both ascending."""
        if (group, key) not in self._rates:
            runs = self._groups[group]
            sound = sorted(rate(run) for run in runs if run.record.host in well)
            self._rates[group, key] = sorted(map(rate, runs)), sound
        return self._rates[group, key]


def _without(figures: list[float], own: float) -> list[float]:
    """Return the figures, which are in ascending order, without one occurrence of `own`."""
    at = bisect_left(figures, own)
    return figures[:at] + figures[at + 1 :]


def _together(one: tuple[float, float], other: tuple[float, float]) -> bool:
    shared = min(one[1], other[1]) - max(one[0], other[0])
    return shared >= _SHARED * min(one[1] - one[0], other[1] - other[0])


def _span(run: Run) -> tuple[float, float] | None:
    """Return start and end of a run in seconds since the epoch. None: its record does not have them."""
    try:
        begun = datetime.fromisoformat(run.record.started).timestamp()
    except ValueError:
        return None
    return (begun, begun + run.record.duration_s) if run.record.duration_s > 0 else None


_TRIES_TO_PLACE = 2
# Standard error of the median over that of the mean, for many figures: sqrt(pi / 2).
_OF_MEDIAN = 1.2533
# Largest expected number of hosts of a cohort that are this slow by chance. Above it, a slow host proves nothing.
_CHANCE = 0.005


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of every pattern.

    Attributes:
        name: its name.
        unit: its unit.
        reversed: less is better, so that the inverse is compared.
        doubted: where hosts differ widely, a host far below the others is in doubt. Not for a high percentile of
            latency, which differs that much on any volume.
    """

    name: str
    unit: str
    reversed: bool
    doubted: bool = False

    def of(self, pattern: Pattern) -> float:
        """Return the figure of a pattern, in `unit`."""
        return pattern.ms["p99"] if self.reversed else pattern.mib_s

    def rate(self, value: float) -> float:
        """Return the value that is compared: more is better. Applied twice, it returns the value itself."""
        return 1 / value if self.reversed else value

    def bound(self, settings: StorageSettings, pattern: str) -> float:
        """Return the limit that the site configures for a pattern, in `unit`. 0: none."""
        return (settings.p99_ms if self.reversed else settings.floor_mib_s).get(pattern, 0.0)

    def limits(self, settings: StorageSettings) -> PeerLimits:
        """Return the limits of the comparison with peers."""
        return settings.latency_peers if self.reversed else settings.throughput_peers

    def far(self, settings: StorageSettings) -> float:
        """Return the part of the peers' rate below which a host is bad."""
        return 1 / settings.latency_bad if self.reversed else 1 - settings.peer_bad


THROUGHPUT = Metric("throughput", "MiB/s", reversed=False, doubted=True)
LATENCY = Metric("latency p99", "ms", reversed=True)
METRICS = (THROUGHPUT, LATENCY)


class Figures:
    """The median of each host's runs, and how the hosts of a cohort compare.

    A cohort is hosts of one SKU that access the volume in the same way: with direct I/O, or through the page cache.
    """

    def __init__(self, results: Results) -> None:
        """Keep the runs that have figures."""
        self.plan: Plan = results.plan
        self.runs: Mapping[str, tuple[Run, ...]] = {
            host.name: tuple(run for run in results.of(host.name) if run.reading.problem is None)
            for host in results.plan.hosts
        }
        self._peers: dict[tuple[str, str, str], PeerVerdict] = {}
        self._moments: dict[str, Moments] = {}
        self._well: dict[tuple[str, str, str], frozenset[str]] = {}
        self._parts: dict[tuple[str, str, str], tuple[tuple[float, bool], ...]] = {}
        self._company: dict[tuple[str, str, str], list[float]] = {}
        self._wanders: dict[tuple[str, str, str], float] = {}
        self._far: dict[tuple[str, str, str], frozenset[str]] = {}

    def cohort(self, host: str) -> str:
        """Return the cohort of a host: its SKU, and whether it uses direct I/O."""
        way = "direct" if self.runs[host][0].reading.direct else "cached"
        return f"{self.plan.host(host).sku} {way}"

    def cohorts(self) -> dict[str, list[str]]:
        """Return the hosts with figures, by cohort."""
        found: dict[str, list[str]] = {}
        for host, runs in self.runs.items():
            if runs:
                found.setdefault(self.cohort(host), []).append(host)
        return found

    def value(self, metric: Metric, host: str, pattern: str) -> float:
        """Return the median of a host's runs, in the unit of the metric."""
        return median(metric.of(run.reading.patterns[pattern]) for run in self.runs[host])

    def peers(self, metric: Metric, cohort: str, pattern: str) -> PeerVerdict:
        """Return how the hosts of a cohort compare, as rates."""
        key = (metric.name, cohort, pattern)
        if key not in self._peers:
            settings = self.plan.settings
            values = {h: metric.rate(self.value(metric, h, pattern)) for h in self.cohorts()[cohort]}
            bound = metric.bound(settings, pattern)
            self._peers[key] = compare(values, metric.limits(settings), metric.rate(bound) if bound else None)
        return self._peers[key]

    def below_bound(self, metric: Metric, host: str, pattern: str) -> bool:
        """Return whether a host misses the limit that the site configures."""
        bound = metric.bound(self.plan.settings, pattern)
        return bool(bound) and metric.rate(self.value(metric, host, pattern)) < metric.rate(bound)

    def missed(self, metric: Metric, host: str) -> tuple[str, ...]:
        """Return the patterns in which a host is slower than its peers allow, or than the site's limit."""
        cohort = self.cohort(host)
        return tuple(
            pattern
            for pattern in PATTERNS
            if (host in self.peers(metric, cohort, pattern).suspects and not self._was_company(metric, host, pattern))
            or self.below_bound(metric, host, pattern)
        )

    def _was_company(self, metric: Metric, host: str, pattern: str) -> bool:
        """Return whether a host became a suspect only because of the moment at which it was measured again.

        It was fast enough in its first run, and in the later ones as fast as others at the same moment: the volume was
        slow then, not the host.
        """
        peers, first = self.peers(metric, self.cohort(host), pattern), self.runs[host][0]
        least = max(peers.limit, self._least(metric) * peers.median)
        well = metric.rate(metric.of(first.reading.patterns[pattern])) >= least
        part = self.moment(metric, host, pattern)
        return well and len(self.runs[host]) > 1 and part is not None and part >= self._least(metric)

    def moment(self, metric: Metric, host: str, pattern: str) -> float | None:
        """Return a host's rate divided by that of others at the same moment, as the median over its runs.

        None: too few others were measured beside it.
        """
        parts = [part for part, _sure in self._parts_of(metric, host, pattern)]
        return median(parts) if parts else None

    def _parts_of(self, metric: Metric, host: str, pattern: str) -> tuple[tuple[float, bool], ...]:
        key = (metric.name, host, pattern)
        if key not in self._parts:
            moments, well = self._moments_of(metric, self.cohort(host), pattern)
            self._parts[key] = moments.parts(
                self.runs[host], (metric.name, pattern),
                lambda run: metric.rate(metric.of(run.reading.patterns[pattern])), well,
            )  # fmt: skip
        return self._parts[key]

    def _sure_parts(self, metric: Metric, host: str, pattern: str) -> list[float]:
        """Return the parts that were computed from hosts that are not suspects."""
        return [part for part, sure in self._parts_of(metric, host, pattern) if sure]

    def _least(self, metric: Metric) -> float:
        """Return the part of the others' rate from which on a host counts as being as fast as they are."""
        return 1 - metric.limits(self.plan.settings).tolerance

    def _moments_of(self, metric: Metric, cohort: str, pattern: str) -> tuple[Moments, frozenset[str]]:
        """Return the moments of a cohort, and which of its hosts are not suspects."""
        key = (metric.name, cohort, pattern)
        if key not in self._well:
            hosts = self.cohorts()[cohort]
            if cohort not in self._moments:
                runs = (run for name in hosts for run in self.runs[name])
                self._moments[cohort] = Moments(runs, max(2, self.plan.settings.peers_least - 1))
            self._well[key] = frozenset(hosts) - set(self.peers(metric, cohort, pattern).suspects)
        return self._moments[cohort], self._well[key]

    def doubtful(self, metric: Metric, host: str) -> tuple[str, ...]:
        """Return the patterns in which it cannot be decided whether a host is slow.

        The host is far below its peers, but they differ so much that this proves nothing; or it is far below the others
        at its moment. A pattern for which the site configures a floor is never in doubt.
        """
        if not metric.doubted:
            return ()
        least, found = self._least(metric), []
        for pattern in PATTERNS:
            peers = self.peers(metric, self.cohort(host), pattern)
            if metric.bound(self.plan.settings, pattern) or not peers.evaluated or host in peers.suspects:
                continue
            part = self.moment(metric, host, pattern)
            below = metric.rate(self.value(metric, host, pattern)) < least * peers.median
            below = below and not self._was_company(metric, host, pattern)
            if below or (part is not None and part < least):
                found.append(pattern)
        return tuple(found)

    def of_its_moment(self, metric: Metric, host: str, pattern: str) -> bool:
        """Return whether, at least once, hosts that are not suspects were as slow as this host at the same moment.

        It is then not known whether the host itself is slow.
        """
        best = max(self._sure_parts(metric, host, pattern), default=0.0)
        return best >= self._least(metric) and not self.below_bound(metric, host, pattern)

    def wanders(self, metric: Metric, cohort: str, pattern: str) -> float:
        """Return how much hosts of a cohort vary from one moment to the next.

        This is the standard deviation of the logarithm of their parts, pooled over all hosts that were measured more
        than once. 0: none was. A host that is equally slow each time does not add to it.
        """
        key = (metric.name, cohort, pattern)
        if key not in self._wanders:
            squares, free = 0.0, 0
            for host in self.cohorts()[cohort]:
                logs = [math.log(part) for part in self._sure_parts(metric, host, pattern) if part > 0]
                if len(logs) > 1:
                    middle = mean(logs)
                    squares += sum((one - middle) ** 2 for one in logs)
                    free += len(logs) - 1
            self._wanders[key] = math.sqrt(squares / free) if free else 0.0
        return self._wanders[key]

    def by_chance(self, metric: Metric, host: str, pattern: str) -> bool:
        """Return whether a host can be this slow by chance, so that its runs prove nothing.

        The limit follows from how much hosts of its cohort vary: the median of n runs deviates by 1.25 / sqrt(n)
        standard deviations of one run. Transients have heavy tails, so runs of hosts that are not suspects and were as
        low are counted as well.
        """
        parts = self._sure_parts(metric, host, pattern)
        if not parts or self.below_bound(metric, host, pattern):
            return False
        cohort = self.cohort(host)
        wide = metric.limits(self.plan.settings).spreads * self.wanders(metric, cohort, pattern)
        if median(parts) > math.exp(-wide * _OF_MEDIAN / math.sqrt(len(parts))):
            return True
        company = self._parts_of_company(metric, cohort, pattern)
        as_low = bisect_right(company, max(parts))
        often = (as_low + 1) / (len(company) + 1)
        return as_low > 0 and len(self.cohorts()[cohort]) * often ** len(parts) > _CHANCE

    def _parts_of_company(self, metric: Metric, cohort: str, pattern: str) -> list[float]:
        """Return the parts of all hosts of a cohort that are not suspects, in ascending order."""
        key = (metric.name, cohort, pattern)
        if key not in self._company:
            _moments, well = self._moments_of(metric, cohort, pattern)
            self._company[key] = sorted(part for host in well for part in self._sure_parts(metric, host, pattern))
        return self._company[key]

    def slow_itself(self, metric: Metric, host: str) -> tuple[str, ...]:
        """Return the patterns in which the host itself is slow.

        It is slower than its peers allow, others were not as slow at the same moments, and it is not by chance.
        """
        return tuple(
            name
            for name in self.missed(metric, host)
            if not self.of_its_moment(metric, host, name) and not self.by_chance(metric, host, name)
        )

    def blind(self, metric: Metric, cohort: str) -> str:
        """Return a pattern in which a slow host could not be detected. Empty: none.

        The hosts differ so much, and the site configures no floor, that a host which lost half of what is bad could
        pass as one of its peers.
        """
        least = (1 - self.plan.settings.peer_bad) / 2
        for pattern in PATTERNS if metric.doubted else ():
            enough = self.peers(metric, cohort, pattern).enough and not metric.bound(self.plan.settings, pattern)
            if enough and self.sees(metric, cohort, pattern) < least:
                return pattern
        return ""

    def sees(self, metric: Metric, cohort: str, pattern: str) -> float:
        """Return the part of its peers' rate below which a host is certain to be detected.

        Above it, the host can reach the tolerated rate by `peer_spreads` standard deviations of the differences between
        hosts.
        """
        limits, peers = metric.limits(self.plan.settings), self.peers(metric, cohort, pattern)
        spread = peers.spread / peers.median if peers.median > 0 else 0.0
        return (1 - limits.tolerance) / (1 + limits.spreads * spread)

    def far(self, metric: Metric, host: str, pattern: str) -> bool:
        """Return whether a host is so slow in a pattern that it fails and is not only marginal.

        That includes a host as slow as one that fails and was measured often enough to do so.
        """
        return host in self._far_ones(metric, self.cohort(host), pattern) or self._beyond(metric, host, pattern)

    def _beyond(self, metric: Metric, host: str, pattern: str) -> bool:
        peers = self.peers(metric, self.cohort(host), pattern)
        rate = metric.rate(self.value(metric, host, pattern))
        line = min(peers.limit, peers.median * metric.far(self.plan.settings))
        return self.below_bound(metric, host, pattern) or rate < line

    def _far_ones(self, metric: Metric, cohort: str, pattern: str) -> frozenset[str]:
        key = (metric.name, cohort, pattern)
        if key not in self._far:
            slow = self._slow_rates(metric, cohort, pattern)
            often = [host for host in slow if len(self.runs[host]) >= self.plan.settings.repeats]
            far = [host for host in often if self._beyond(metric, host, pattern)]
            self._far[key] = as_slow(slow, far, self.peers(metric, cohort, pattern).median)
        return self._far[key]

    def _slow_rates(self, metric: Metric, cohort: str, pattern: str) -> dict[str, float]:
        """Return the compared rates of the hosts that are slow themselves in a pattern."""
        slow = [host for host in self.cohorts()[cohort] if pattern in self.slow_itself(metric, host)]
        return {host: metric.rate(self.value(metric, host, pattern)) for host in slow}

    def alike(self, metric: Metric, cohort: str) -> frozenset[str]:
        """Return the hosts of a cohort that are slow themselves, and those that are as slow as one of them."""
        found = set[str]()
        for pattern in PATTERNS:
            slow = self._slow_rates(metric, cohort, pattern)
            rates = {h: metric.rate(self.value(metric, h, pattern)) for h in self.cohorts()[cohort]}
            found |= as_slow(rates, slow, self.peers(metric, cohort, pattern).median)
        return frozenset(found)

    def blamed(self, metric: Metric, cohort: str) -> tuple[str, ...]:
        """Return the patterns in which no single host of a cohort is to blame, because too many or all are slow."""
        if len(self.cohorts()[cohort]) < 2:
            return ()
        return tuple(pattern for pattern in PATTERNS if self.peers(metric, cohort, pattern).cohort_to_blame)

    def suspects(self, host: str) -> bool:
        """Return whether another run of a host could decide more about it."""
        cohort = self.cohort(host)
        return any(
            pattern not in self.blamed(metric, cohort)
            for metric in METRICS
            for pattern in (*self.missed(metric, host), *self.doubtful(metric, host))
        )


def to_measure_again(results: Results) -> list[str]:
    """Return the hosts to measure again: the suspects, and those whose run failed for a temporary reason."""
    figures, again = Figures(results), []
    for host in results.plan.open_hosts:
        made = results.of(host.name)
        if figures.runs[host.name]:
            if len(made) < results.plan.settings.repeats and figures.suspects(host.name):
                again.append(host.name)
        elif made and len(made) < _TRIES_TO_PLACE and (problem := made[-1].reading.problem) and problem.transient:
            again.append(host.name)
    return again
