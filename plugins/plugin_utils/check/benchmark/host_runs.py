# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Benchmarks that run on one host at a time: their records, their results and what they have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from ...clients.kube.cluster import Cluster
from ...hardware.sku import Sku
from ...site.model import Host
from ...workload.capacity import NodeCapacity
from ...workload.job import JobResult, JobSpec
from .plan import BenchmarkHost, BenchmarkPlan, placement, planned_hosts
from .records import BenchmarkResults, RunRecord, ended
from .run_loop import Benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord(RunRecord):
    """One run on one host."""

    name: str
    host: str
    log: str = ""


class HostRun(Protocol):
    """A run with what its log contains."""

    @property
    def record(self) -> HostRecord:
        """How it ended."""


PlanT = TypeVar("PlanT", bound=BenchmarkPlan[BenchmarkHost])
HostRunT = TypeVar("HostRunT", bound=HostRun)


@dataclass(frozen=True, kw_only=True)
class HostResults(BenchmarkResults[PlanT, HostRunT]):
    """The plan and all runs."""

    def of(self, host: str) -> tuple[HostRunT, ...]:
        """Return the runs of a host, first attempts first."""
        return self._by_host.get(host, ())

    @cached_property
    def _by_host(self) -> dict[str, tuple[HostRunT, ...]]:
        found: dict[str, list[HostRunT]] = {}
        for run in sorted(self.runs, key=lambda run: run.record.attempt):
            found.setdefault(run.record.host, []).append(run)
        return {host: tuple(runs) for host, runs in found.items()}


class HostBenchmark(Benchmark[PlanT, str, HostRunT]):
    """A benchmark of single hosts. Each run is identified by the name of its host."""

    def hosts(self, cluster: Cluster) -> tuple[BenchmarkHost, ...]:
        """Return the hosts in scope. Those whose GPUs are not free are marked closed."""

        def planned(host: Host, sku: Sku, capacity: NodeCapacity) -> BenchmarkHost:
            return BenchmarkHost(**placement(host, sku, capacity))

        return planned_hosts(cluster, self.context, planned)

    def attempt(self, host: str) -> int:
        """Return the attempt number of the next run of a host, from 1."""
        return sum(run.record.host == host for run in self.runs) + 1

    def job_name(self, program: str, want: str) -> str:
        """Return a name for the next job of a host."""
        return f"{program}-{[host.name for host in self.plan.hosts].index(want) + 1}-{self.attempt(want)}"

    def read(self, want: str, spec: JobSpec, result: JobResult) -> HostRunT:
        """Save the log of a job and return the run as parsed from it."""
        kept = self.evidence.keep(f"{spec.name}.log", result.log)
        record = HostRecord(
            **ended(result, self.command(spec)), name=spec.name, host=want, attempt=self.attempt(want), log=kept.path
        )
        return self.run_of(record, kept.text)

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """Return the command as it is written to the record."""
        return spec.command

    @abstractmethod
    def run_of(self, record: HostRecord, log: str) -> HostRunT:
        """Return a run with what its log contains."""
