# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe whether gangs are admitted all or nothing: two gangs compete for room that only one of them fits into."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from ...clients.kube.api_versions import VERSIONS, dra_kinds, native_pod_groups
from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.objects import JOBS, NATIVE_POD_GROUPS, Kind
from ...component_stack.facts import GangFacts, stack_facts
from ...component_stack.model import components_of
from ...component_stack.read import read_workloads
from ...hardware.sku import sku_or_error
from ...outcome.errors import InputError, NotFoundError
from ...runtime.files import RECIPES
from ...runtime.progress import Progress
from ...workload.capacity import NodeCapacity, claim_variables, gpu_requests, read_gpu_objects, read_node_capacity
from ...workload.follow import HELD_HINT, held_by_gates, suspended, why_pending
from ...workload.manifests import render
from ...workload.namespace import MARGIN_S, TemporaryNamespace, temporary_namespace
from ...workload.queue import (
    QUEUES,
    SETTING,
    PlacingTime,
    pods_together,
    queue_for,
    served_version,
    waits_for_pods,
    why_held,
)
from ..kit.settings import setting
from ..kit.tolerations import cluster_queue_of, tolerations_of
from ..spec import ObserveContext, observer_of
from .capacity import Slots, moved, one_alone, room_left, slots_of
from .kueue_gang import KUEUE, job_of_gang, kueue_kinds, own_queue
from .ray_gang import KUBERAY, RAY_CLUSTERS, ray_cluster

# The objects that group the pods of gangs, and what schedulers report in them.

GROUP = "PodGroup"


def told(namespace: TemporaryNamespace, kind: Kind, name: str, *, by_quota: bool) -> str:
    """Return what the gang scheduler reports about a gang."""
    if by_quota:
        return why_held(namespace.cluster, namespace.name, name)
    return _condition(group_of(namespace, kind, name))


def group_of(namespace: TemporaryNamespace, kind: Kind, name: str) -> dict[str, Any] | None:
    """Return the group of a gang: the one of its name, or the one that an object of that name owns."""
    found = namespace.cluster.find(kind, name, namespace.name)
    if found is not None:
        return found
    return next(
        (item for item in namespace.cluster.find_all(kind, namespace.name) or () if _made_for(item, name)), None
    )


def _made_for(item: dict[str, Any], name: str) -> bool:
    return any(owner.get("name") == name for owner in item["metadata"].get("ownerReferences") or ())


def group_kind(cluster: Cluster, facts: GangFacts) -> Kind:
    """Return the kind of the objects that group gangs: pod groups, or Workloads of Kueue.

    Raises:
        NotFoundError: the API server does not serve it.
    """
    if facts.kind != GROUP:
        return kueue_kinds(cluster).workloads
    if facts.api_version == NATIVE_POD_GROUPS.api_version:
        return native_pod_groups(cluster) or NATIVE_POD_GROUPS
    try:
        return cluster.kind(facts.api_version, GROUP)
    except NotFoundError as error:
        raise NotFoundError(error.subject, error.reason, "install the gang scheduler's CRDs") from None


def words_in(group: dict[str, Any] | None) -> list[str]:
    """Return the conditions of a group as text."""
    status = (group or {}).get("status") or {}
    # KAI has its own in schedulingConditions.
    conditions = [*(status.get("conditions") or []), *(status.get("schedulingConditions") or [])]
    return [f"{c['type']}={c['status']} {c.get('message') or c.get('reason', '')}".strip() for c in conditions]


def _condition(group: dict[str, Any] | None) -> str:
    phase = ((group or {}).get("status") or {}).get("phase")
    return "; ".join(([str(phase)] if phase else []) + words_in(group))[:300]


# Gangs that are kept from the scheduler, so that they prove nothing about it. Pods wait for a scheduling gate; a
# RayCluster creates no pods while it is suspended (ray-project/kuberay, ray-operator/apis/ray/v1/raycluster_types.go:
# RayClusterSpec.suspend). Kueue does both to what it manages, even without a queue name if it is configured so
# (kueue.sigs.k8s.io, "Setup manageJobsWithoutQueueName").

