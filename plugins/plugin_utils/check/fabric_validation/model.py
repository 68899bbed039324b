# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The runs of the gate as values: what was planned, what was run, and what the log of a run contains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ...probe.nccl_debug import NcclDebug
from ...probe.nccl_tests import NcclTest
from ..benchmark.plan import BenchmarkHost, BenchmarkPlan
from ..benchmark.problem import Problem
from ..benchmark.records import BenchmarkResults, RunRecord, SavedRuns
from .settings import FabricValidationSettings

# node: each host by itself. pair: two hosts. adapters: the same two, each GPU only with the one at the same place in
# the other host, so that all data goes over the adapters. rail: two hosts over one adapter. loop: one host over one of
# its adapters. all: every host of a SKU.
Phase = Literal["node", "pair", "adapters", "rail", "loop", "all"]
# ONE_RANK is the cause of a run that gives no figure because it has one rank. In ADAPTER_PHASES NVLink carries nothing.
ONE_RANK = "not-judged"
ADAPTER_PHASES: tuple[Phase, ...] = ("adapters", "rail", "loop")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHost(BenchmarkHost):
    """A host with its rack.

    Attributes:
        rack: its rack.
        hcas: its ports for GPU traffic (`mlx5_0:1`) by rail.
        leaves: the leaf switches that these are cabled to; empty without a cabling plan.
        rdma_offered: how many adapters its node offers.
    """

    rack: str = ""
    hcas: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    rdma_offered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(BenchmarkPlan[PlannedHost]):
    """The hosts and settings of the runs.

    Attributes:
        settings: settings of the gate.
        rdma_resource: what every pod of a run between hosts requests; empty: nothing.
        gang: the gang scheduler.
        adapter_runs: pairs are also run over their adapters alone. False for runs saved before this existed.
    """

    settings: FabricValidationSettings
    rdma_resource: str = ""
    gang: str = "native"
    adapter_runs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A run that is still to be made. `rail` is the number of the only adapter of each host that it uses."""

    phase: Phase
    hosts: tuple[str, ...]
    attempt: int = 1
    rail: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(RunRecord):
    """A run that was made. `hostnames` maps the hostname that ranks report to the host. `smallest` is in bytes."""

    name: str
    phase: Phase
    hosts: tuple[str, ...]
    rail: int | None = None
    exit_code: int | None = None
    hostnames: dict[str, str] = field(default_factory=dict)
    hcas: dict[str, tuple[str, ...]] = field(default_factory=dict)
    smallest: int = 0
    ranks: int = 0
    log: str = ""

    @property
    def key(self) -> Wanted:
        """The wanted run that this one fulfils."""
        return Wanted(phase=self.phase, hosts=self.hosts, attempt=self.attempt, rail=self.rail)


SavedObservation = SavedRuns[Plan, Record]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run with what its log contains.

    Attributes:
        record: the run.
        test: the output of nccl-tests.
        debug: the lines of NCCL_DEBUG.
        problem: why there is no figure to judge.
        locked_memory: `ulimit -l` in its pods by hostname, only for runs that failed.
    """

    record: Record
    test: NcclTest | None = None
    debug: NcclDebug | None = None
    problem: Problem | None = None
    locked_memory: dict[str, str] = field(default_factory=dict)

    @cached_property
    def machines(self) -> dict[str, tuple[str, ...]]:
        """By host, the hostnames that its ranks report."""
        found: dict[str, tuple[str, ...]] = {}
        for name, owner in self.record.hostnames.items():
            found[owner] = (*found.get(owner, ()), name)
        return found

    @property
    def value(self) -> float:
        """Bus bandwidth at the largest size in GB/s. Only defined without a problem."""
        if self.test is None:
            raise AssertionError("a run with a problem has no bandwidth")
        return self.test.largest.busbw_gbps

    @property
    def algorithm(self) -> str:
        """The algorithm at the largest size. Empty: NCCL did not log it."""
        if self.test is None or self.debug is None:
            return ""
        return self.debug.algorithm(self.test.largest.size)


@dataclass(frozen=True, kw_only=True)
class Results(BenchmarkResults[Plan, Run]):
    """The plan and all runs."""

    def of(self, phase: Phase, hosts: Iterable[str], rail: int | None = None) -> tuple[Run, ...]:
        """Return the runs of these hosts by attempt. The order of the hosts does not matter."""
        return self._by_place.get((phase, rail, frozenset(hosts)), ())

    def in_phase(self, phase: Phase) -> tuple[Run, ...]:
        """Return all runs of a phase."""
        return tuple(run for run in self.runs if run.record.phase == phase)

    def with_host(self, name: str, phases: Iterable[Phase]) -> tuple[Run, ...]:
        """Return the runs of these phases in which the host took part."""
        wanted = tuple(phases)
        return tuple(run for run in self._by_host.get(name, ()) if run.record.phase in wanted)

    def missing(self, wanted: Iterable[Wanted]) -> tuple[Wanted, ...]:
        """Return the wanted runs that were not made yet."""
        return tuple(want for want in wanted if want not in self._done)

    # A fleet has at least as many runs as hosts, and each host looks up its own, so they are indexed once.
    @cached_property
    def _by_place(self) -> dict[tuple[Phase, int | None, frozenset[str]], tuple[Run, ...]]:
        found: dict[tuple[Phase, int | None, frozenset[str]], list[Run]] = {}
        for run in sorted(self.runs, key=lambda run: run.record.attempt):
            place = (run.record.phase, run.record.rail, frozenset(run.record.hosts))
            found.setdefault(place, []).append(run)
        return {place: tuple(runs) for place, runs in found.items()}

    @cached_property
    def _by_host(self) -> dict[str, list[Run]]:
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            for name in dict.fromkeys(run.record.hosts):
                found.setdefault(name, []).append(run)
        return found

    @cached_property
    def _done(self) -> frozenset[Wanted]:
        return frozenset(run.record.key for run in self.runs)
