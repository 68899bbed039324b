# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs test jobs: several at a time, never two on one node, each followed to its end and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.kinds import SERVICES
from ..outcome.errors import InputError
from ..runtime.clock import Deadline
from ..runtime.pool import map_bounded
from ..runtime.progress import Emit, Progress, silent
from .follow import Ending, progress_of
from .job_words import JobKind, JobState, PodRole
from .manifests import JOB_LABEL, access_objects, domain_objects
from .model import (
    JobResult,
    JobSpec,
    PodResult,
)
from .namespace import GROUPS, MAKERS, TemporaryNamespace, temporary_namespace, where_they_are
from .nodes import NodeWatch
from .pod_view import PodView
from .queue import queue_for
from .refusals import unmade
from .running import RunningJob
from .tolerations import Toleration
from .warnings import warning_events

__all__ = ["JobKind", "JobResult", "JobSpec", "JobState", "PodResult", "PodRole", "job_namespace", "run_jobs"]

_POLL_S = 0.4
# A change of a pod ends a pause at once. What no pod tells (a node that is silent, a time limit) waits for its end.
_POLL_MOST_S = 5.0
# Jobs that are made, ended or removed at once: each is some requests one after the other.
_AT_ONCE = 8
Json = dict[str, Any]


@contextmanager
def job_namespace(
    cluster: Cluster,
    purpose: str,
    *,
    prefix: str,
    priority: int,
    cleanup_s: float = 60.0,
    emit: Emit = silent,
    tolerations: tuple[Toleration, ...] | None = None,
    holder: str = "",
    cluster_queue: str = "",
) -> Iterator[TemporaryNamespace]:
    """Yield a namespace for jobs, as temporary_namespace does: everything in it is removed on every way out."""
    settings: dict[str, Any] = {"prefix": prefix, "priority": priority, "cleanup_s": cleanup_s, "emit": emit}
    # Jobs that load adapters and GPUs lock memory (IPC_LOCK), and share directories with daemons of the host.
    settings |= {"tolerations": tolerations, "holder": holder, "pod_security": "privileged"}
    settings["cluster_queue"] = cluster_queue
    with temporary_namespace(cluster, purpose, kinds=GROUPS, makers=MAKERS, **settings) as namespace:
        yield namespace


def run_jobs(
    cluster: Cluster,
    namespace: TemporaryNamespace,
    specs: Sequence[JobSpec],
    parallel: int,
    progress: Progress,
    deadline: Deadline,
    on_result: Callable[[JobResult], None] | None = None,
) -> tuple[JobResult, ...]:
    """Return the result of every job, in the order of the specs; a job that fails does not stop the others.

    Args:
        cluster: where.
        namespace: namespace of the run, from job_namespace.
        specs: the jobs; those that share a node run one after the other.
        parallel: how many may run at once.
        progress: takes the progress lines.
        deadline: end of the whole run; what is not done then is `aborted`.
        on_result: is told each result as soon as there is one.

    Raises:
        InputError: two jobs have the same name, or a gang's scheduler has no queue that it may use.
        BringupError: the cluster does not answer.
    """
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise InputError("test jobs", f"names are not unique: {', '.join(names)}.", "give every job a name of its own")
    if any(spec.kind in ("gang-job", "torchrun", "ranks") for spec in specs) and not cluster.find_all(
        SERVICES, namespace.name
    ):
        namespace.create(access_objects(namespace))
    if any(spec.compute_domain for spec in specs):
        _share_memory(cluster, namespace)
    queue = _JobQueue(cluster, namespace, with_queues(cluster, specs), max(1, parallel), on_result)
    pause_s = _POLL_S
    while queue.waiting or queue.running or queue.clearing:
        if deadline.left_s <= 0:
            queue.abort()
            break
        moved = queue.step()
        progress.tick(queue.progress(len(specs)))
        pause_s = _POLL_S if moved else min(pause_s * 1.2, _POLL_MOST_S)
        if queue.waiting or queue.running or queue.clearing:
            queue.view.wait(min(pause_s, deadline.left_s))
    return tuple(queue.results[name] for name in names)


def _share_memory(cluster: Cluster, namespace: TemporaryNamespace) -> None:
    """Make the ComputeDomain of the namespace, once; it goes with the namespace."""
    (domain,) = domain_objects(namespace)
    if not cluster.find_all(cluster.kind(domain["apiVersion"], domain["kind"]), namespace.name):
        namespace.create([domain])


def with_queues(cluster: Cluster, specs: Sequence[JobSpec]) -> list[JobSpec]:
    """Return the jobs with the queue that their gang's scheduler has.

    Raises:
        InputError: it has none that they may use.
    """
    chosen = {pair: queue_for(cluster, *pair) for pair in {(spec.gang, spec.queue) for spec in specs}}
    for (gang, _stated), choice in chosen.items():
        if choice.cause:
            raise InputError(f"queue of {gang}", f"{choice.reason}.", choice.hint)
    return [replace(spec, queue=chosen[spec.gang, spec.queue].name) for spec in specs]