GANG = "gpufleet.io/gang"
_LEFT_ALONE = (
    "does managedJobsNamespaceSelector of Kueue leave out namespaces with the label gpufleet.io/purpose=test? From "
    "0.15 on (before, with feature gate ManagedJobsNamespaceSelectorAlwaysRespected) Kueue leaves jobs there alone, "
    f"also those that name a queue: let it take them, and name a ClusterQueue for the other tests ({SETTING}). Else: "
    "is batch/job among integrations.frameworks of its configuration? What says the log of kueue-controller-manager?"
)


def held_gangs(namespace: TemporaryNamespace, *, ray: bool) -> dict[str, str]:
    """Return why gangs are on hold, by the name of the gang.

    Raises:
        BringupError: the API server does not respond, or refuses.
    """
    waiting = [pod for pod in namespace.pods() if not (pod.get("spec") or {}).get("nodeName")]
    on_hold = {str(pod["metadata"]["labels"].get(GANG, "")): text for pod in waiting if (text := held_by_gates(pod))}
    for body in (namespace.cluster.find_all(RAY_CLUSTERS, namespace.name) or []) if ray else []:
        if text := suspended({"kind": RAY_CLUSTERS.kind, **body}):
            name = body["metadata"]["name"]
            queue = namespace.cluster_queue
            reported = why_held(namespace.cluster, namespace.name, name) if queue else ""
            on_hold[name] = (
                f"{RAY_CLUSTERS.kind} {name} waits for ClusterQueue {queue}: {reported}" if reported else text
            )
    return on_hold


def left_alone(namespace: TemporaryNamespace, workloads: Kind) -> dict[str, str]:
    """Return which Jobs wait for Kueue without a Workload, by name: Kueue does not decide about them.

    Kueue evaluates the namespace before anything else (kubernetes-sigs/kueue,
    pkg/controller/jobframework/reconciler.go; its page "Opt-in Namespace Management").

    Raises:
        BringupError: the API server does not respond, or refuses.
    """
    made = {
        owner.get("name")
        for item in namespace.cluster.find_all(workloads, namespace.name) or []
        for owner in item["metadata"].get("ownerReferences") or ()
        if owner.get("kind") == JOBS.kind
    }
    jobs = namespace.cluster.find_all(JOBS, namespace.name) or []
    waiting = [str(job["metadata"]["name"]) for job in jobs if (job.get("spec") or {}).get("suspend")]
    return {name: f"Kueue made no Workload of Job {name}, which waits for one" for name in waiting if name not in made}


def held_back(
    on_hold: Mapping[str, str], bound: Mapping[str, int], requested: int, queue: str, *, by_kueue: bool = False
) -> dict[str, Any]:
    """Return problem, reason and hint if gangs were kept from competing. Empty: they were not. Pure.

    If one gang is on hold and the other was placed, it is not known whether the scheduler would have placed a part of
    the former.

    Args:
        on_hold: why a gang is on hold, by gang.
        bound: placed pods by gang.
        requested: GPUs that all gangs request together.
        queue: ClusterQueue of the site through which they go; empty: none.
        by_kueue: Kueue itself admits them, by a queue of the test.
    """
    out = [name for name in bound if name in on_hold and not bound[name]]
    if not out:
        return {}
    placed = [name for name in bound if bound[name]]
    hint = _LEFT_ALONE if by_kueue else _with_queue(requested, queue) if queue else HELD_HINT
    return {"problem": "held-by-admission", "reason": f"{on_hold[out[0]]}{_alone(placed)}", "hint": hint}


def _alone(placed: Collection[str]) -> str:
    return f"; {', '.join(placed)} was placed, but nothing competed with it" if placed else ""


