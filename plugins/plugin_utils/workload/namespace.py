# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The namespace of one test, removed with everything in it however the test ends, and the permissions for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from ..clients.kube.api_versions import EVERY_VERSION, as_served, group_as_served
from ..clients.kube.cluster import Cluster, ask_all
from ..clients.kube.errors import ForbiddenError
from ..clients.kube.objects import (
    DEPLOYMENTS,
    JOBS,
    KAI_POD_GROUPS,
    MPI_JOBS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    PROMETHEUS_RULES,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    VOLCANO_POD_GROUPS,
    Kind,
)
from ..clients.kube.permission import Permission
from ..clients.kube.wait import until
from ..outcome.errors import BringupError, DeadlineError
from ..outcome.wording import first_of
from ..runtime.clock import Deadline, moment_of, unlimited
from ..runtime.interrupt import interruptible
from ..runtime.pool import map_bounded
from ..runtime.progress import Emit, silent
from .follow import node_of
from .job import JobKind
from .lease import NAMESPACE, confirm, held
from .nodes import Toleration, known_tolerations
from .queue import open_queue, queued

OWNER_LABELS = {"gpufleet.io/managed-by": "gpufleet.bringup", "gpufleet.io/purpose": "test"}
_SELECTOR = ",".join(f"{key}={value}" for key, value in OWNER_LABELS.items())
# Annotation: the holder of the Lease under which it was created.
HOLDER = "gpufleet.io/holder"
TEST = "gpufleet.io/test"
# A cluster may enforce a standard on every namespace without these labels that our pods do not meet (Talos: baseline;
# kubernetes.io/docs/tasks/configure-pod-container/enforce-standards-admission-controller).
_POD_SECURITY = "pod-security.kubernetes.io"
PodSecurity = Literal["privileged", "baseline"]
# The kinds that tests create: the first make pods again when these are removed, the second have pods as members.
MAKERS = (MPI_JOBS, JOBS, DEPLOYMENTS, REPLICA_SETS)
GROUPS = (VOLCANO_POD_GROUPS, KAI_POD_GROUPS, *EVERY_VERSION)
# How much later than its controller the cluster itself ends a pod of a test.
MARGIN_S = 300.0
_PATIENCE_S = 10.0
# Addition to the time limit of the removal for every object: a thousand pods take longer to go than one.
_GO_ONE_S = 0.1
_WORKERS = 8
# Namespaces of tests that run in this process. One thread at a time removes leftovers, and no test ends meanwhile:
# otherwise a test could take a namespace that another thread has just removed for one of a dead run.
_OPEN: set[str] = set()
_SWEEPING = threading.Lock()


