# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs test jobs from creation to removal: several at a time, never two on one node, each followed to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import ConflictError, ForbiddenError, RefusedError
from ..clients.kube.objects import PODS, SERVICES, Kind
from ..outcome.errors import BringupError, InputError, NotFoundError
from ..runtime.clock import Deadline, now_utc
from ..runtime.pool import map_bounded
from ..runtime.progress import Emit, Progress, silent
from .follow import (
    Ending,
    ObservedJob,
    all_run,
    ending_of,
    hostname_of,
    index_of,
    node_of,
    order_of,
    phase_of,
    progress_of,
    role_of,
    suspended,
    termination_of,
    told_refusal,
)
from .job import JobKind, JobResult, JobSpec, JobState, PodResult, PodRole
from .manifests import JOB_LABEL, access_objects, domain_objects, job_objects
from .namespace import GROUPS, MAKERS, TemporaryNamespace, temporary_namespace, where_they_are
from .nodes import NodeWatch, Toleration
from .pods import PodView, explained, preempted_pods, unmade, warning_events, whole_log
from .queue import queue_for

Json = dict[str, Any]
_LOG_S = 20.0
_WORKERS = 8
# How much of a pod's log is read: a base, and an addition for every rank whose output it may hold. With NCCL's
# lines (NCCL_DEBUG=INFO) a rank of a healthy run writes some tens of kB.
_LOG_BYTES, _LOG_BYTES_OF_RANK = 32 << 20, 64 << 10
# Time for pods to go: longer than their grace period and what a kubelet needs to release devices.
_CLEAR_S = 120.0
# Addition for every pod, whose deletion is one request and one update of the cluster's state.
_CLEAR_ONE_S = 0.1