def _with_queue(requested: int, queue: str) -> str:
    return (
        f"give ClusterQueue {queue} room for both gangs of the test at once ({requested} GPUs), name another one "
        f"({SETTING}), or let Kueue itself be tested (gpufleet_settings: {{gang-admission: {{provider: kueue}}}}); "
        f"{QUEUES}; from 0.15 on managedJobsNamespaceSelector of Kueue has to take namespaces of tests as well"
    )


_GANGS = ("gang-a", "gang-b")
_PLACED = "state who places gangs, such as gpufleet_settings: {gang-admission: {provider: volcano}}"
_CHECK_ID, NATIVE = "gang-admission", "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSettings:
    """Settings of check gang-admission."""

    provider: str = setting(
        "Who admits gangs: volcano, kai-scheduler, coscheduling (scheduler-plugins), kueue or native; empty: the one "
        "of the recipe, else native.",
        default="",
        use="run",
    )
    nodes: int = setting("Most nodes that the test uses.", default=4, minimum=1, use="run")
    queue: str = setting(
        "Queue of the test's gangs, for schedulers that have queues; empty: the scheduler's own (Volcano default, KAI "
        "default-queue).",
        default="",
        use="run",
    )
    image: str = setting("Image of the test's pods; empty: the one of recipes/gpu_stack.yaml.", default="", use="run")
    timeout_s: float = setting("How long the test waits.", default=60.0, unit="s", above=0, use="run")
    settle_s: float = setting(
        "How long nothing may move until a whole gang counts.", default=3.0, unit="s", minimum=0, use="run"
    )
    cleanup_s: float = setting("Longest time to remove what the test made.", default=60.0, unit="s", above=0, use="run")


# Key in `conditions` of a result, beside the groups: whether Kueue waits for pods.
WAITS = "waitForPodsReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangResult:
    """The whole observation. `problem` is the slug of why no test was possible, with `reason`.

    `bound` is the number of bound pods by gang when the test had settled. `conditions` has the conditions of the
    groups, and what Kueue does by its configuration (WAITS). `said` is the scheduler's message about the first pod that
    was not bound. `queue` is the queue that the gangs named.
    """

    provider: str
    problem: str = ""
    reason: str = ""
    hint: str = ""
    queue: str = ""
    said: str = ""
    nodes: tuple[str, ...] = ()
    slots: int = 0
    gang_size: int = 0
    gpus_per_pod: int = 0
    bound: dict[str, int] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)
    settled_s: float = 0.0
    leftovers: tuple[str, ...] = ()
    schema_version: int = 1

    @property
    def waits_for_pods(self) -> bool | None:
        """Whether Kueue waits for the pods of what it admitted. None: not known."""
        return {"true": True, "false": False}.get(self.conditions.get(WAITS, ""))


def observe(context: ObserveContext) -> GangResult:
    """Run the test and remove what it created.

    Raises:
        BringupError: the API server does not respond, or refuses the objects of the test.
    """
    return observe_with(context, _provider(context, context.settings_of(_CHECK_ID, GangSettings)))


def observe_with(context: ObserveContext, provider: str, *, ray: bool = False) -> GangResult:
    """Run the test with gangs of a provider. With `ray` each gang is a RayCluster, whose pods KubeRay creates.

    Raises:
        BringupError: the API server does not respond, or refuses the objects of the test.
    """
    settings = context.settings_of(_CHECK_ID, GangSettings)
    with Cluster(connection_from(context.connections)) as cluster:
        result = GangResult(provider=provider)
        facts = stack_facts().gangs.get(provider) or stack_facts().quota_gangs[provider]
        problem = (_without_ray(cluster, context) if ray else None) or _unusable(cluster, context, provider, facts)
        if problem:
            return replace(result, problem=problem[0], reason=problem[1])
        names = {host.node_name for host in context.site.in_scope}
        capacities = read_node_capacity(cluster, names, tolerations_of(context))
        gpus = {host.node_name: sku_or_error(context.hardware, host.sku).gpus for host in context.site.in_scope}
        slots = slots_of(capacities.values(), settings.nodes, gpus)
        if slots is None:
            return replace(result, problem="no-capacity", reason=_no_room(tuple(capacities.values())))
        if provider == KUEUE and slots.by_dra:
            reason = "Kueue counts resources, and GPUs are given out by claims here"
            return replace(result, problem="gpus-by-claims", reason=reason, hint=_PLACED)
        queue = queue_for(cluster, provider, settings.queue)
        if queue.cause:
            return replace(result, problem=queue.cause, reason=queue.reason, hint=queue.hint)
        return _run(cluster, context, replace(result, queue=queue.name), facts, slots, settings, ray=ray)