@dataclass(slots=True)
class TemporaryNamespace:
    """Namespace and priority class of one test.

    `leftovers` lists what could not be removed. `kinds` are removed after the pods. `makers` are removed before them,
    because they would make the pods again. `holder` is the holder of the Lease for the test. `created_at` is the time
    of creation by the API server's clock, in seconds since 1970. `cluster_queue` is the ClusterQueue of Kueue that its
    jobs go through, empty for none.
    """

    cluster: Cluster
    name: str
    cleanup_s: float
    kinds: tuple[Kind, ...]
    emit: Emit = silent
    leftovers: list[str] = field(default_factory=list)
    makers: tuple[Kind, ...] = ()
    tolerations: tuple[Toleration, ...] = field(default_factory=known_tolerations)
    holder: str = ""
    pod_security: PodSecurity = "baseline"
    created_at: float = 0.0
    cluster_queue: str = ""

    @property
    def tolerated(self) -> list[dict[str, str]]:
        """The tolerations of its pods, as in a manifest."""
        return [entry.body for entry in self.tolerations]

    @property
    def priority_class(self) -> str:
        """The priority class of its pods: lower than any user's, and without preemption. It never causes a new node."""
        return self.name

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything in the namespace."""
        return {**OWNER_LABELS, TEST: self.name}

    def open(self, priority: int) -> None:
        """Create the namespace and the priority class."""
        metadata = {"name": self.name, "labels": self.labels, "annotations": {HOLDER: self.holder}}
        levels = {f"{_POD_SECURITY}/{mode}": self.pod_security for mode in ("enforce", "warn", "audit")}
        made = self.cluster.create(NAMESPACES, {"metadata": metadata | {"labels": self.labels | levels}})
        self.created_at = _seconds(made["metadata"].get("creationTimestamp"))
        body = {
            "metadata": metadata,
            "value": priority,
            "preemptionPolicy": "Never",
            "globalDefault": False,
            "description": "Pods of a test of gpufleet.bringup.",
        }
        self.cluster.create(PRIORITY_CLASSES, body)
        if self.cluster_queue:
            self.kinds = (*self.kinds, open_queue(self.cluster, self.name, self.labels, self.cluster_queue))

    def prepared(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return an object as this cluster accepts it: in an API version that it serves, in the queue of the test."""
        served = group_as_served(self.cluster, as_served(self.cluster, body))
        return queued(served) if self.cluster_queue else served

    def create(self, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Create objects in the namespace, in order. Return them as the API server stored them."""
        prepared = [self.prepared(body) for body in objects]
        return [
            self.cluster.create(self.cluster.kind(obj["apiVersion"], obj["kind"]), obj, self.name) for obj in prepared
        ]

    def create_at_once(self, objects: list[dict[str, Any]]) -> None:
        """Create independent objects, some at a time."""
        map_bounded(lambda body: self.create([body]), objects, _WORKERS)

    def pods(self, labels: str = "") -> list[dict[str, Any]]:
        """Return the pods of the test."""
        return self.cluster.list_objects(PODS, self.name, labels=labels)

    def close(self) -> None:
        """Remove everything, each step with a time limit. Pods go first, for a group may not go before its members."""
        deadline = Deadline.after(self.cleanup_s)
        for kind in self.makers:
            self._step(f"{kind.title} of {self.name}", partial(self._dismiss, kind))
        for kind in (PODS, *self.kinds):
            self._step(f"{kind.title} of {self.name}", partial(self._empty, kind, deadline))
        self._step(f"priority class {self.name}", partial(self._drop, PRIORITY_CLASSES))
        self._step(f"namespace {self.name}", partial(self._drop, NAMESPACES))
        for text in self.leftovers:
            self.emit(f"not removed: {text}")

    def _step(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except BringupError as error:
            self.leftovers.append(f"{what}: {error.reason}")

    def _drop(self, kind: Kind) -> None:
        self.cluster.delete(kind, self.name)

    def _dismiss(self, kind: Kind) -> None:
        for obj in self.cluster.find_all(kind, self.name) or []:
            self.cluster.delete(kind, obj["metadata"]["name"], self.name)

    def _empty(self, kind: Kind, deadline: Deadline) -> None:
        there = self.cluster.find_all(kind, self.name) or []
        placed = [obj for obj in there if node_of(obj)]
        # Pending pods go first, or they would get the place of those that go.
        for objects in ([obj for obj in there if not node_of(obj)], placed):
            # With its own grace period: without one the object is gone while its kubelet still holds the GPUs.
            map_bounded(lambda obj: self.cluster.delete(kind, obj["metadata"]["name"], self.name), objects, _WORKERS)
        if not there:
            return
        deadline = Deadline.after(max(deadline.left_s, 0.0) + _GO_ONE_S * len(there))
        try:
            self._gone(kind, Deadline.after(min(_PATIENCE_S, deadline.left_s)))
        except DeadlineError:
            # A finalizer whose controller does not run would keep our own object forever.
            kept = [obj for obj in self.cluster.find_all(kind, self.name) or [] if obj["metadata"].get("finalizers")]
            if kept:
                self.emit(f"{kind.title} of {self.name}: still there, taking off finalizers")
            for obj in kept:
                body = {"metadata": {"finalizers": None}}
                self.cluster.patch(kind, obj["metadata"]["name"], body, self.name)
            self._gone(kind, deadline)

    def _gone(self, kind: Kind, deadline: Deadline) -> None:
        try:
            until(lambda: not self.cluster.find_all(kind, self.name), deadline, f"{kind.title} of {self.name} gone")
        except DeadlineError as error:
            left = self.cluster.find_all(kind, self.name) or []
            if not left:
                return
            reason = f"{error.reason} Still there: {where_they_are(left)}"
            raise DeadlineError(error.subject, reason, error.hint) from None


def _seconds(text: Any) -> float:
    try:
        return moment_of(str(text)).timestamp()
    except ValueError:
        return time.time()


def where_they_are(objects: list[dict[str, Any]]) -> str:
    """Return the names of objects for a message, pods with their nodes. Of many, the first five."""
    places = [(obj["metadata"]["name"], (obj.get("spec") or {}).get("nodeName")) for obj in objects]
    words = [f"{name} on node {node}" if node else str(name) for name, node in places]
    return first_of(words, 5)


@contextmanager
def temporary_namespace(
    cluster: Cluster,
    purpose: str,
    *,
    prefix: str,
    priority: int,
    kinds: tuple[Kind, ...],
    makers: tuple[Kind, ...] = (),
    cleanup_s: float = 60.0,
    emit: Emit = silent,
    tolerations: tuple[Toleration, ...] | None = None,
    holder: str = "",
    pod_security: PodSecurity = "baseline",
    cluster_queue: str = "",
) -> Iterator[TemporaryNamespace]:
    """Yield a namespace for one test, once leftovers of dead runs are removed. SIGTERM removes it too.

    Args:
        cluster: the cluster.
        purpose: word for its name (`gang`).
        prefix: first part of its name.
        priority: priority of its pods, below -10.
        kinds: kinds to remove after the pods, in that order.
        makers: kinds to remove before the pods, because they would make them again.
        cleanup_s: time limit of the removal, in seconds.
        emit: gets the progress lines.
        tolerations: tolerations of its pods; None for the taints of platforms.
        holder: the run that holds the cluster; empty to hold it for this test alone.
        pod_security: the Pod Security Standard that its pods meet, whatever the cluster's default is.
        cluster_queue: ClusterQueue of Kueue that its jobs go through; empty for none.

    Raises:
        HeldError: another run holds the cluster.
        LostError: the holder does not hold it any more.
        BringupError: the API server does not answer, or refuses.
    """
    with ExitStack() as stack:
        holding = holder or stack.enter_context(held(cluster, emit))
        sweep_left(cluster, holding, cleanup_s=cleanup_s, kinds=kinds, makers=makers, emit=emit)
        namespace = TemporaryNamespace(
            cluster,
            f"{prefix}-{purpose}-{_suffix()}",
            cleanup_s,
            kinds,
            emit,
            makers=makers,
            tolerations=known_tolerations() if tolerations is None else tolerations,
            holder=holding,
            pod_security=pod_security,
            cluster_queue=cluster_queue,
        )
        stack.enter_context(interruptible(f"test {purpose}"))
        with _open_here(namespace.name):
            try:
                namespace.open(priority)
                yield namespace
            finally:
                with unlimited():
                    namespace.close()


def _suffix() -> str:
    """Return a random suffix, which makes the name unique."""
    # Imported here: it loads OpenSSL's digests, and a process that only judges makes no namespace.
    import secrets

    return secrets.token_hex(3)


@contextmanager
def _open_here(name: str) -> Iterator[None]:
    """Keep threads of this process from removing that namespace as one of a dead run."""
    _OPEN.add(name)
    try:
        yield
    finally:
        with _SWEEPING:
            _OPEN.discard(name)


def sweep_left(
    cluster: Cluster,
    holder: str,
    *,
    cleanup_s: float,
    kinds: tuple[Kind, ...] = (),
    makers: tuple[Kind, ...] = (),
    of_holder: bool = False,
    emit: Emit = silent,
    remains: list[str] | None = None,
) -> tuple[str, ...]:
    """Remove what dead runs left behind. Return the names of the removed namespaces.

    Only one run holds the cluster. So no other run will remove its leftovers, whatever their age and host.

    Args:
        cluster: the cluster.
        holder: the holder of the Lease, which is confirmed first.
        cleanup_s: time limit of each removal, in seconds.
        kinds: kinds to remove after the pods, beside GROUPS.
        makers: kinds to remove before the pods, beside MAKERS.
        of_holder: remove only what the holder left itself.
        emit: gets the progress lines.
        remains: gets what could not be removed, each with the reason and the command that removes it.

    Raises:
        LostError: the holder does not hold the cluster.
        BringupError: the API server does not answer.
    """
    confirm(cluster, holder)
    remains = [] if remains is None else remains
    with _SWEEPING:
        swept = _sweep_namespaces(
            cluster, holder, cleanup_s, kinds, makers, of_holder=of_holder, emit=emit, remains=remains
        )
        _sweep_rules(cluster, holder, of_holder=of_holder, emit=emit, remains=remains)
    return tuple(swept)


def _sweep_namespaces(
    cluster: Cluster, holder: str, cleanup_s: float, kinds: tuple[Kind, ...], makers: tuple[Kind, ...], *,
    of_holder: bool, emit: Emit, remains: list[str],
) -> list[str]:  # fmt: skip
    swept = []
    for found in cluster.list_objects(NAMESPACES, labels=_SELECTOR):
        name = found["metadata"]["name"]
        of = (found["metadata"].get("annotations") or {}).get(HOLDER)
        if name in _OPEN or (of_holder and of != holder):
            continue
        # A finalizer inside may block a namespace that is being deleted: it is emptied again, but not counted.
        if not found["metadata"].get("deletionTimestamp"):
            emit(f"removing what a dead run left: {name}")
        more = tuple(kind for kind in kinds if kind not in GROUPS)
        every = (*MAKERS, *(kind for kind in makers if kind not in MAKERS))
        dead = TemporaryNamespace(cluster, name, cleanup_s, (*GROUPS, *more), emit, makers=every)
        dead.close()
        remains += [remaining(text, f"namespace,priorityclass {name}") for text in dead.leftovers[:1]]
        if not dead.leftovers and not found["metadata"].get("deletionTimestamp"):
            swept.append(name)
    return swept


def remaining(text: str, objects: str) -> str:
    """Return the message that something of a dead run is still there: what, why, and the command that removes it."""
    return f"not removed of a dead run: {text.rstrip('.')}. Remove it: kubectl delete {objects}"


def _sweep_rules(cluster: Cluster, holder: str, *, of_holder: bool, emit: Emit, remains: list[str]) -> None:
    """Remove the rules of dead tests of alerts, which may be in a namespace that is not ours."""
    try:
        rules = cluster.find_all(PROMETHEUS_RULES, labels=_SELECTOR) or []
    except ForbiddenError:
        # A run without the right to list rules makes none; the gate that makes them checks this right first.
        return
    for rule in rules:
        metadata = rule["metadata"]
        mine = (metadata.get("annotations") or {}).get(HOLDER) == holder
        if (metadata.get("labels") or {}).get(TEST) not in _OPEN and (mine or not of_holder):
            emit(f"removing the rule of a dead test: {metadata['namespace']}/{metadata['name']}")
            try:
                cluster.delete(PROMETHEUS_RULES, metadata["name"], metadata["namespace"])
            except BringupError as error:
                place = f"{metadata['namespace']} {metadata['name']}"
                remains.append(remaining(f"rule {metadata['name']}: {error.reason}", f"prometheusrule -n {place}"))
                emit(remains[-1])


# The permissions of a gate. They are all checked at once, before it starts anything.
# Every test holds the cluster, and removes what dead runs left.
HOLDING = (
    Permission("list", "namespaces"),
    *(Permission(verb, "leases", "coordination.k8s.io", NAMESPACE) for verb in ("get", "create", "update")),
)
# A namespace of ours is emptied before it is deleted, whatever an earlier run may have created in it.
CLEARING = (
    *(
        Permission(verb, kind.plural, kind.group)
        for kind in (*MAKERS, *GROUPS, RESOURCE_CLAIMS, PODS)
        for verb in ("list", "delete")
    ),
    # Finalizers whose controller does not run are removed from our own objects.
    *(Permission("patch", kind.plural, kind.group) for kind in (*GROUPS, RESOURCE_CLAIMS, PODS)),
)
# Every test with a namespace: create it, follow its pods, read their logs, remove it.
BASIC = (
    *HOLDING,
    *(Permission(verb, "namespaces") for verb in ("create", "delete")),
    *(Permission(verb, "priorityclasses", "scheduling.k8s.io") for verb in ("create", "delete")),
    *CLEARING,
    Permission("get", "pods", subresource="log"),
    *(Permission(verb, "nodes") for verb in ("get", "list")),
    Permission("list", "resourceslices", "resource.k8s.io"),
    Permission("list", "events"),
)
_ACCESS = (*(Permission(verb, "services") for verb in ("list", "create")), Permission("create", "secrets"))


def job_permissions(
    kind: JobKind, *, gang_api: str = "", by_dra: bool = False, imex: bool = False, files: bool = False
) -> tuple[Permission, ...]:
    """Return the permissions that jobs of a kind need beside BASIC.

    Args:
        kind: kind of the jobs.
        gang_api: API version of the PodGroups of their gangs (`scheduling.volcano.sh/v1beta1`); empty for none.
        by_dra: their GPUs are allocated by resource claims.
        imex: they share GPU memory across hosts, by ComputeDomains.
        files: their pods get files, as those of a `torchrun` and of `ranks` always do.
    """
    owner, group = ("mpijobs", "kubeflow.org") if kind == "mpijob" else ("jobs", "batch")
    wanted = [Permission(verb, owner, group) for verb in ("create", "delete")]
    wanted.append(Permission("watch", "pods"))
    if kind in ("gang-job", "torchrun", "ranks"):
        wanted += _ACCESS
    if files or kind in ("torchrun", "ranks"):
        wanted += [Permission(verb, "configmaps") for verb in ("create", "delete")]
    if gang_api and kind != "mpijob":
        wanted.append(Permission("create", "podgroups", gang_api.partition("/")[0]))
    if by_dra:
        wanted.append(Permission("create", "resourceclaimtemplates", "resource.k8s.io"))
        wanted.append(Permission("get", "deviceclasses", "resource.k8s.io"))
    if imex:
        wanted += [Permission(verb, "computedomains", "resource.nvidia.com") for verb in ("list", "create")]
    return tuple(wanted)


def refuse_without(cluster: Cluster, wanted: Iterable[Permission], gate: str) -> None:
    """Check that all of these permissions are granted.

    Raises:
        ForbiddenError: some are not; it names all of them.
        BringupError: the API server does not answer.
    """
    refused = [permission for permission in ask_all(cluster, list(wanted)) if not permission.allowed]
    if refused:
        words = ", ".join(permission.text for permission in refused)
        raise ForbiddenError(f"gate {gate}", f"not allowed: {words}.", f"grant it, see docs/{gate}.md")
