# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe a DRA allocation: a pod claims whole GPUs (two by default), and the scheduler allocates them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...clients.kube.api_versions import DraKinds, dra_kinds
from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...clients.kube.objects import NODES
from ...component_stack.facts import stack_facts
from ...component_stack.model import components_of
from ...component_stack.read import read_workloads
from ...runtime.clock import Deadline
from ...runtime.files import RECIPES
from ...runtime.progress import Progress
from ...workload.capacity import is_kept_away, is_whole_gpu, open_nodes, uuid_of
from ...workload.follow import HELD_HINT, held_by_gates, why_pending
from ...workload.manifests import render
from ...workload.namespace import MARGIN_S, TemporaryNamespace, temporary_namespace
from ...workload.queue import PlacingTime
from ..kit.settings import setting
from ..kit.tolerations import cluster_queue_of, tolerations_of
from ..spec import ObserveContext, observer_of
from .claimed_container import SHOW_GPUS, ContainerSeen, look_into

_CHECK_ID = "dra-allocation"
Json = dict[str, Any]
_MOST_NODES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DraSettings:
    """Settings of check dra-allocation."""

    count: int = setting(
        "GPUs that the test claims, at most as many as the freest node has.", default=2, minimum=1, use="run"
    )
    image: str = setting(
        "Image of the test's pod, any with glibc; empty: the one of recipes/gpu_stack.yaml.", default="", use="run"
    )
    timeout_s: float = setting("How long the test waits for the scheduler.", default=60.0, unit="s", above=0, use="run")
    run_s: float = setting(
        "How long the pod may take to start and to list its GPUs.", default=300.0, unit="s", above=0, use="run"
    )
    cleanup_s: float = setting("Longest time to remove what the test made.", default=60.0, unit="s", above=0, use="run")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedDevice:
    """One device that was allocated to the claim. `known`: a slice of that node lists it."""

    driver: str
    pool: str
    device: str
    known: bool
    uuid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """The whole observation.

    `problem` is the slug of why no test was possible, with `reason`. `container` is what the pod's container observed;
    None: it was not read.
    """

    problem: str = ""
    reason: str = ""
    hint: str = ""
    asked: int = 0
    nodes: tuple[str, ...] = ()
    allocated: bool = False
    node: str = ""
    devices: tuple[ClaimedDevice, ...] = ()
    pool_nodes: tuple[str, ...] = ()
    container: ContainerSeen | None = None
    said: str = ""
    settled_s: float = 0.0
    leftovers: tuple[str, ...] = ()
    schema_version: int = 1


def observe(context: ObserveContext) -> ClaimResult:
    """Run the test and remove what it created.

    Raises:
        BringupError: the API server does not respond, or refuses the objects of the test.
    """
    settings = context.settings_of(_CHECK_ID, DraSettings)
    with Cluster(connection_from(context.connections)) as cluster:
        kinds = dra_kinds(cluster)
        if kinds is None:
            reason = "the API server serves no version of resource.k8s.io that we know (Kubernetes 1.32 or newer)"
            return ClaimResult(problem="dra-not-served", reason=reason)
        problem = _unusable(cluster, context, kinds)
        if problem:
            return ClaimResult(problem=problem[0], reason=problem[1])
        names = {host.node_name for host in context.site.in_scope}
        working = open_nodes(cluster.list_objects(NODES), names, tolerations_of(context))
        slices = cluster.list_objects(kinds.slices)
        free = free_devices(slices, cluster.list_objects(kinds.claims), working)
        if not free:
            return _nothing_free(slices, working)
        requested = min(settings.count, max(free.values()))
        nodes = tuple(sorted(name for name, count in free.items() if count >= requested)[:_MOST_NODES])
        return _run(cluster, context, ClaimResult(asked=requested, nodes=nodes), slices, settings, kinds)


def _unusable(cluster: Cluster, context: ObserveContext, kinds: DraKinds) -> tuple[str, str] | None:
    facts = stack_facts().dra
    components = components_of(context.recipe or {})
    component = next((entry for entry in components if entry.name == facts.component), None)
    if component is None:
        return "no-dra-driver", f"the recipe has no {facts.component}"
    workloads = [w for w in read_workloads(cluster, [component.namespace], 0.0) if w.release == component.release]
    broken = next((workload for workload in workloads if workload.state == "failed"), None)
    if not workloads or broken:
        text = f"{broken.kind} {broken.name}: {broken.reason}" if broken else "it has no workloads"
        return "driver-not-ready", text
    if cluster.find(kinds.classes, facts.device_class) is None:
        return "no-device-class", f"DeviceClass {facts.device_class} does not exist"
    return None


def _nothing_free(slices: Iterable[Json], nodes: Iterable[str]) -> ClaimResult:
    """Return that no node has a GPU for the claim, and why."""
    wanted, driver = set(nodes), stack_facts().dra.driver
    own = [entry["spec"] for entry in slices if entry["spec"]["driver"] == driver]
    devices = [d for spec in own if spec.get("nodeName") in wanted for d in spec.get("devices") or ()]
    if devices and not any(map(is_whole_gpu, devices)):
        reason = f"all {len(devices)} devices of the nodes in scope are parts of GPUs, and the test claims whole ones"
        hint = "leave one node's GPUs whole for the test, or waive dra-allocation: MIG devices are claimed by no check"
        return ClaimResult(problem="no-whole-gpus", reason=reason, hint=hint)
    return ClaimResult(problem="no-devices", reason="no node in scope publishes a free GPU")