def _no_room(capacities: Collection[NodeCapacity]) -> str:
    closed = next((f"; {node.name}: {node.closed}" for node in capacities if node.closed), "")
    parted = next((node for node in capacities if any(node.free_parts.values())), None)
    if parted is None:
        return f"no node in scope has two free GPUs{closed}"
    parts = ", ".join(f"{number} {name}" for name, number in sorted(parted.free_parts.items()))
    return f"no node in scope has room for gangs of parts; {parted.name}: {parts} and {parted.pods_free} pods are free"


def _provider(context: ObserveContext, settings: GangSettings) -> str:
    gangs = (*stack_facts().gangs, *stack_facts().quota_gangs)
    configured = settings.provider
    if configured and configured not in gangs:
        raise InputError(f"settings of {_CHECK_ID}", f"provider is {configured!r}; there are {', '.join(gangs)}.")
    names = [str(name) for name in (context.recipe or {}).get("deploymentOrder") or []]
    # If a recipe has several, the first of the facts: what batch workloads name comes before what others default to,
    # and schedulers come before quotas.
    return configured or next((name for name in gangs if name in names), NATIVE)


def _unusable(cluster: Cluster, context: ObserveContext, provider: str, facts: GangFacts) -> tuple[str, str] | None:
    """Return (slug, reason) if that scheduler cannot be tested. None: it can."""
    if not _is_served(cluster, provider, facts):
        versions = "/".join(VERSIONS) if provider == NATIVE else facts.api_version.rpartition("/")[2]
        return "no-gang-scheduler", f"{facts.api_version.rpartition('/')[0]}/{versions} {facts.kind} is not served"
    if not facts.workload or context.recipe is None:
        return None
    component = next((entry for entry in components_of(context.recipe) if entry.name == provider), None)
    if component is None:
        return None
    workloads = read_workloads(cluster, [component.namespace], 0.0)
    deciding = [workload for workload in workloads if facts.workload in workload.name]
    broken = next((workload for workload in deciding if workload.state != "ready"), None)
    if not deciding:
        return "scheduler-not-ready", f"no workload of {provider} in {component.namespace} is a {facts.workload}"
    return ("scheduler-not-ready", f"{broken.kind} {broken.name}: {broken.reason}") if broken else None


def _is_served(cluster: Cluster, provider: str, facts: GangFacts) -> bool:
    if provider == NATIVE:
        return native_pod_groups(cluster) is not None
    group, _slash, version = facts.api_version.rpartition("/")
    return bool(served_version(cluster)) if provider == KUEUE else version in cluster.served_versions(group)


def _without_ray(cluster: Cluster, context: ObserveContext) -> tuple[str, str] | None:
    """Return (slug, reason) if nothing creates the pods of a RayCluster. None: KubeRay does."""
    if RAY_CLUSTERS.api_version.partition("/")[2] not in cluster.served_versions(RAY_CLUSTERS.group):
        return "kuberay-missing", f"{RAY_CLUSTERS.api_version} {RAY_CLUSTERS.kind} is not served"
    component = next((entry for entry in components_of(context.recipe or {}) if entry.name == KUBERAY), None)
    workloads = read_workloads(cluster, [component.namespace], 0.0) if component else []
    own = [workload for workload in workloads if KUBERAY in workload.name]
    broken = next((workload for workload in own if workload.state != "ready"), None)
    if not own:
        return "scheduler-not-ready", f"no workload is a {KUBERAY}"
    return ("scheduler-not-ready", f"{broken.kind} {broken.name}: {broken.reason}") if broken else None


