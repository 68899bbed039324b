# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes whether gangs are admitted all or nothing: two gangs compete for room that only one of them fits into."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.dra import dra_kinds
from ...clients.kube.kinds import JOBS, Kind
from ...clients.kube.pod_groups import VERSIONS, native_pod_groups
from ...component_stack.facts import GangFacts, stack_facts
from ...component_stack.model import components_of
from ...component_stack.read import read_workloads
from ...hardware.sku import sku_or_error
from ...outcome.errors import InputError
from ...runtime.progress import Progress
from ...runtime.recipe_files import RECIPES
from ...workload.capacity import NodeCapacity, read_gpu_objects, read_node_capacity
from ...workload.claims import claim_variables, gpu_requests
from ...workload.kueue import pods_together, served_version, waits_for_pods
from ...workload.namespace import MARGIN_S, TemporaryNamespace, temporary_namespace
from ...workload.pending import held_by_gates, why_pending
from ...workload.placing import PlacingTime
from ...workload.queue import queue_for
from ...workload.render import render
from ..kit.settings import setting
from ..kit.tolerations import cluster_queue_of, tolerations_of
from ..spec import ObserveContext, observer_of
from .capacity import Slots, moved, one_alone, room_left, slots_of
from .gang_groups import GROUP, group_kind, group_of, told, words_in
from .held_gangs import GANG, held_back, held_gangs, left_alone
from .kueue_gang import KUEUE, job_of_gang, own_queue
from .ray_gang import KUBERAY, RAY_CLUSTERS, ray_cluster

_GANGS = ("gang-a", "gang-b")
_PLACED = "state who places gangs, such as gpufleet_settings: {gang-admission: {provider: volcano}}"
_CHECK_ID, NATIVE = "gang-admission", "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSettings:
    """Settings of check gang-admission."""

    provider: str = setting(
        "Who admits gangs: volcano, kai-scheduler, coscheduling (scheduler-plugins), kueue or native; empty: the one "
        "of the recipe, else native.",
        use="run",
    )
    nodes: int = setting("Most nodes that the test uses.", minimum=1, use="run")
    queue: str = setting(
        "Queue of the test's gangs, for schedulers that have queues; empty: the scheduler's own (Volcano default, KAI "
        "default-queue).",
        use="run",
    )
    image: str = setting("Image of the test's pods; empty: the one of recipes/gpu_stack.yaml.", use="run")
    timeout_s: float = setting("How long the test waits.", unit="s", above=0, use="run")
    settle_s: float = setting("How long nothing may move until a whole gang counts.", unit="s", minimum=0, use="run")
    cleanup_s: float = setting("Longest time to remove what the test made.", unit="s", above=0, use="run")


# In `conditions` of a result, beside the groups: whether Kueue waits for pods.
WAITS = "waitForPodsReady"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangResult:
    """What was seen. `problem` is a slug when no test was possible, with `reason`.

    `bound` maps each gang to how many of its pods were bound when it had settled; `conditions` are the groups' words,
    and what Kueue does by its configuration (WAITS), and `said` what was said of the first pod that was not bound.
    `queue` is what the gangs asked for.
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
        """Whether Kueue waits for the pods of what it admitted, None where nobody says so."""
        return {"true": True, "false": False}.get(self.conditions.get(WAITS, ""))


def observe(context: ObserveContext) -> GangResult:
    """Run the test and remove what it made.

    Raises:
        BringupError: the API server does not answer, or refuses the test's objects.
    """
    return observe_with(context, _provider(context, context.settings_of(_CHECK_ID, GangSettings)))


def observe_with(context: ObserveContext, provider: str, *, ray: bool = False) -> GangResult:
    """Run the test with gangs of that provider; `ray`: each is a RayCluster, whose pods KubeRay makes.

    Raises:
        BringupError: the API server does not answer, or refuses the test's objects.
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
    stated = settings.provider
    if stated and stated not in gangs:
        raise InputError(f"settings of {_CHECK_ID}", f"provider is {stated!r}; there are {', '.join(gangs)}.")
    names = [str(name) for name in (context.recipe or {}).get("deploymentOrder") or []]
    # Of several in one recipe the first of the facts: what batch workloads name comes before what others default to.
    # Who places comes before who only counts.
    return stated or next((name for name in gangs if name in names), NATIVE)


def _unusable(cluster: Cluster, context: ObserveContext, provider: str, facts: GangFacts) -> tuple[str, str] | None:
    """Return (slug, reason) when that scheduler cannot be asked."""
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
    """Return (slug, reason) when there is nobody who makes the pods of a RayCluster."""
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
        # Alternating: a scheduler that places pod by pod gives both gangs a part, and is found out.
        namespace.create([obj for pair in zip(*objects, strict=True) for obj in pair])
        started = time.monotonic()
        wait = PlacingTime(settings.timeout_s, cluster.transport.outage)
        bound = settled(namespace, kind, _GANGS, slots, settings, wait, Progress(context.emit))
        conditions = {name: told(namespace, kind, name, by_quota=by_quota) for name in _GANGS}
        waits = waits_for_pods(cluster, namespace.name) if by_quota else None
        waiting = [pod for pod in namespace.pods() if not (pod.get("spec") or {}).get("nodeName")]
        # The test's own queue is to hold one of both, which its Workload says.
        held = left_alone(namespace, kind) if by_quota else held_gangs(namespace, ray=ray)
        said = next(filter(None, (*map(why_pending, waiting), *(conditions.values() if by_quota else ()))), "")
        settled_s = round(time.monotonic() - started, 1)
        asked = len(_GANGS) * slots.gang * slots.gpus
        untold = held_back(held, bound, asked, namespace.cluster_queue, by_kueue=by_quota)
        untold = untold or _moved(cluster, context, slots, bound, namespace.name)
    return replace(
        result,
        **untold,
        said=said,
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
    """Return problem, reason and hint where others took room meanwhile, or made some."""
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
    """Return the objects of a gang; through a queue of the site its pods are admitted together."""
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
    """Return the bound pods of each gang once one is whole and nothing moved for the settle time, or at the end.

    What stands still while the scheduler may be away for an outage is no answer.
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
        # Parts of gangs that stay parts are an answer as well, after more patience.
        if any(bound.values()) and still_s >= 5 * settings.settle_s and not wait.settling:
            break
        time.sleep(min(0.5, max(left_s, 0.01)))
    return last


OBSERVER = observer_of("gang", GangResult, observe)
