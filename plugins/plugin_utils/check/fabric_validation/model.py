# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The runs of the gate as values: what was planned, what was run, and what a log of it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...probe.nccl_debug_model import NcclDebug
from ...probe.nccl_tests_model import NcclTest
from .rules import Rules

# node: each host by itself. pair: two hosts. rail: two hosts over one adapter. all: every host of a kind.
Phase = Literal["node", "pair", "rail", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHost:
    """One host in scope: its node, and why no pod can be placed there (empty if one can)."""

    name: str
    node: str
    sku: str
    rack: str = ""
    hcas: tuple[str, ...] = ()
    rdma_offered: int = 0
    closed: str = ""
    by_dra: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the runs go by. `rdma_resource` is what every pod of a run between hosts asks for, empty for nothing."""

    hosts: tuple[PlannedHost, ...]
    rules: Rules
    rdma_resource: str = ""
    gang: str = "native"
    schema_version: int = 1

    def host(self, name: str) -> PlannedHost:
        """Return the host of that name."""
        return next(host for host in self.hosts if host.name == name)

    @property
    def skus(self) -> tuple[str, ...]:
        """The cohorts of hosts, each once."""
        return tuple(dict.fromkeys(host.sku for host in self.hosts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A run that is still to be made. `rail` is the number of the only adapter that it uses."""

    phase: Phase
    hosts: tuple[str, ...]
    attempt: int = 1
    rail: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run that was made: as it was launched and ended. `hostnames` maps what ranks call their machine to the host."""

    name: str
    phase: Phase
    hosts: tuple[str, ...]
    attempt: int
    state: str
    reason: str
    rail: int | None = None
    exit_code: int | None = None
    hostnames: dict[str, str] = field(default_factory=dict)
    hcas: dict[str, tuple[str, ...]] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    smallest: int = 0
    ranks: int = 0
    log: str = ""
    started: str = ""
    duration_s: float = 0.0

    @property
    def key(self) -> Wanted:
        """What it was wanted as."""
        return Wanted(phase=self.phase, hosts=self.hosts, attempt=self.attempt, rail=self.rail)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedObservation:
    """What is saved: the plan, the runs, and what could not be removed afterwards."""

    plan: Plan
    records: tuple[Record, ...] = ()
    leftovers: tuple[str, ...] = ()
    schema_version: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a run gives no figure. `cause` is a slug; `bad` tells a wrong result from one that is not known."""

    cause: str
    text: str
    bad: bool = False

    @property
    def passing(self) -> bool:
        """Whether it says something about the moment and nothing about the hosts: worth another try."""
        return self.cause in ("launch-unschedulable", "launch-preempted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with what its log says; `problem` where that is no figure to judge."""

    record: Record
    test: NcclTest | None = None
    debug: NcclDebug | None = None
    problem: Problem | None = None

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Plan and runs, as the judges need them."""

    plan: Plan
    runs: tuple[Run, ...] = ()
    leftovers: tuple[str, ...] = ()

    def of(self, phase: Phase, hosts: Iterable[str], rail: int | None = None) -> tuple[Run, ...]:
        """Return the runs of these hosts, in whichever order they stand, first attempts first."""
        names = frozenset(hosts)
        same = [
            run
            for run in self.runs
            if run.record.phase == phase and run.record.rail == rail and frozenset(run.record.hosts) == names
        ]
        return tuple(sorted(same, key=lambda run: run.record.attempt))

    def in_phase(self, phase: Phase) -> tuple[Run, ...]:
        """Return all runs of a phase."""
        return tuple(run for run in self.runs if run.record.phase == phase)

    def with_host(self, name: str, phases: Iterable[Phase]) -> tuple[Run, ...]:
        """Return the runs of these phases in which the host took part."""
        wanted = tuple(phases)
        return tuple(run for run in self.runs if run.record.phase in wanted and name in run.record.hosts)

    def missing(self, wanted: Iterable[Wanted]) -> tuple[Wanted, ...]:
        """Return those that were not run yet."""
        done: Mapping[Wanted, None] = dict.fromkeys(run.record.key for run in self.runs)
        return tuple(want for want in wanted if want not in done)
