# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What all runs of fio say together: figures of each host, how hosts compare, who is to be measured again. Pure.

The observer asks it whether to run again, the judges ask it for their verdicts, so that both see the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from ...verdict.peers import PeerLimits, PeerVerdict, compare
from .model import Plan, Results, Run
from .run import Pattern
from .settings import PATTERNS, StorageSettings

_TRIES_TO_PLACE = 2


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of every pattern; `reversed`: less is better, so that its inverse is compared."""

    name: str
    unit: str
    reversed: bool

    def of(self, pattern: Pattern) -> float:
        """Return the figure."""
        return pattern.ms["p99"] if self.reversed else pattern.mib_s

    def rate(self, value: float) -> float:
        """Return what is compared, more being better; also the other way round."""
        return 1 / value if self.reversed else value

    def bound(self, settings: StorageSettings, pattern: str) -> float:
        """Return what the site states, 0 for nothing."""
        return (settings.p99_ms if self.reversed else settings.floor_mib_s).get(pattern, 0.0)

    def limits(self, settings: StorageSettings) -> PeerLimits:
        """Return the peer rule."""
        return settings.latency_peers if self.reversed else settings.throughput_peers

    def far(self, settings: StorageSettings) -> float:
        """Return the part of the peers' rate under which it is bad."""
        return 1 / settings.latency_bad if self.reversed else 1 - settings.peer_bad


THROUGHPUT = Metric("throughput", "MiB/s", reversed=False)
LATENCY = Metric("latency p99", "ms", reversed=True)
METRICS = (THROUGHPUT, LATENCY)


class Figures:
    """The median of each host's runs, and how hosts compare that are alike: of one SKU, and with the same way to the
    volume, past the page cache or through it."""

    def __init__(self, results: Results) -> None:
        """Keep the runs with figures."""
        self.plan: Plan = results.plan
        self.runs: Mapping[str, tuple[Run, ...]] = {
            host.name: tuple(run for run in results.of(host.name) if run.reading.problem is None)
            for host in results.plan.hosts
        }
        self._peers: dict[tuple[str, str, str], PeerVerdict] = {}

    def cohort(self, host: str) -> str:
        """Return what a host has in common with those that it is compared with."""
        way = "direct" if self.runs[host][0].reading.direct else "cached"
        return f"{self.plan.host(host).sku} {way}"

    def cohorts(self) -> dict[str, list[str]]:
        """Return the hosts with figures by their cohort."""
        found: dict[str, list[str]] = {}
        for host, runs in self.runs.items():
            if runs:
                found.setdefault(self.cohort(host), []).append(host)
        return found

    def value(self, metric: Metric, host: str, pattern: str) -> float:
        """Return the median of a host's runs."""
        return median(metric.of(run.reading.patterns[pattern]) for run in self.runs[host])

    def peers(self, metric: Metric, cohort: str, pattern: str) -> PeerVerdict:
        """Return how the hosts of a cohort compare, in rates."""
        key = (metric.name, cohort, pattern)
        if key not in self._peers:
            settings = self.plan.settings
            values = {h: metric.rate(self.value(metric, h, pattern)) for h in self.cohorts()[cohort]}
            bound = metric.bound(settings, pattern)
            self._peers[key] = compare(values, metric.limits(settings), metric.rate(bound) if bound else None)
        return self._peers[key]

    def below_bound(self, metric: Metric, host: str, pattern: str) -> bool:
        """Tell whether a host misses what the site states."""
        bound = metric.bound(self.plan.settings, pattern)
        return bool(bound) and metric.rate(self.value(metric, host, pattern)) < metric.rate(bound)

    def missed(self, metric: Metric, host: str) -> tuple[str, ...]:
        """Return the patterns in which a host is slower than its peers allow or the site states."""
        cohort = self.cohort(host)
        return tuple(
            pattern
            for pattern in PATTERNS
            if host in self.peers(metric, cohort, pattern).suspects or self.below_bound(metric, host, pattern)
        )

    def far(self, metric: Metric, host: str, pattern: str) -> bool:
        """Tell whether a host is so slow in a pattern that it fails, and is not only marginal."""
        peers = self.peers(metric, self.cohort(host), pattern)
        rate = metric.rate(self.value(metric, host, pattern))
        line = min(peers.limit, peers.median * metric.far(self.plan.settings))
        return self.below_bound(metric, host, pattern) or rate < line

    def blamed(self, metric: Metric, cohort: str) -> tuple[str, ...]:
        """Return the patterns in which no single host of a cohort is to blame: too many are slow, or all."""
        if len(self.cohorts()[cohort]) < 2:
            return ()
        return tuple(pattern for pattern in PATTERNS if self.peers(metric, cohort, pattern).cohort_to_blame)

    def suspects(self, host: str) -> bool:
        """Tell whether another run of a host would say more about it."""
        cohort = self.cohort(host)
        return any(
            pattern not in self.blamed(metric, cohort) for metric in METRICS for pattern in self.missed(metric, host)
        )


def to_measure_again(results: Results) -> list[str]:
    """Return the hosts that a suspicion is about, and those that something of the moment kept from being measured."""
    figures, again = Figures(results), []
    for host in results.plan.open_hosts:
        made = results.of(host.name)
        if figures.runs[host.name]:
            if len(made) < results.plan.settings.repeats and figures.suspects(host.name):
                again.append(host.name)
        elif made and len(made) < _TRIES_TO_PLACE and (problem := made[-1].reading.problem) and problem.transient:
            again.append(host.name)
    return again