def _run(
    cluster: Cluster,
    context: ObserveContext,
    result: GangResult,
    facts: GangFacts,
    slots: Slots,
    settings: GangSettings,
    *,
    ray: bool,
) -> GangResult:
    kind, dra = group_kind(cluster, facts), dra_kinds(cluster) if slots.by_dra else None
    by_quota = result.provider == KUEUE
    kinds = (kind, *([dra.claims] if dra else [])) if not by_quota else ()
    makers = (RAY_CLUSTERS,) if ray else (JOBS,) if by_quota else ()
    with ExitStack() as stack:
        namespace = stack.enter_context(_namespace(cluster, context, settings, kinds, makers, by_quota=by_quota))
        own = None
        if by_quota:
            free = slots.resource, slots.count * slots.gpus
            own = stack.enter_context(own_queue(namespace, *free, settings.cleanup_s))
        objects = [_together(namespace, facts, slots, settings, result, name, ray=ray) for name in _GANGS]
        # Alternating: a scheduler that places pod by pod then gives both gangs a part, which exposes it.
        namespace.create([obj for pair in zip(*objects, strict=True) for obj in pair])
        started = time.monotonic()
        wait = PlacingTime(settings.timeout_s, cluster.transport.outage)
        bound = settled(namespace, kind, _GANGS, slots, settings, wait, Progress(context.emit))
        conditions = {name: told(namespace, kind, name, by_quota=by_quota) for name in _GANGS}
        waits = waits_for_pods(cluster, namespace.name) if by_quota else None
        waiting = [pod for pod in namespace.pods() if not (pod.get("spec") or {}).get("nodeName")]
        # The queue of the test is meant to hold one of both. Its Workload reports that.
        on_hold = left_alone(namespace, kind) if by_quota else held_gangs(namespace, ray=ray)
        reported = next(filter(None, (*map(why_pending, waiting), *(conditions.values() if by_quota else ()))), "")
        settled_s = round(time.monotonic() - started, 1)
        requested = len(_GANGS) * slots.gang * slots.gpus
        untold = held_back(on_hold, bound, requested, namespace.cluster_queue, by_kueue=by_quota)
        untold = untold or _moved(cluster, context, slots, bound, namespace.name)
    return replace(
        result,
        **untold,
        said=reported,
        nodes=slots.nodes,
        slots=slots.count,
        gang_size=slots.gang,
        gpus_per_pod=slots.gpus,
        bound=bound,
        conditions=conditions if waits is None else {**conditions, WAITS: str(waits).lower()},
        settled_s=settled_s,
        queue=own.name if own else result.queue,
        leftovers=(*(own.leftovers if own else ()), *namespace.leftovers),
    )


def _namespace(
    cluster: Cluster,
    context: ObserveContext,
    settings: GangSettings,
    kinds: tuple[Kind, ...],
    makers: tuple[Kind, ...],
    *,
    by_quota: bool,
) -> AbstractContextManager[TemporaryNamespace]:
    pods = stack_facts().test_pods
    return temporary_namespace(
        cluster,
        "gang",
        prefix=pods.namespace_prefix,
        priority=pods.priority,
        kinds=kinds,
        makers=makers,
        cleanup_s=settings.cleanup_s,
        emit=context.emit,
        tolerations=tolerations_of(context),
        holder=context.holder,
        cluster_queue="" if by_quota else cluster_queue_of(context),
    )


