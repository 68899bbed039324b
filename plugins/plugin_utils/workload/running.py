# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One job from its creation to its removal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import ConflictError, ForbiddenError, RefusedError
from ..clients.kube.kinds import PODS, Kind
from ..outcome.errors import BringupError, NotFoundError
from ..runtime.clock import Deadline, now_utc
from ..runtime.pool import map_bounded
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
    role_of,
    termination_of,
)
from .held import explained
from .manifests import job_objects
from .model import JobResult, JobSpec, PodResult
from .namespace import TemporaryNamespace
from .pending import suspended, told_refusal
from .pod_logs import whole_log
from .preemptions import preempted_pods

Json = dict[str, Any]
_LOG_S = 20.0
_WORKERS = 8
# What is read of the log of one pod: so much, and so much more for every rank whose output it may hold. With NCCL's
# lines (NCCL_DEBUG=INFO) a rank of a healthy run writes some tens of kB.
_LOG_BYTES, _LOG_BYTES_OF_RANK = 32 << 20, 64 << 10
# Longer than the grace of its pods and what a kubelet needs to take devices back.
_CLEAR_S = 120.0
# And for every pod, which has to be asked for and to be taken from the cluster's record.
_CLEAR_ONE_S = 0.1


@dataclass(slots=True)
class RunningJob:
    """A job between its creation and the moment when nothing of it is left."""

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
        """Make its objects; a refusal is a result, not an error.

        Raises:
            BringupError: the API server does not answer.
        """
        # From now: of many that are started together it may be the last.
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
        """Take in what is seen of it now, and end it if that says so."""
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
        seen = ObservedJob(
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
        ending = ending_of(self.spec, seen)
        if ending:
            self.end(explained(self.namespace, self.spec.name, seen, ending))

    def end(self, ending: Ending) -> None:
        """Take its logs, write its result and start its removal."""
        duration_s = self.age_s
        pods = tuple(map_bounded(self._pod_result, list(self.pods), _WORKERS))
        reason = "; ".join(text for text in (ending.reason, _unread(pods)) if text)
        self.result = JobResult(
            name=self.spec.name, state=ending.state, reason=reason, pods=pods, started=self.started,
            duration_s=duration_s, nodes=self.spec.nodes,
        )  # fmt: skip
        self._cleared = Deadline.after(_CLEAR_S + _CLEAR_ONE_S * len(self.pods))
        groups = [(kind, name) for kind, name in self._made if kind.kind == "PodGroup"]
        # What makes pods first, or it would make them anew; a group may not go before its members.
        for kind, name in self._made:
            if (kind, name) not in groups:
                self._delete(kind, name)
        self._remove(self.pods)
        self._made = groups

    def cleared(self, pods: Sequence[Json]) -> bool:
        """Return whether its nodes are free again: a pod that is still there may have its GPUs."""
        self._remove([pod for pod in pods if not pod["metadata"].get("deletionTimestamp")])
        if pods:
            return False
        for kind, name in self._made:
            self._delete(kind, name)
        self._made = []
        return True

    @property
    def overdue(self) -> bool:
        """Whether its pods had their time to go."""
        return self._cleared is not None and self._cleared.left_s <= 0

    def _remove(self, pods: Sequence[Json]) -> None:
        map_bounded(lambda pod: self._delete(PODS, pod["metadata"]["name"]), list(pods), _WORKERS)

    def _delete(self, kind: Kind, name: str) -> None:
        try:
            self.cluster.delete(kind, name, self.namespace.name, timeout_s=_LOG_S)
        except BringupError as error:
            # The namespace removes it at the end, and says so if it cannot.
            self.namespace.emit(f"{kind.title} {name}: {error.reason}")

    def _pod_result(self, pod: Json) -> PodResult:
        code, word = termination_of(pod)
        log, problem = self._log(pod) if node_of(pod) else ("", "never on a node")
        return PodResult(
            name=pod["metadata"]["name"], node=node_of(pod), hostname=hostname_of(pod), exit_code=code, log=log,
            role=role_of(pod), reason=word, problem=problem, index=index_of(pod),
        )  # fmt: skip

    def _log(self, pod: Json) -> tuple[str, str]:
        """Return the log of a pod, and why it could not be read to its end."""
        path = PODS.path(pod["metadata"]["name"], self.namespace.name, "log")
        most_bytes = _LOG_BYTES + _LOG_BYTES_OF_RANK * self.spec.ranks
        transport = self.cluster.transport

        def read(lines: int) -> str:
            query: dict[str, str | int | bool] = {"tailLines": lines} if lines else {}
            return transport.text("GET", path, query=query, timeout_s=_LOG_S, patient=False, most_bytes=most_bytes)

        return whole_log(read, transport.outage, pod)


def _unread(pods: Sequence[PodResult]) -> str:
    """Say whose logs could not be read, and why the first could not."""
    lost = [pod for pod in pods if pod.problem and pod.node]
    if not lost:
        return ""
    more = f", nor those of {len(lost) - 1} other pods" if len(lost) > 1 else ""
    return f"the log of pod {lost[0].name} on {lost[0].node} could not be read ({lost[0].problem.rstrip('.')}){more}"