@dataclass(slots=True)
class RunningJob:
    """A job from its creation until all of its objects are removed."""

    spec: JobSpec
    cluster: Cluster
    namespace: TemporaryNamespace
    started: str = field(default_factory=now_utc)
    began_at: float = field(default_factory=time.monotonic)
    pods: Sequence[Json] = ()
    result: JobResult | None = None
    _made: list[tuple[Kind, str]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _made_s: float = 0.0
    _first_end_at: float = 0.0
    _gone_at: float = 0.0
    _running_at: float | None = None
    _cleared: Deadline | None = None
    _away_before_s: float = 0.0

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.began_at

    def create(self) -> None:
        """Create its objects. A refusal is a result of the job, not an error.

        Raises:
            BringupError: the API server does not answer.
        """
        # The clock starts here: this job may be the last of many that are started together.
        self.started, self.began_at = now_utc(), time.monotonic()
        self._away_before_s = self.cluster.transport.outage.away_s
        try:
            for body in job_objects(self.spec, self.namespace):
                obj = self.namespace.prepared(body)
                kind = self.cluster.kind(obj["apiVersion"], obj["kind"])
                made = self.cluster.create(kind, obj, self.namespace.name)
                self._made.append((kind, obj["metadata"]["name"]))
                if not self.namespace.cluster_queue and (why := suspended(made)):
                    self.end(Ending("refused", why))
                    return
        except (RefusedError, ForbiddenError, NotFoundError, ConflictError) as error:
            self.end(Ending("refused", told_refusal(f"{error.subject}: {error.reason}")))

    def look(self, pods: Sequence[Json], refusals: Sequence[str], lost: Mapping[str, str]) -> None:
        """Record an observation, and end the job if that decides it."""
        self.pods = sorted(pods, key=order_of)
        names = {pod["metadata"]["name"] for pod in pods}
        gone = sorted(self._seen - names)
        self._seen |= names
        if gone and not self._gone_at:
            self._gone_at = time.monotonic()
        self._made_s = self._made_s or (self.age_s if names else 0.0)
        if not self._first_end_at and any(phase_of(pod) in ("Succeeded", "Failed") for pod in pods):
            self._first_end_at = time.monotonic()
        if self._running_at is None and all_run(self.spec, pods):
            self._running_at = time.monotonic()
        running_s = None if self._running_at is None else time.monotonic() - self._running_at
        ended_s = time.monotonic() - self._first_end_at if self._first_end_at else 0.0
        observed = ObservedJob(
            pods=self.pods,
            refusals=refusals,
            lost_nodes=lost,
            age_s=self.age_s,
            made_s=self._made_s,
            running_s=running_s,
            ended_s=ended_s,
            gone=gone,
            gone_s=time.monotonic() - self._gone_at if gone else 0.0,
            preempted=preempted_pods(self.cluster, self.namespace.name) if gone else {},
            away_s=self.cluster.transport.outage.away_s - self._away_before_s,
        )
        ending = ending_of(self.spec, observed)
        if ending:
            self.end(explained(self.namespace, self.spec.name, observed, ending))

    def end(self, ending: Ending) -> None:
        """Read its logs, write its result and start its removal."""
        duration_s = self.age_s
        pods = tuple(map_bounded(self._pod_result, list(self.pods), _WORKERS))
        reason = "; ".join(text for text in (ending.reason, _unread(pods)) if text)
        self.result = JobResult(
            name=self.spec.name, state=ending.state, reason=reason, pods=pods, started=self.started,
            duration_s=duration_s, nodes=self.spec.nodes,
        )  # fmt: skip
        self._cleared = Deadline.after(_CLEAR_S + _CLEAR_ONE_S * len(self.pods))
        groups = [(kind, name) for kind, name in self._made if kind.kind == "PodGroup"]
        # Objects that make pods go first, or they would make new ones. A pod group may not go before its members.
        for kind, name in self._made:
            if (kind, name) not in groups:
                self._delete(kind, name)
        self._remove(self.pods)
        self._made = groups

    def cleared(self, pods: Sequence[Json]) -> bool:
        """Tell whether its nodes are free again. A pod that still exists may hold its GPUs."""
        self._remove([pod for pod in pods if not pod["metadata"].get("deletionTimestamp")])
        if pods:
            return False
        for kind, name in self._made:
            self._delete(kind, name)
        self._made = []
        return True

    @property
    def overdue(self) -> bool:
        """Whether the time for its pods to go is over."""
        return self._cleared is not None and self._cleared.left_s <= 0

    def _remove(self, pods: Sequence[Json]) -> None:
        map_bounded(lambda pod: self._delete(PODS, pod["metadata"]["name"]), list(pods), _WORKERS)

    def _delete(self, kind: Kind, name: str) -> None:
        try:
            self.cluster.delete(kind, name, self.namespace.name, timeout_s=_LOG_S)
        except BringupError as error:
            # The namespace's removal at the end deletes it too, and reports it if that fails.
            self.namespace.emit(f"{kind.title} {name}: {error.reason}")

    def _pod_result(self, pod: Json) -> PodResult:
        code, word = termination_of(pod)
        log, problem = self._log(pod) if node_of(pod) else ("", "never on a node")
        return PodResult(
            name=pod["metadata"]["name"], node=node_of(pod), hostname=hostname_of(pod), exit_code=code, log=log,
            role=role_of(pod), reason=word, problem=problem, index=index_of(pod),
        )  # fmt: skip

    def _log(self, pod: Json) -> tuple[str, str]:
        """Return the log of a pod and why it could not be read to its end."""
        path = PODS.path(pod["metadata"]["name"], self.namespace.name, "log")
        most_bytes = _LOG_BYTES + _LOG_BYTES_OF_RANK * self.spec.ranks
        transport = self.cluster.transport

        def read(lines: int) -> str:
            query: dict[str, str | int | bool] = {"tailLines": lines} if lines else {}
            return transport.text("GET", path, query=query, timeout_s=_LOG_S, patient=False, most_bytes=most_bytes)

        return whole_log(read, transport.outage, pod)


def _unread(pods: Sequence[PodResult]) -> str:
    """Return how many logs could not be read, with the pod and the reason of the first."""
    lost = [pod for pod in pods if pod.problem and pod.node]
    if not lost:
        return ""
    more = f", nor those of {len(lost) - 1} other pods" if len(lost) > 1 else ""
    return f"the log of pod {lost[0].name} on {lost[0].node} could not be read ({lost[0].problem.rstrip('.')}){more}"


# Runs test jobs: several at a time, never two on one node, each followed to its end and removed.

__all__ = ["JobKind", "JobResult", "JobSpec", "JobState", "PodResult", "PodRole", "job_namespace", "run_jobs"]

_POLL_S = 0.4
# A change of a pod ends a pause at once. What no pod reports (a lost node, a time limit) is noticed at its end.
_POLL_MOST_S = 5.0
# Jobs that are created, ended or removed in parallel; each takes some requests in sequence.
_AT_ONCE = 8


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
    """Yield a namespace for jobs, as temporary_namespace does. Everything in it is removed, however the block ends."""
    settings: dict[str, Any] = {"prefix": prefix, "priority": priority, "cleanup_s": cleanup_s, "emit": emit}
    # These jobs lock memory for adapters and GPUs (IPC_LOCK), and share directories with daemons of the host.
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
    """Run jobs and return their results in the order of the specs. A job that fails does not stop the others.

    Args:
        cluster: the cluster.
        namespace: namespace of the run, from job_namespace.
        specs: the jobs; those that share a node run one after the other.
        parallel: how many may run at once.
        progress: gets the progress lines.
        deadline: end of the whole run; jobs that are not done then are `aborted`.
        on_result: is called with each result as soon as there is one.

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
    """Create the ComputeDomain of the namespace, once. It is removed with the namespace."""
    (domain,) = domain_objects(namespace)
    if not cluster.find_all(cluster.kind(domain["apiVersion"], domain["kind"]), namespace.name):
        namespace.create([domain])


def with_queues(cluster: Cluster, specs: Sequence[JobSpec]) -> list[JobSpec]:
    """Return the jobs, each with the queue that its gang scheduler uses.

    Raises:
        InputError: the scheduler has no queue that the jobs may use.
    """
    chosen = {pair: queue_for(cluster, *pair) for pair in {(spec.gang, spec.queue) for spec in specs}}
    for (gang, _stated), choice in chosen.items():
        if choice.cause:
            raise InputError(f"queue of {gang}", f"{choice.reason}.", choice.hint)
    return [replace(spec, queue=chosen[spec.gang, spec.queue].name) for spec in specs]


@dataclass(slots=True)
class _JobQueue:
    """The jobs by state: waiting for their nodes, running, leaving their nodes, done."""

    cluster: Cluster
    namespace: TemporaryNamespace
    waiting: list[JobSpec]
    parallel: int
    on_result: Callable[[JobResult], None] | None = None
    running: list[RunningJob] = field(default_factory=list)
    clearing: list[RunningJob] = field(default_factory=list)
    results: dict[str, JobResult] = field(default_factory=dict)
    # Nodes whose pods did not go in time, with what is still there.
    blocked: dict[str, str] = field(default_factory=dict)
    nodes: NodeWatch = field(init=False)
    view: PodView = field(init=False)

    def __post_init__(self) -> None:
        self.nodes, self.view = NodeWatch(self.cluster), PodView(self.cluster, self.namespace.name)

    def step(self) -> bool:
        """Start jobs that fit, look at running ones, drop those that are gone. Return whether anything changed."""
        before = len(self.waiting), len(self.running), len(self.clearing)
        self._start()
        pods = self._pods()
        refusals = self._refusals(pods)
        lost = self.nodes.lost({node for job in self.running for node in job.spec.nodes})
        # Before other jobs end: their pods are removed at that moment, which this observation does not show yet.
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
        """Drop jobs that have left their nodes. A node that is not left in time gets no further job."""
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
        """End running and waiting jobs, because the time of the whole run is over."""
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
            # Waiting jobs reserve their nodes too, or a large job would wait forever.
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
        """Return by job why controllers could not make pods. Events are read only for jobs that lack some."""
        short = [j.spec.name for j in self.running if not j.result and len(pods.get(j.spec.name, ())) < j.spec.pods]
        return unmade(warning_events(self.cluster, self.namespace.name), short) if short else {}