@dataclass(slots=True)
class _JobQueue:
    """The jobs by where they are: waiting for their nodes, running, leaving their nodes, done."""

    cluster: Cluster
    namespace: TemporaryNamespace
    waiting: list[JobSpec]
    parallel: int
    on_result: Callable[[JobResult], None] | None = None
    running: list[RunningJob] = field(default_factory=list)
    clearing: list[RunningJob] = field(default_factory=list)
    results: dict[str, JobResult] = field(default_factory=dict)
    # Nodes whose pods did not go in time, each with what is there.
    blocked: dict[str, str] = field(default_factory=dict)
    nodes: NodeWatch = field(init=False)
    view: PodView = field(init=False)

    def __post_init__(self) -> None:
        self.nodes, self.view = NodeWatch(self.cluster), PodView(self.cluster, self.namespace.name)

    def step(self) -> bool:
        """Start what fits, look at what runs, forget what is gone; return whether anything changed."""
        before = len(self.waiting), len(self.running), len(self.clearing)
        self._start()
        pods = self._pods()
        refusals = self._refusals(pods)
        lost = self.nodes.lost({node for job in self.running for node in job.spec.nodes})
        # Before others end: their pods are removed as they end, and this look does not show that yet.
        self._clear(pods)
        open_jobs = [job for job in self.running if job.result is None]
        map_bounded(
            lambda job: job.look(pods.get(job.spec.name, []), refusals.get(job.spec.name, ()), lost),
            open_jobs,
            _AT_ONCE,
        )
        for job in list(self.running):
            self._settle(job)
        return before != (len(self.waiting), len(self.running), len(self.clearing))

    def _clear(self, pods: Mapping[str, list[Json]]) -> None:
        """Forget what has left its nodes; nodes that are not left in time get no further job."""
        gone = map_bounded(lambda job: job.cleared(pods.get(job.spec.name, [])), self.clearing, _AT_ONCE)
        there = [job for job, is_gone in zip(self.clearing, gone, strict=True) if not is_gone]
        self.clearing = [job for job in there if not job.overdue]
        for pod in (pod for job in there if job.overdue for pod in pods.get(job.spec.name, [])):
            node = str((pod.get("spec") or {}).get("nodeName") or "")
            self.blocked[node] = where_they_are([pod])
        for spec in [spec for spec in self.waiting if not self.blocked.keys().isdisjoint(spec.nodes)]:
            kept = "; ".join(self.blocked[node] for node in spec.nodes if node in self.blocked)
            reason = f"never started: a pod of an earlier run does not go, so its GPUs are not free: {kept}"
            self.waiting.remove(spec)
            job = RunningJob(spec, self.cluster, self.namespace)
            job.end(Ending("aborted", reason))
            self._settle(job, known=False)

    def abort(self) -> None:
        """End what runs and what waits: the time of the whole run is over."""
        self.view.forget()
        pods = self._pods()
        map_bounded(lambda job: self._abort(job, pods.get(job.spec.name, [])), self.running, _AT_ONCE)
        for job in list(self.running):
            self._settle(job)
        for spec in self.waiting:
            job = RunningJob(spec, self.cluster, self.namespace)
            job.end(Ending("aborted", "never started: the time of the whole run was over"))
            self._settle(job, known=False)
        self.waiting, self.clearing = [], []

    def _abort(self, job: RunningJob, pods: Sequence[Json]) -> None:
        job.pods = pods
        job.end(Ending("aborted", f"the time of the whole run was over: {progress_of(pods)}"))

    def progress(self, total: int) -> str:
        failed = sum(result.state != "succeeded" for result in self.results.values())
        text = f"{self.namespace.name}: {len(self.results)} of {total} jobs done"
        if failed:
            text += f", {failed} not well"
        if self.running:
            job = self.running[0]
            text += f", {len(self.running)} running; {job.spec.name}: {progress_of(job.pods)}"
        return text

    def _settle(self, job: RunningJob, *, known: bool = True) -> None:
        if job.result is None:
            return
        self.results[job.spec.name] = job.result
        if known:
            self.running.remove(job)
            self.clearing.append(job)
        if self.on_result is not None:
            self.on_result(job.result)

    def _start(self) -> None:
        taken = {node for job in [*self.running, *self.clearing] for node in job.spec.nodes}
        now: list[RunningJob] = []
        for spec in list(self.waiting):
            if len(self.running) + len(now) >= self.parallel:
                break
            if taken.isdisjoint(spec.nodes):
                self.waiting.remove(spec)
                now.append(RunningJob(spec, self.cluster, self.namespace))
            # Also what has to wait holds its nodes, or a big job would wait for ever.
            taken |= set(spec.nodes)
        self.running += now
        map_bounded(lambda job: job.create(), now, _AT_ONCE)

    def _pods(self) -> dict[str, list[Json]]:
        found: dict[str, list[Json]] = {}
        for pod in self.view.pods():
            job = (pod["metadata"].get("labels") or {}).get(JOB_LABEL, "")
            found.setdefault(job, []).append(pod)
        return found

    def _refusals(self, pods: Mapping[str, list[Json]]) -> dict[str, list[str]]:
        """Return what kept controllers from making pods; asked only for jobs that lack some."""
        short = [j.spec.name for j in self.running if not j.result and len(pods.get(j.spec.name, ())) < j.spec.pods]
        return unmade(warning_events(self.cluster, self.namespace.name), short) if short else {}
