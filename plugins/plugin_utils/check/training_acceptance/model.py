# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The runs of the gate as values: what was planned, what was run, and what the logs of it say."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...probe.training_log import RankLog
from .rules import Rules, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHost:
    """One host in scope: its node, and why no pod can be placed there (empty if one can)."""

    name: str
    node: str
    sku: str
    hcas: tuple[str, ...] = ()
    closed: str = ""
    by_dra: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the runs go by; `shapes` has the model of every SKU."""

    hosts: tuple[PlannedHost, ...]
    rules: Rules
    shapes: dict[str, Shape]
    rdma_resource: str = ""
    rdma_count: int = 1
    gang: str = "native"
    annotations: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    schema_version: int = 1

    @property
    def skus(self) -> tuple[str, ...]:
        """The cohorts of hosts, each once."""
        return tuple(dict.fromkeys(host.sku for host in self.hosts))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """One pod of a run: its host and node (empty: it got none), its place in the run, how it ended, its log."""

    host: str
    node: str
    index: int
    exit_code: int | None
    reason: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run that was made, over all hosts of a SKU: as it was launched and ended."""

    name: str
    sku: str
    hosts: tuple[str, ...]
    attempt: int
    gpus: int
    state: str
    reason: str
    pods: tuple[PodRecord, ...]
    command: tuple[str, ...] = ()
    started: str = ""
    duration_s: float = 0.0

    @property
    def world(self) -> int:
        """How many ranks it should have."""
        return len(self.hosts) * self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedObservation:
    """What is saved: the plan, the runs, and what could not be removed afterwards."""

    plan: Plan
    records: tuple[Record, ...] = ()
    leftovers: tuple[str, ...] = ()
    schema_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why hosts give no figures.

    Args:
        cause: slug.
        text: in a sentence.
        check: the check that reports it; all others only refer to it.
        hosts: who is to blame; all where nobody can be named.
        gpus: the GPUs that are, where that is known (`gpu01/gpu3`).
        bad: observed and bad, not merely unknown.
        partial: hosts that are not to blame did everything that they should.
    """

    cause: str
    text: str
    check: str
    hosts: tuple[str, ...]
    gpus: tuple[str, ...] = ()
    bad: bool = False
    partial: bool = False

    @property
    def passing(self) -> bool:
        """Whether it says something about the moment and nothing about the hosts: worth another try."""
        return self.cause in ("launch-unschedulable", "launch-preempted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank and the host that it ran on."""

    host: str
    log: RankLog

    @property
    def gpu(self) -> str:
        """The GPU it used, as subjects are called."""
        return f"{self.host}/gpu{self.log.local_rank}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with what its logs say: the ranks of hosts without a problem, and the problem if there is one."""

    record: Record
    ranks: tuple[Rank, ...] = ()
    problem: Problem | None = None

    @property
    def complete(self) -> bool:
        """Whether it has figures to judge."""
        return (self.problem is None or self.problem.partial) and bool(self.ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Plan and runs, as the judges need them."""

    plan: Plan
    runs: tuple[Run, ...] = ()
    leftovers: tuple[str, ...] = ()

    def of(self, sku: str) -> tuple[Run, ...]:
        """Return the runs over the hosts of a SKU, first attempts first."""
        return tuple(sorted((r for r in self.runs if r.record.sku == sku), key=lambda run: run.record.attempt))
