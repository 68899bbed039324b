# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The run loop of a benchmark: plan, check permissions, run until no question is left, remove everything.

A gate subclasses Benchmark and defines what it plans, which runs come next, which job a run is, and how the result of a
job is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.permission import Permission
from ...component_stack.facts import stack_facts
from ...outcome.errors import InputError
from ...runtime.clock import Deadline
from ...runtime.interrupt import interruptible
from ...runtime.progress import Progress
from ...workload.job import JobResult, JobSpec
from ...workload.jobs import job_namespace, run_jobs
from ...workload.namespace import BASIC, TemporaryNamespace, refuse_without
from ...workload.node_use import NodeUse
from ...workload.queue import PERMISSIONS as QUEUED
from ..kit.tolerations import cluster_queue_of, tolerations_of
from ..spec import ObserveContext
from .plan import BenchmarkHost, BenchmarkPlan
from .records import BenchmarkResults, EvidenceFolder
from .slurm import SlurmPlace

PlanT = TypeVar("PlanT", bound=BenchmarkPlan[BenchmarkHost])
WantT = TypeVar("WantT")
RunT = TypeVar("RunT")


class JobPlace(Protocol):
    """Where jobs run: as pods of a namespace, or as Slurm jobs."""

    @property
    def progress(self) -> Progress:
        """Where progress lines go."""

    def run(self, specs: Sequence[JobSpec], parallel: int) -> tuple[JobResult, ...]:
        """Return the result of every job, in the order of the specs."""


@dataclass(frozen=True, slots=True)
class Session:
    """What is open while runs are made: cluster, namespace of the pods, progress output and deadline."""

    cluster: Cluster
    namespace: TemporaryNamespace
    progress: Progress
    deadline: Deadline

    def run(self, specs: Sequence[JobSpec], parallel: int) -> tuple[JobResult, ...]:
        """Return the result of every job, in the order of the specs.

        Raises:
            InputError: two jobs have the same name, or the gang scheduler has no queue that may be used.
            BringupError: the cluster does not respond.
        """
        return run_jobs(self.cluster, self.namespace, specs, parallel, self.progress, self.deadline)


class Benchmark(ABC, Generic[PlanT, WantT, RunT]):
    """One observation of a benchmark gate.

    `name` is part of the name of its namespace. `total_s` limits all runs and `cleanup_s` the removal, both in seconds.
    `plan` is set before any other method is called.
    """

    gate: ClassVar[str]
    name: ClassVar[str]

    def __init__(self, context: ObserveContext, *, total_s: float, cleanup_s: float) -> None:
        self.context = context
        self.total_s = total_s
        self.cleanup_s = cleanup_s
        self.evidence = EvidenceFolder(context.run_dir, self.gate)
        self.runs: list[RunT] = []
        self.plan: PlanT

    @abstractmethod
    def make_plan(self, cluster: Cluster) -> PlanT:
        """Return which runs are planned on which hosts."""

    def plan_on_hosts(self, uses: Mapping[str, NodeUse]) -> PlanT:
        """Return which runs are planned on which hosts, at a Slurm site.

        Args:
            uses: by host, what occupies its node now.

        Raises:
            InputError: the runs need Kubernetes.
        """
        del uses
        raise InputError(f"gate {self.gate}", f"{self.name} is not run over Slurm.", "leave it out of gpufleet_gates")

    @abstractmethod
    def permissions(self) -> tuple[Permission, ...]:
        """Return what the planned runs need in addition to BASIC of workload.permission."""

    @abstractmethod
    def next_runs(self) -> Sequence[WantT]:
        """Return the runs of the next step, all of which may be made at once. Empty: everything is known."""

    @abstractmethod
    def job(self, want: WantT) -> JobSpec:
        """Return the job of a run."""

    @abstractmethod
    def read(self, want: WantT, spec: JobSpec, result: JobResult) -> RunT:
        """Save the logs of a run and return the run as parsed from them."""

    @abstractmethod
    def announce(self, wanted: Sequence[WantT]) -> str:
        """Return the progress line of a step."""

    def parallel(self, wanted: Sequence[WantT]) -> int:
        """Return how many jobs of a step may run at once."""
        return len(wanted)

    def make_runs(self, session: Session) -> None:
        """Make all runs. A gate overrides this to prepare something first."""
        self.run_until_known(session)

    def run_until_known(self, place: JobPlace) -> None:
        """Make runs, step by step, until there is no next one. After the deadline every run ends as `aborted`."""
        while wanted := self.next_runs():
            place.progress.say(self.announce(wanted))
            specs = [self.job(want) for want in wanted]
            results = place.run(specs, self.parallel(wanted))
            for want, spec, result in zip(wanted, specs, results, strict=True):
                self.runs.append(self.read(want, spec, result))

    def observe(self) -> BenchmarkResults[PlanT, RunT]:
        """Return the plan and all runs. If no host is open, no run is made.

        Raises:
            ForbiddenError: the user lacks a permission that the runs need.
            BringupError: the API server or Slurm does not respond, or the namespace of the runs is refused.
        """
        if self.context.site.orchestrator == "slurm":
            return self._observe_on_hosts()
        with Cluster(connection_from(self.context.connections)) as cluster:
            self.plan = self.make_plan(cluster)
            queued = QUEUED if cluster_queue_of(self.context) else ()
            refuse_without(cluster, (*BASIC, *self.permissions(), *queued), self.gate)
            if not self.plan.open_hosts:
                return BenchmarkResults(plan=self.plan)
            pods, emit = stack_facts().test_pods, self.context.emit
            with job_namespace(
                cluster, self.name, prefix=pods.namespace_prefix, priority=pods.priority, cleanup_s=self.cleanup_s,
                emit=emit, tolerations=tolerations_of(self.context), holder=self.context.holder,
                cluster_queue=cluster_queue_of(self.context),
            ) as namespace:  # fmt: skip
                self.make_runs(Session(cluster, namespace, Progress(emit), Deadline.after(self.total_s)))
            return BenchmarkResults(plan=self.plan, runs=tuple(self.runs), leftovers=tuple(namespace.leftovers))

    def _observe_on_hosts(self) -> BenchmarkResults[PlanT, RunT]:
        place = SlurmPlace.of(self.context, self.total_s)
        place.sweep()
        self.plan = self.plan_on_hosts(place.uses(self.cleanup_s))
        if self.plan.open_hosts:
            with interruptible(f"test {self.name}"):
                try:
                    self.run_until_known(place)
                finally:
                    place.close(self.cleanup_s)
        return BenchmarkResults(plan=self.plan, runs=tuple(self.runs), leftovers=tuple(place.leftovers))
