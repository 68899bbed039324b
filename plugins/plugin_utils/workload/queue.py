# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The queue of a gang: what the site configured, Kueue's LocalQueue, and how long to wait for a scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.errors import CONTROLLERS_LATE_S, Outage
from ..clients.kube.objects import KAI_QUEUES, VOLCANO_QUEUES, Kind, condition
from ..clients.kube.permission import Permission
from ..outcome.errors import BringupError, InputError, NotFoundError

# The queue that a gang names: the one that the site configured, else the default queue of its scheduler.
#
# Volcano always has a queue `default` that cannot be deleted, and its admission refuses a group whose queue does not
# exist or is not open (volcano-sh/volcano pkg/webhooks/admission/podgroups/validate). KAI's chart creates `default-
# queue` below `default-parent-queue`, at the first installation alone (kai-scheduler/KAI-Scheduler pull request
# 499). A group whose queue does not exist stays pending with QueueDoesNotExist (pull request 820), and one whose queue
# has no parent is not placed either (its #621). A queue has the GPUs of its own limit and of the limits above it. A
# limit that is 0 or missing gives no GPUs, -1 is no limit (its docs/queues/README.md).

KAI, VOLCANO = "kai-scheduler", "volcano"
_KINDS = {KAI: KAI_QUEUES, VOLCANO: VOLCANO_QUEUES}
_BROUGHT = {KAI: "default-queue", VOLCANO: "default"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue of a gang scheduler.

    `state` is Volcano's (Open, Closed, ...), empty where it has none. `gpu_limit` is the most GPUs that KAI gives to
    the queue, -1 for no limit.
    """

    name: str
    parent: str = ""
    state: str = ""
    gpu_limit: float = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChoice:
    """The queue to use. With a `cause` there is none; `reason` and `hint` are why, and what to do."""

    name: str = ""
    cause: str = ""
    reason: str = ""
    hint: str = ""


def queue_for(cluster: Cluster, provider: str, configured: str) -> QueueChoice:
    """Return the queue for gangs of a provider (volcano, kai-scheduler). Other providers have no queue.

    Args:
        cluster: the cluster with the queues.
        provider: what admits the gang.
        configured: the queue that the site configured; empty for the scheduler's default.
    """
    if provider not in _KINDS:
        return QueueChoice()
    try:
        found = cluster.find_all(_KINDS[provider])
    except BringupError:
        # No right to read queues: the scheduler refuses the gang if its queue is wrong.
        found = None
    if found is None:
        return QueueChoice(name=configured or _BROUGHT[provider])
    queues = (
        Queue(
            name=item["metadata"]["name"],
            parent=str((item.get("spec") or {}).get("parentQueue") or ""),
            state=str((item.get("status") or {}).get("state") or ""),
            gpu_limit=_gpu_limit(item) if provider == KAI else -1.0,
        )
        for item in found
    )
    return choose(provider, configured, queues)


def choose(provider: str, configured: str, queues: Iterable[Queue]) -> QueueChoice:
    """Choose the queue for a gang among those of its scheduler. Pure."""
    there = {queue.name: queue for queue in queues}
    usable = _usable(provider, there)
    listed = f"it has {', '.join(sorted(there)) or 'none'}"
    hint = f"state one that gangs may use: gpufleet_settings: {{<gate or check>: {{queue: ...}}}}; {_command(provider)}"
    if configured:
        if configured in usable:
            return QueueChoice(name=configured)
        why = _why_not(there.get(configured), there)
        return QueueChoice(
            cause="queue-unusable", reason=f"queue {configured} of {provider} {why}; {listed}", hint=hint
        )
    if _BROUGHT[provider] in usable:
        return QueueChoice(name=_BROUGHT[provider])
    if len(usable) == 1:
        return QueueChoice(name=next(iter(usable)))
    reason = f"{provider} has no queue {_BROUGHT[provider]}, and the site states none; {listed}"
    return QueueChoice(cause="queue-unstated", reason=reason, hint=hint)


def _usable(provider: str, there: dict[str, Queue]) -> set[str]:
    if provider == VOLCANO:
        # Gangs may not use the root queue. A queue without a state yet is not closed.
        return {queue.name for queue in there.values() if queue.name != "root" and queue.state in ("", "Open")}
    parents = {queue.parent for queue in there.values()}
    leaves = {queue.name: queue for queue in there.values() if queue.parent in there and queue.name not in parents}
    return {name for name, queue in leaves.items() if not _without_gpus(queue, there)}


def _gpu_limit(item: Mapping[str, Any]) -> float:
    gpu = ((item.get("spec") or {}).get("resources") or {}).get("gpu") or {}
    return float(gpu.get("limit") or 0)


def _without_gpus(queue: Queue, there: Mapping[str, Queue]) -> str:
    """Return the first queue without GPUs, from a queue upwards through its parents. Empty if all have some."""
    seen: set[str] = set()
    step: Queue | None = queue
    while step is not None and step.name not in seen:
        if step.gpu_limit == 0:
            return step.name
        seen.add(step.name)
        step = there.get(step.parent)
    return ""


def _why_not(queue: Queue | None, there: Mapping[str, Queue]) -> str:
    if queue is None:
        return "does not exist"
    closed = _without_gpus(queue, there)
    if closed:
        return f"gets no GPUs: spec.resources.gpu.limit of queue {closed} is 0 or not stated (-1 is no limit)"
    return f"is {queue.state}" if queue.state not in ("", "Open") else "takes no groups: it is no leaf below a parent"


def _command(provider: str) -> str:
    return f"kubectl get {_KINDS[provider].title}"


# Kueue before the pods of a test: a LocalQueue in the test's namespace, through which its jobs go to a ClusterQueue.
#
# Kueue's webhook suspends a job that names a queue until the Workload that Kueue creates for it is admitted. The pods
# of such a job are left alone. A pod without an owner is gated by itself, or together with its pod group
# (kubernetes-sigs/kueue, pkg/controller/jobframework/defaults.go and pkg/controller/jobs/pod; its pages "Run a
# Kubernetes Job" and "Run Plain Pods"). Why a Workload waits is in its condition QuotaReserved, why a queue admits
# none is in the condition Active of LocalQueue and ClusterQueue (apis/kueue/v1beta2). Once it has quota it waits for
# the admission checks of its queue, whose states and messages are in its status: the check of ProvisioningRequests is
# Pending until cluster-autoscaler has the nodes (pkg/controller/admissionchecks/provisioning/controller.go:
# syncCheckStates).

Json = dict[str, Any]
GROUP = "kueue.x-k8s.io"
QUEUE = f"{GROUP}/queue-name"
LOCAL_QUEUE = "tests"
SETTING = "gpufleet_settings: {gpu_stack: {cluster_queue: <name>}}"
PERMISSIONS = (
    *(Permission(verb, "localqueues", GROUP) for verb in ("get", "list", "create", "delete")),
    Permission("get", "clusterqueues", GROUP),
    Permission("list", "workloads", GROUP),
)
_VERSIONS = ("v1beta2", "v1beta1")
_MADE_OF_PODS = ("Job", "MPIJob", "RayCluster")
# Shows what waits in which queue, and why.
QUEUES = "kubectl get clusterqueues; kubectl get workloads -A"


def open_queue(cluster: Cluster, namespace: str, labels: dict[str, str], cluster_queue: str) -> Kind:
    """Create the LocalQueue of a namespace. Return its kind.

    Raises:
        NotFoundError: the cluster has no Kueue, or no such ClusterQueue.
        InputError: the ClusterQueue admits no workloads.
        BringupError: the API server does not answer, or refuses.
    """
    version = served_version(cluster)
    title = f"ClusterQueue {cluster_queue}"
    hint = f"state another one, or none if Kueue does not manage the namespaces of tests: {SETTING}"
    if not version:
        raise NotFoundError(title, f"the API server serves no version of {GROUP} that we know.", hint)
    found = cluster.find(Kind(version, "ClusterQueue", "clusterqueues", namespaced=False), cluster_queue)
    if found is None:
        raise NotFoundError(title, "does not exist.", f"kubectl get clusterqueues; {hint}")
    active = condition(found, "Active")
    if active.get("status") == "False":
        reason = f"admits no workloads: {active.get('message') or active.get('reason') or 'no reason given'}."
        raise InputError(title, reason, f"kubectl describe clusterqueue {cluster_queue}; {hint}")
    kind = Kind(version, "LocalQueue", "localqueues")
    metadata = {"name": LOCAL_QUEUE, "namespace": namespace, "labels": labels}
    # The API server refuses a custom resource without apiVersion and kind.
    about = {"apiVersion": kind.api_version, "kind": kind.kind}
    cluster.create(kind, {**about, "metadata": metadata, "spec": {"clusterQueue": cluster_queue}}, namespace)
    return kind


def queued(body: Json) -> Json:
    """Add the queue to an object of a test if Kueue admits its kind. Others are returned unchanged."""
    bare_pod = body["kind"] == "Pod"
    if body["kind"] not in _MADE_OF_PODS and not bare_pod:
        return body
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), QUEUE: LOCAL_QUEUE}}}


def pods_together(objects: Iterable[Json], group: str) -> list[Json]:
    """Make the pods among these objects one pod group, which is admitted as a whole or not at all."""
    objects = list(objects)
    total = str(sum(body["kind"] == "Pod" for body in objects))
    return [_grouped(body, group, total) if body["kind"] == "Pod" else body for body in objects]


def why_held(cluster: Cluster, namespace: str, job: str) -> str:
    """Return Kueue's message on why a job is not admitted. Empty if there is none. At most 300 characters."""
    version = served_version(cluster)
    try:
        workloads = cluster.list_objects(Kind(version, "Workload", "workloads"), namespace) if version else []
        queue = cluster.find(Kind(version, "LocalQueue", "localqueues"), LOCAL_QUEUE, namespace) if version else None
    except BringupError as error:
        return f"its Workload cannot be read: {error.reason}"
    for workload in workloads:
        owners = workload["metadata"].get("ownerReferences") or []
        if job not in (owner.get("name") for owner in owners):
            continue
        for kind in ("Evicted", "QuotaReserved", "Admitted"):
            reported = condition(workload, kind)
            if reported.get("status") == ("True" if kind == "Evicted" else "False"):
                words = str(reported.get("message") or reported.get("reason") or "")
                return "; ".join(filter(None, (words, _checks_open(workload))))[:300]
        if _checks_open(workload):
            return _checks_open(workload)[:300]
    active = condition(queue, "Active")
    return str(active.get("message") or active.get("reason") or "")[:300] if active.get("status") == "False" else ""


def _checks_open(workload: Json) -> str:
    """Return the admission checks that a Workload waits for, with their messages. Empty for none."""
    checks = (workload.get("status") or {}).get("admissionChecks") or []
    waiting = [entry for entry in checks if entry.get("state") != "Ready"]
    texts = (
        f"admission check {entry.get('name')} is {entry.get('state')}: {entry.get('message')}" for entry in waiting
    )
    return "; ".join(text.removesuffix(": ").removesuffix(": None") for text in texts)


def waits_for_pods(cluster: Cluster, namespace: str) -> bool | None:
    """Tell whether Kueue waits until all pods of a workload are ready, and evicts it otherwise (waitForPodsReady).

    None where there is no Workload to judge by. Only with this configuration a Workload has the condition PodsReady,
    from before its admission (kubernetes-sigs/kueue, pkg/controller/jobframework/reconciler.go:
    generatePodsReadyCondition).
    """
    version = served_version(cluster)
    try:
        workloads = cluster.list_objects(Kind(version, "Workload", "workloads"), namespace) if version else []
    except BringupError:
        return None
    return any(condition(workload, "PodsReady") for workload in workloads) if workloads else None


def _grouped(body: Json, group: str, total: str) -> Json:
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {}), f"{GROUP}/pod-group-name": group}
    annotations = {**(metadata.get("annotations") or {}), f"{GROUP}/pod-group-total-count": total}
    return {**body, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def served_version(cluster: Cluster) -> str:
    """Return the newest group and version of Kueue that the server has and we support. Empty if none."""
    served = cluster.served_versions(GROUP)
    return next((f"{GROUP}/{version}" for version in _VERSIONS if version in served), "")


# How long a test waits for a scheduler: its time limit, and more where the scheduler itself may be late.
#
# A scheduler without a message has not looked yet, as after an outage of the API server that ended before the test
# began. A message from before an outage may be outdated: the scheduler gets time to come back before it counts.


@dataclass(slots=True)
class PlacingTime:
    """The wait for a scheduler, from construction.

    It is `timeout_s`, plus the time in which the API server was away meanwhile, plus at most CONTROLLERS_LATE_S, the
    time that controllers need to come back after it.
    """

    timeout_s: float
    outage: Outage
    clock: Callable[[], float] = time.monotonic
    _started: float = field(init=False)
    _away_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clock."""
        self._started, self._away_s = self.clock(), self.outage.away_s

    @property
    def settling(self) -> bool:
        """Whether the API server came back so recently that its controllers may not have yet."""
        over_at = self.outage.over_at
        return over_at is not None and self.clock() - over_at < CONTROLLERS_LATE_S

    def left_s(self, received: Callable[[], bool]) -> float:
        """Return the seconds that are left, 0 or less at the end.

        Args:
            received: whether the scheduler has reported anything about the test; called only after the time limit.
        """
        now = self.clock()
        end = self._started + self.timeout_s + self.outage.away_s - self._away_s
        if now < end:
            return end - now
        last = end + CONTROLLERS_LATE_S
        if now >= last:
            return 0.0
        over_at = self.outage.over_at
        if self.settling and over_at is not None:
            return min(over_at + CONTROLLERS_LATE_S, last) - now
        return 0.0 if received() else last - now
