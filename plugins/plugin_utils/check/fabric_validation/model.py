# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The runs of the gate as values: what was planned, what was run, and what the log of a run says."""

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

# node: each host by itself. pair: two hosts. adapters: the same two, each GPU only with the one at its place in the
# other host, so that all data goes over the adapters. rail: two hosts over one adapter. loop: one host over one of its
# adapters. all: every host of a SKU.
Phase = Literal["node", "pair", "adapters", "rail", "loop", "all"]
# Runs in which NVLink carries nothing.
# The cause of a run that gives no figure because it has one rank.
ONE_RANK = "not-judged"
ADAPTER_PHASES: tuple[Phase, ...] = ("adapters", "rail", "loop")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHost(BenchmarkHost):
    """A host with its rack, its ports for GPU traffic (`mlx5_0:1`) by rail, the leaf switches that these hang on where
    a cabling plan says it, and how many adapters its node offers."""

    rack: str = ""
    hcas: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    rdma_offered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(BenchmarkPlan[PlannedHost]):
    """`rdma_resource` is what every pod of a run between hosts asks for, empty for nothing. `adapter_runs`: pairs are
    also run over their adapters alone; runs that were saved before there were such have none."""

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
    """A run that was made. `hostnames` maps what ranks call their machine to the host; `smallest` is in bytes."""

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
        """The wanted run that it answers."""
        return Wanted(phase=self.phase, hosts=self.hosts, attempt=self.attempt, rail=self.rail)


SavedObservation = SavedRuns[Plan, Record]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run with what its log says; `problem` where that is no figure to judge. `locked_memory` is what `ulimit -l`
    said in its pods, by what they call their machine; only of runs that failed."""

    record: Record
    test: NcclTest | None = None
    debug: NcclDebug | None = None
    problem: Problem | None = None
    locked_memory: dict[str, str] = field(default_factory=dict)

    @cached_property
    def machines(self) -> dict[str, tuple[str, ...]]:
        """By host what its ranks call their machine."""
        found: dict[str, tuple[str, ...]] = {}
        for name, owner in self.record.hostnames.items():
            found[owner] = (*found.get(owner, ()), name)
        return found

    @property
    def value(self) -> float:
        """Bus bandwidth at the largest size, GB/s; only without a problem."""
        if self.test is None:
            raise AssertionError("a run with a problem has no bandwidth")
        return self.test.largest.busbw_gbps

    @property
    def algorithm(self) -> str:
        """The algorithm at the largest size, empty if NCCL did not say."""
        if self.test is None or self.debug is None:
            return ""
        return self.debug.algorithm(self.test.largest.size)


@dataclass(frozen=True, kw_only=True)
class Results(BenchmarkResults[Plan, Run]):
    """Plan and runs, with the questions that the analysis asks of them."""

    def of(self, phase: Phase, hosts: Iterable[str], rail: int | None = None) -> tuple[Run, ...]:
        """Return the runs of these hosts, in any order of the hosts, first attempts first."""
        return self._by_place.get((phase, rail, frozenset(hosts)), ())

    def in_phase(self, phase: Phase) -> tuple[Run, ...]:
        """Return all runs of a phase."""
        return tuple(run for run in self.runs if run.record.phase == phase)

    def with_host(self, name: str, phases: Iterable[Phase]) -> tuple[Run, ...]:
        """Return the runs of these phases in which the host took part."""
        wanted = tuple(phases)
        return tuple(run for run in self._by_host.get(name, ()) if run.record.phase in wanted)

    def missing(self, wanted: Iterable[Wanted]) -> tuple[Wanted, ...]:
        """Return those that were not run yet."""
        return tuple(want for want in wanted if want not in self._done)

    # A fleet has as many runs as hosts and more, and each host asks for its own: the runs are gone through once.
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