def _moved(
    cluster: Cluster, context: ObserveContext, slots: Slots, bound: dict[str, int], namespace: str
) -> dict[str, Any]:
    """Return problem, reason and hint if other workloads took or freed room during the test."""
    if one_alone(slots, bound):
        return {}
    return moved(slots, room_left(slots, read_gpu_objects(cluster), namespace, tolerations_of(context)), bound)


def _together(
    namespace: TemporaryNamespace,
    facts: GangFacts,
    slots: Slots,
    settings: GangSettings,
    result: GangResult,
    name: str,
    *,
    ray: bool,
) -> list[dict[str, Any]]:
    """Return the objects of a gang. Through a queue of the site its pods are admitted together."""
    if ray:
        longest_s = settings.timeout_s + settings.cleanup_s
        return ray_cluster(namespace, name, result.provider, slots, result.queue, settings.image, longest_s)
    made = gang_objects(namespace, name, facts, slots, settings, result.queue)
    return pods_together(made, name) if namespace.cluster_queue else made


def gang_objects(
    namespace: TemporaryNamespace, name: str, facts: GangFacts, slots: Slots, settings: GangSettings, queue: str
) -> list[dict[str, Any]]:
    """Return the group of a gang, what its pods claim, and its pods.

    Raises:
        InputError: the template does not render with these values.
    """
    if facts.kind != GROUP:
        longest_s = settings.timeout_s + settings.cleanup_s
        return job_of_gang(
            namespace, name, settings.image, slots.nodes, slots.gang, slots.gpus, slots.resource, longest_s
        )
    requests = gpu_requests(stack_facts().dra.device_class if slots.by_dra else "", slots.gpus)
    labels = {**namespace.labels, GANG: name}
    return render(
        RECIPES / "workloads" / facts.template,
        {
            "name": name,
            "namespace": namespace.name,
            "size": slots.gang,
            "gpus": slots.gpus,
            "resource": slots.resource,
            "nodes": list(slots.nodes),
            "scheduler": facts.scheduler,
            "queue": queue,
            "image": settings.image or stack_facts().test_pods.image,
            "priority_class": namespace.priority_class,
            "tolerations": namespace.tolerated,
            "labels": labels,
            **claim_variables(name, namespace.name, labels, requests),
            "deadline_s": settings.timeout_s + settings.cleanup_s + MARGIN_S,
        },
    )


def settled(
    namespace: TemporaryNamespace,
    kind: Kind,
    gangs: tuple[str, ...],
    slots: Slots,
    settings: GangSettings,
    wait: PlacingTime,
    progress: Progress,
) -> dict[str, int]:
    """Return the bound pods of each gang once one is whole and nothing has changed for the settle time, or at the end.

    A standstill during which the scheduler may be unavailable is no result.
    """

    def heard() -> bool:
        groups = (group_of(namespace, kind, name) for name in gangs)
        return any(why_pending(pod) or held_by_gates(pod) for pod in namespace.pods()) or any(map(words_in, groups))

    last, since = dict.fromkeys(gangs, 0), time.monotonic()
    while (left_s := wait.left_s(heard)) > 0:
        bound = dict.fromkeys(gangs, 0)
        for pod in namespace.pods():
            if (pod.get("spec") or {}).get("nodeName"):
                bound[pod["metadata"]["labels"][GANG]] += 1
        if bound != last:
            last, since = bound, time.monotonic()
        still_s = time.monotonic() - since
        progress.tick(
            f"gangs of {slots.gang} on {slots.count} slots: " + ", ".join(f"{k} {v}" for k, v in bound.items())
        )
        whole = any(count >= slots.gang for count in bound.values())
        if whole and still_s >= settings.settle_s:
            break
        # Partly placed gangs that stay so are a result as well, after a longer wait.
        if any(bound.values()) and still_s >= 5 * settings.settle_s and not wait.settling:
            break
        time.sleep(min(0.5, max(left_s, 0.01)))
    return last


OBSERVER = observer_of("gang", GangResult, observe)
