# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe containers on every node in scope at once: one with all free GPUs, and two without any."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from ...clients.kube.api_versions import dra_kinds
from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.errors import ForbiddenError
from ...clients.kube.objects import PODS
from ...component_stack.facts import stack_facts
from ...hardware.sku import sku_or_error
from ...outcome.errors import BringupError
from ...runtime.files import RECIPES
from ...runtime.pool import map_bounded
from ...runtime.progress import Progress
from ...workload.capacity import GPU, NodeCapacity, claim_templates, claim_variables, gpu_requests, read_node_capacity
from ...workload.follow import held_by_gates, why_pending
from ...workload.manifests import render
from ...workload.namespace import MARGIN_S, TemporaryNamespace, temporary_namespace
from ...workload.pods import log_of_pod, warnings_in
from ...workload.queue import PlacingTime
from ..kit.settings import setting
from ..kit.tolerations import cluster_queue_of, tolerations_of
from ..spec import ObserveContext, observer_of
from .access import (
    ASKING,
    LIST_GPUS,
    LOOK,
    OWNER,
    PLAIN,
    AccessResult,
    Json,
    NodeAccess,
    looked,
    owner_seen,
    refused_by_kubelet,
)

CHECK_ID = "gpu-containers"
_WORKERS = 8
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Settings of check gpu-containers. Check secure-accelerator-access judges the same pods."""

    image: str = setting(
        "Image of the test's pods, any with glibc; empty: the one of recipes/gpu_stack.yaml.", default="", use="run"
    )
    timeout_s: float = setting("How long the test waits for the scheduler.", default=60.0, unit="s", above=0, use="run")
    run_s: float = setting(
        "How long the pods may take to start and to look.", default=300.0, unit="s", above=0, use="run"
    )
    cleanup_s: float = setting("Longest time to remove what the test made.", default=60.0, unit="s", above=0, use="run")


def observe(context: ObserveContext) -> AccessResult:
    """Run the test and remove what it created.

    Raises:
        BringupError: the API server does not respond, or refuses the objects of the test.
    """
    settings = context.settings_of(CHECK_ID, AccessSettings)
    with Cluster(connection_from(context.connections)) as cluster:
        names = {host.node_name for host in context.site.in_scope}
        gpus = {host.node_name: sku_or_error(context.hardware, host.sku).gpus for host in context.site.in_scope}
        capacities = read_node_capacity(cluster, names, tolerations_of(context))
        nodes = tuple(_requested(capacities[name], gpus[name]) for name in sorted(names))
        if all(node.closed for node in nodes):
            return AccessResult(nodes=nodes)
        return _run(cluster, context, nodes, settings)


def _requested(capacity: NodeCapacity, gpus: int) -> NodeAccess:
    """Return what a container on that node requests: all free GPUs, or one part if they are split."""
    observed = NodeAccess(node=capacity.name, closed=capacity.closed, total=capacity.total, free=capacity.free)
    if capacity.closed:
        return observed
    if capacity.total:
        count = capacity.free if capacity.by_dra or capacity.total <= gpus else min(1, capacity.free)
        return replace(observed, resource="" if capacity.by_dra else GPU, asked=count)
    part = next((name for name, free in sorted(capacity.free_parts.items()) if free), "")
    total, free = sum(capacity.parts.values()), sum(capacity.free_parts.values())
    return replace(observed, resource=part, asked=1 if part else 0, total=total, free=free)


def _run(
    cluster: Cluster, context: ObserveContext, nodes: tuple[NodeAccess, ...], settings: AccessSettings
) -> AccessResult:
    pods = stack_facts().test_pods
    tried = [node for node in nodes if not node.closed]
    dra = dra_kinds(cluster) if any(node.asked and not node.resource for node in tried) else None
    with temporary_namespace(
        cluster,
        "access",
        prefix=pods.namespace_prefix,
        priority=pods.priority,
        kinds=(dra.claims,) if dra else (),
        cleanup_s=settings.cleanup_s,
        emit=context.emit,
        tolerations=tolerations_of(context),
        holder=context.holder,
        cluster_queue=cluster_queue_of(context),
    ) as namespace:
        refused, reason = _host_path(namespace, settings)
        made = objects(namespace, tried, settings)
        namespace.create([body for body in made if body["kind"] != "Pod"])
        namespace.create_at_once([body for body in made if body["kind"] == "Pod"])
        started = time.monotonic()
        there = _waited(namespace, settings, Progress(context.emit), 2 * len(tried))
        settled_s = round(time.monotonic() - started, 1)
        warnings = warnings_in(namespace)
        observed = dict(zip([n.node for n in tried], map_bounded(
            lambda entry: _looked_at(namespace, entry[1], there, warnings, entry[0]),
            list(enumerate(tried)), _WORKERS), strict=True))  # fmt: skip
    return AccessResult(
        nodes=tuple(observed.get(node.node, node) for node in nodes),
        host_path_refused=refused,
        reason=reason,
        settled_s=settled_s,
        leftovers=tuple(namespace.leftovers),
    )


def objects(namespace: TemporaryNamespace, nodes: list[NodeAccess], settings: AccessSettings) -> list[Json]:
    """Return the claim templates, one for each size, and the pods of these nodes, numbered by their place in the list.

    Raises:
        InputError: the template does not render with these values.
    """
    made: list[Json] = []
    device_class = stack_facts().dra.device_class
    for count in sorted({node.asked for node in nodes if node.asked and not node.resource}):
        requests = gpu_requests(device_class, count)
        made += claim_templates(f"all-{count}", namespace.name, namespace.labels, requests)
    for number, node in enumerate(nodes):
        requests = () if node.resource else gpu_requests(device_class, node.asked)
        values = {
            "node": node.node,
            "name": f"n{number}",
            "namespace": namespace.name,
            "resource": node.resource,
            "count": node.asked,
            "list_gpus": list(LIST_GPUS),
            "look": list(LOOK),
            "image": settings.image or stack_facts().dra.image,
            "priority_class": namespace.priority_class,
            "labels": namespace.labels,
            "tolerations": namespace.tolerated,
            "deadline_s": settings.timeout_s + settings.run_s + settings.cleanup_s + MARGIN_S,
            **claim_variables(f"all-{node.asked}", namespace.name, namespace.labels, requests),
        }
        made += render(RECIPES / "workloads" / "gpu-access.yaml.j2", values)
    return made


def _host_path(namespace: TemporaryNamespace, settings: AccessSettings) -> tuple[str | None, str]:
    """Return the API server's response to a pod that mounts a device file of its host, without creating it.

    The same pod without the file must be accepted: a quota or policy that rejects every pod proves nothing about host
    paths.

    Returns:
        `host_path_refused` and `reason` of AccessResult.
    """
    mounted = {"name": "gpu", "hostPath": {"path": "/dev/nvidia0"}}
    container = {"name": "thief", "image": settings.image or stack_facts().dra.image}
    taking = {**container, "volumeMounts": [{"name": "gpu", "mountPath": "/dev/nvidia0"}]}
    try:
        _ask_for(namespace, "no-host-path", {"containers": [container]})
    except BringupError as error:
        return None, f"a pod without one is not taken either: {error.reason}"
    try:
        _ask_for(namespace, "host-path", {"containers": [taking], "volumes": [mounted]})
    except ForbiddenError as error:
        return error.reason or "refused", ""
    except BringupError as error:
        return None, error.reason
    return "", ""


def _ask_for(namespace: TemporaryNamespace, name: str, spec: Json) -> None:
    metadata = {"name": name, "namespace": namespace.name, "labels": namespace.labels}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    namespace.cluster.create(PODS, body, namespace.name, dry_run=True)


def _received(pods: Iterable[Json]) -> bool:
    """Return whether the scheduler has reported anything about these pods."""
    return any(why_pending(pod) or held_by_gates(pod) for pod in pods)


def _waited(
    namespace: TemporaryNamespace, settings: AccessSettings, progress: Progress, count: int
) -> Mapping[str, Json]:
    """Return the pods by name once all have ended, or after the time limits of scheduler and kubelets."""
    outage, ends = namespace.cluster.transport.outage, time.monotonic() + settings.timeout_s + settings.run_s
    wait, away_before_s = PlacingTime(settings.timeout_s, outage), outage.away_s
    while True:
        pods = namespace.pods()
        placed = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName")]
        ended = [pod for pod in pods if (pod.get("status") or {}).get("phase") in _ENDED]
        out_of_place = len(placed) < len(pods) and wait.left_s(partial(_received, pods)) <= 0
        over = time.monotonic() >= ends + outage.late_s(away_before_s)
        if len(ended) == len(pods) or over or (out_of_place and len(ended) == len(placed)):
            return {pod["metadata"]["name"]: pod for pod in pods}
        progress.tick(f"GPU containers: {len(ended)} of {len(pods)} pods looked ({count} at most)")
        time.sleep(0.5)


def _looked_at(
    namespace: TemporaryNamespace, node: NodeAccess, pods: Mapping[str, Json], warnings: Mapping[str, str], number: int
) -> NodeAccess:
    owner, none = (pods.get(f"n{number}-{role}") for role in ("owner", "none"))
    waiting = [pod for pod in (owner, none) if pod and not (pod.get("spec") or {}).get("nodeName")]
    found = replace(
        node,
        unplaced=next((why_pending(pod) or held_by_gates(pod) or "the scheduler says nothing" for pod in waiting), ""),
        refused=refused_by_kubelet(owner) if owner else "",
    )
    if owner and owner not in waiting:
        name = owner["metadata"]["name"]
        found = replace(found, owner=owner_seen(owner, *_log(namespace, owner, OWNER, warnings.get(name, ""))))
    if none and none not in waiting:
        logs = {role: _log(namespace, none, role, "") for role in (PLAIN, ASKING)}
        plain, asking = (looked(none, role, logs[role][0], logs[role][2]) for role in (PLAIN, ASKING))
        found = replace(found, plain=plain, asking=asking)
    return found


def _log(namespace: TemporaryNamespace, pod: Json, container: str, warning: str) -> tuple[str, str, str]:
    """Return a container's log, the last warning event about its pod, and why the log cannot be read."""
    if (pod.get("status") or {}).get("phase") not in ("Running", *_ENDED) or refused_by_kubelet(pod):
        return "", warning, ""
    log, unread = log_of_pod(namespace, pod, container)
    return log, warning, unread


OBSERVER = observer_of("access", AccessResult, observe)