def gpu_devices(slices: Iterable[Json], nodes: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return the node by (pool, device) for whole GPUs in slices of the GPU driver, without tainted ones."""
    wanted, driver = set(nodes), stack_facts().dra.driver
    found = {}
    for entry in slices:
        spec = entry["spec"]
        if spec["driver"] == driver and spec.get("nodeName") in wanted:
            for device in spec.get("devices") or []:
                if is_whole_gpu(device) and not is_kept_away(device):
                    found[spec["pool"]["name"], device["name"]] = spec["nodeName"]
    return found


def free_devices(slices: Iterable[Json], claims: Iterable[Json], nodes: Iterable[str]) -> dict[str, int]:
    """Return the number of GPUs by node that no claim holds."""
    # A claim with adminAccess, as for monitoring, occupies nothing. Pools of other drivers can have the same names.
    driver = stack_facts().dra.driver
    results = [r for claim in claims for r in _results(claim) if r.get("driver") == driver and not r.get("adminAccess")]
    busy = {(r["pool"], r["device"]) for r in results}
    devices = gpu_devices(slices, nodes)
    return dict(Counter(node for key, node in devices.items() if key not in busy))


def _results(claim: Json) -> list[Json]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or [])


def device_uuids(slices: Iterable[Json]) -> dict[tuple[str, str], str]:
    """Return the UUID by (pool, device) for devices in slices that have one."""
    found = {}
    for entry in slices:
        for device in entry["spec"].get("devices") or []:
            if uuid := uuid_of(device):
                found[entry["spec"]["pool"]["name"], device["name"]] = uuid
    return found


def _run(
    cluster: Cluster,
    context: ObserveContext,
    result: ClaimResult,
    slices: list[Json],
    settings: DraSettings,
    kinds: DraKinds,
) -> ClaimResult:
    pods = stack_facts().test_pods
    with temporary_namespace(
        cluster,
        "dra",
        prefix=pods.namespace_prefix,
        priority=pods.priority,
        kinds=(kinds.claims,),
        cleanup_s=settings.cleanup_s,
        emit=context.emit,
        tolerations=tolerations_of(context),
        holder=context.holder,
        cluster_queue=cluster_queue_of(context),
    ) as namespace:
        namespace.create(_objects(namespace, result, settings, kinds))
        started = time.monotonic()
        progress = Progress(context.emit)
        wait = PlacingTime(settings.timeout_s, cluster.transport.outage)
        claim, pod = settled(namespace, kinds, wait, progress)
        settled_s = round(time.monotonic() - started, 1)
        container = None
        if _results(claim) and (pod.get("spec") or {}).get("nodeName"):
            container = look_into(namespace, Deadline.after(settings.run_s), progress)
    uuids = device_uuids(slices)
    known = gpu_devices(slices, result.nodes)
    devices = tuple(
        ClaimedDevice(
            driver=r["driver"],
            pool=r["pool"],
            device=r["device"],
            known=(r["pool"], r["device"]) in known,
            uuid=uuids.get((r["pool"], r["device"]), ""),
        )
        for r in _results(claim)
    )
    on_hold = held_by_gates(pod) if pod and not devices else ""
    if on_hold:
        result = replace(result, problem="held-by-admission", reason=on_hold, hint=HELD_HINT)
    return replace(
        result,
        allocated=bool(devices),
        node=str((pod.get("spec") or {}).get("nodeName", "")),
        devices=devices,
        pool_nodes=tuple(sorted({known.get((d.pool, d.device), "") for d in devices})),
        container=container,
        said=why_pending(pod),
        settled_s=settled_s,
        leftovers=tuple(namespace.leftovers),
    )


def _objects(namespace: TemporaryNamespace, result: ClaimResult, settings: DraSettings, kinds: DraKinds) -> list[Json]:
    return render(
        RECIPES / "workloads" / "dra-allocation.yaml.j2",
        {
            "name": "two-gpus",
            "namespace": namespace.name,
            "api_version": kinds.claims.api_version,
            "exactly": kinds.exactly,
            "command": list(SHOW_GPUS),
            "count": result.asked,
            "device_class": stack_facts().dra.device_class,
            "nodes": list(result.nodes),
            "image": settings.image or stack_facts().dra.image,
            "priority_class": namespace.priority_class,
            "deadline_s": settings.timeout_s + settings.run_s + settings.cleanup_s + MARGIN_S,
            "tolerations": namespace.tolerated,
            "labels": namespace.labels,
        },
    )


def settled(namespace: TemporaryNamespace, kinds: DraKinds, wait: PlacingTime, progress: Progress) -> tuple[Json, Json]:
    """Return claim and pod once the pod is bound, or as they are when the scheduler's time is over."""
    while True:
        pod = next(iter(namespace.pods()), {})
        claim = next(iter(namespace.cluster.list_objects(kinds.claims, namespace.name)), {})
        reported = why_pending(pod) or (held_by_gates(pod) if pod else "")
        left_s = wait.left_s(partial(bool, reported))
        if ((pod.get("spec") or {}).get("nodeName") and _results(claim)) or left_s <= 0:
            return claim, pod
        progress.tick(f"DRA claim: {why_pending(pod) or 'waiting for the scheduler'}"[:180])
        time.sleep(min(0.5, max(left_s, 0.01)))


OBSERVER = observer_of("dra", ClaimResult, observe)
