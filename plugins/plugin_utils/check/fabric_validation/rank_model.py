# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ranks of one Job that look for each other, as values: what was planned, what was run, what every rank observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ...outcome.errors import InputError
from ...probe.rank_log import RankSeen, parse
from ..benchmark.plan import BenchmarkHost, BenchmarkPlan
from ..benchmark.problem import Problem, launch_problem
from ..benchmark.records import BenchmarkResults, RunRecord, SavedRuns
from ..kit.settings import setting

CHECK_ID = "job-networking"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkingSettings:
    """Settings of check job-networking."""

    image: str = setting("Image of the test's pods, any with Python 3.9 or newer as python3.", use="run")
    port: int = setting(
        "Port by which the ranks answer each other, on every address of their pods.",
        default=29400,
        minimum=1024,
        use="run",
    )
    peers: int = setting(
        "Most ranks that each of them looks for; of more, those at the distances 1, 2, 4 and so on.",
        default=16,
        minimum=1,
        use="run",
    )
    meet_s: float = setting(
        "How long names and peers may take to be there.", default=90.0, unit="s", above=0, use="run"
    )
    timeout_s: float = setting(
        "Longest time of the test, from when all of its pods run.", default=300.0, unit="s", above=0, use="run"
    )
    pull_s: float = setting(
        "How long its pods may take to start once they have a node.", default=600.0, unit="s", above=0, use="run"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankHost(BenchmarkHost):
    """A host with the adapters whose interfaces are tested if pods use the network of the host."""

    devices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan(BenchmarkPlan[RankHost]):
    """The hosts and settings of the runs.

    Attributes:
        settings: settings of the check.
        resource: what pods request to get adapters; empty: nothing.
        networks: how many further networks the annotations give the pods.
    """

    settings: NetworkingSettings
    resource: str = ""
    networks: int = 0

    @cached_property
    def without_adapters(self) -> frozenset[str]:
        """The hosts whose nodes offer no adapters although others do."""
        return frozenset(host.name for host in self.hosts if self.resource and not host.asks and not host.closed)

    def together(self, sku: str) -> tuple[RankHost, ...]:
        """Return the hosts of a SKU that are run as one Job."""
        return self._together.get(sku, ())

    @cached_property
    def _together(self) -> dict[str, tuple[RankHost, ...]]:
        found: dict[str, list[RankHost]] = {}
        for host in self.hosts:
            if not host.closed and host.name not in self.without_adapters:
                found.setdefault(host.sku, []).append(host)
        return {sku: tuple(hosts) for sku, hosts in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(RunRecord):
    """One Job over hosts of a SKU.

    `places` is the rank of each host that got a pod; `log` is the path of their logs.
    """

    name: str
    sku: str
    hosts: tuple[str, ...]
    places: Mapping[str, int] = field(default_factory=dict)
    log: str = ""


SavedObservation = SavedRuns[Plan, Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with what each host's rank observed. `problem` is why none of it can be judged."""

    record: Record
    seen: Mapping[str, RankSeen] = field(default_factory=dict)
    problem: Problem | None = None


@dataclass(frozen=True, kw_only=True)
class Results(BenchmarkResults[Plan, Run]):
    """The plan and all runs."""

    def last(self, sku: str) -> Run | None:
        """Return the last run over hosts of a SKU. None: there is none."""
        runs = [run for run in self.runs if run.record.sku == sku]
        return max(runs, key=lambda run: run.record.attempt, default=None)


def read_run(record: Record, log: str, _settings: NetworkingSettings) -> Run:
    """Return a run with what its log contains."""
    problem = launch_problem(record.state, record.reason)
    if problem is not None:
        return Run(record=record, problem=Problem(*problem))
    try:
        ranks = parse(log)
    except InputError as error:
        return Run(record=record, problem=Problem("no-output", f"{error.subject} {error.reason}"))
    if any(rank.ranks != len(record.hosts) for rank in ranks.values()):
        return Run(record=record, problem=Problem("no-output", f"the log is not of {len(record.hosts)} ranks"))
    observed = {host: ranks[place] for host, place in record.places.items() if place in ranks}
    if not observed:
        reported = f"no rank came to its end ({record.state}): {record.reason}"
        return Run(record=record, problem=Problem("no-output", reported[:400]))
    return Run(record=record, seen=observed)
