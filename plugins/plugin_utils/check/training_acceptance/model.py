# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The runs of the gate as values: what was planned, what was run, and what the logs of a run contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ...probe.training_log import PodLog, RankLog
from ..benchmark.plan import BenchmarkHost, BenchmarkPlan
from ..benchmark.problem import Problem
from ..benchmark.records import BenchmarkResults, RunRecord, SavedRuns
from .settings import Shape, TrainingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedHost(BenchmarkHost):
    """A host with its ports for GPU traffic (`mlx5_0:1`)."""

    hcas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(BenchmarkPlan[PlannedHost]):
    """What the runs depend on. `shapes` has the model of every SKU."""

    settings: TrainingSettings
    shapes: dict[str, Shape]
    rdma_resource: str = ""
    rdma_count: int = 1
    gang: str = "native"
    annotations: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """One pod of a run.

    Attributes:
        host: its host; empty: it was not scheduled.
        node: its node; empty: it was not scheduled.
        index: its number in the run.
        exit_code: None: not known.
        reason: why it ended.
        log: path of its log in the run directory.
    """

    host: str
    node: str
    index: int
    exit_code: int | None
    reason: str = ""
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(RunRecord):
    """A run over all open hosts of a SKU. `gpus` is the number of GPUs of each host."""

    name: str
    sku: str
    hosts: tuple[str, ...]
    gpus: int
    pods: tuple[PodRecord, ...]

    @property
    def world(self) -> int:
        """Number of ranks that it should have."""
        return len(self.hosts) * self.gpus


SavedObservation = SavedRuns[Plan, Record]


@dataclass(frozen=True, slots=True)
class HostProblem(Problem):
    """Why hosts give no figures.

    Args:
        check: the check that reports it; all others only refer to it.
        hosts: those to blame; all hosts of the run if none can be named.
        gpus: the GPUs to blame, if known (`gpu01/gpu3`).
        partial: the hosts that are not to blame completed the run.
    """

    check: str = ""
    hosts: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank and the host that it ran on."""

    host: str
    log: RankLog

    @property
    def gpu(self) -> str:
        """The GPU that it used, as the name of a subject."""
        return f"{self.host}/gpu{self.log.local_rank}"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run with what its logs contain: the ranks of hosts without a problem, and the problem if there is one.

    `pods` has the log of every host whose log is readable.
    """

    record: Record
    ranks: tuple[Rank, ...] = ()
    problem: HostProblem | None = None
    pods: Mapping[str, PodLog] = field(default_factory=dict)

    def ranks_of(self, host: str) -> tuple[Rank, ...]:
        """Return the ranks of a host."""
        return tuple(self._ranks_by_host.get(host, ()))

    def pods_of(self, host: str) -> tuple[PodRecord, ...]:
        """Return the pods of a host."""
        return tuple(self._pods_by_host.get(host, ()))

    @cached_property
    def _ranks_by_host(self) -> dict[str, list[Rank]]:
        found: dict[str, list[Rank]] = {}
        for rank in self.ranks:
            found.setdefault(rank.host, []).append(rank)
        return found

    @cached_property
    def _pods_by_host(self) -> dict[str, list[PodRecord]]:
        found: dict[str, list[PodRecord]] = {}
        for pod in self.record.pods:
            found.setdefault(pod.host, []).append(pod)
        return found

    @property
    def met(self) -> bool:
        """Whether all ranks of all hosts ran at the same time, by their own lines."""
        found = [
            len([log for log in self.pods[h].ranks if log.setup]) if h in self.pods else 0 for h in self.record.hosts
        ]
        return bool(found) and all(count == self.record.gpus for count in found)

    @property
    def complete(self) -> bool:
        """Whether it has figures to judge."""
        return (self.problem is None or self.problem.partial) and bool(self.ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(BenchmarkResults[Plan, Run]):
    """The plan and all runs."""

    def of(self, sku: str) -> tuple[Run, ...]:
        """Return the runs over the hosts of a SKU by attempt."""
        return tuple(sorted((r for r in self.runs if r.record.sku == sku), key=lambda run: run.record.attempt))
