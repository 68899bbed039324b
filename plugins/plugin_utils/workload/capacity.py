# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""GPUs that are free on nodes: those that the device plugin or DRA offers, less those that pods and claims hold.

A device plugin may give GPUs out in parts (README of NVIDIA/k8s-device-plugin): MIG devices as
`nvidia.com/mig-<profile>` or, where all of a node are alike, as `nvidia.com/gpu`; with time-slicing and MPS each GPU
several times, as `nvidia.com/gpu.shared` or, by default, still as `nvidia.com/gpu`. Two such parts may lie on one GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.conditions import condition
from ..clients.kube.dra import dra_kinds
from ..clients.kube.kinds import NODES, PODS, Kind
from ..clients.kube.node_object import Cleaner, read_node
from ..outcome.errors import NotFoundError
from ..snapshot.node import Node
from ..snapshot.quantity import whole_number
from .closed_nodes import closed
from .dra_devices import is_kept_away, is_whole_gpu
from .own_cordon import out_by
from .tolerations import Toleration

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
SHARED, MIG = f"{GPU}.shared", "nvidia.com/mig-"
# What a node without a limit of its own could run, beyond every real one.
_NO_LIMIT = 10**6
GPU_DRIVER, DOMAIN_DRIVER = "gpu.nvidia.com", "compute-domain.nvidia.com"
# The API group of ComputeDomains.
DOMAINS = "resource.nvidia.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """GPUs of one node: `total` by the device plugin or, where that offers none, by DRA; `closed` says why no
    pod may be placed there. `parts` is by resource what it gives out in place of whole GPUs, `parts_used` how much of
    that pods hold, `pods_free` how many more pods the kubelet runs."""

    name: str
    total: int
    used: int
    closed: str = ""
    by_dra: bool = False
    parts: Mapping[str, int] = field(default_factory=dict)
    parts_used: Mapping[str, int] = field(default_factory=dict)
    pods_free: int = _NO_LIMIT

    @property
    def free(self) -> int:
        """GPUs that a test may take now."""
        return 0 if self.closed else max(0, self.total - self.used)

    @property
    def free_parts(self) -> dict[str, int]:
        """By resource what a test may take now of the GPUs that are given out in parts."""
        if self.closed:
            return {}
        return {name: max(0, number - self.parts_used.get(name, 0)) for name, number in self.parts.items()}


def read_node_capacity(
    cluster: Cluster, names: Collection[str], tolerations: tuple[Toleration, ...] | None = None, roll: str = ""
) -> dict[str, NodeCapacity]:
    """Return the capacity of each of these nodes as the API server knows it now, for pods with these tolerations.

    A node that `roll` cordoned is open to them.

    Raises:
        BringupError: the API server does not answer.
    """
    return node_capacity(*read_gpu_objects(cluster), names, tolerations, roll)


def read_gpu_objects(cluster: Cluster) -> tuple[list[Json], list[Json], list[Json], list[Json]]:
    """Return all nodes, pods, claims and slices; without DRA there are none of the last two.

    Raises:
        BringupError: the API server does not answer.
    """
    kinds = dra_kinds(cluster)
    claims = _listed(cluster, kinds.claims if kinds else None)
    slices = _listed(cluster, kinds.slices if kinds else None)
    return cluster.list_objects(NODES), cluster.list_objects(PODS), claims, slices


def open_nodes(
    nodes: Iterable[Json], names: Collection[str], tolerations: tuple[Toleration, ...] | None = None
) -> set[str]:
    """Return which of these nodes are Ready and take pods of tests."""
    cleaner = Cleaner()
    there = ((*read_node(obj, cleaner), obj) for obj in nodes if obj["metadata"]["name"] in names)
    return {name for name, node, obj in there if not _closed(node, obj, tolerations)}


def _listed(cluster: Cluster, kind: Kind | None) -> list[Json]:
    """Return all of a kind; none in a cluster without DRA."""
    try:
        return cluster.list_objects(kind) if kind else []
    except NotFoundError:
        return []


def imex_nodes(cluster: Cluster) -> frozenset[str]:
    """Return the nodes on which pods can share GPU memory across hosts: their DRA driver offers channels of
    ComputeDomains, and the API server knows these.

    Raises:
        BringupError: the API server does not answer.
    """
    if not cluster.served_versions(DOMAINS):
        return frozenset()
    kinds = dra_kinds(cluster)
    slices = (item.get("spec") or {} for item in _listed(cluster, kinds.slices if kinds else None))
    return frozenset(spec.get("nodeName", "") for spec in slices if spec.get("driver") == DOMAIN_DRIVER)


def gpu_users(cluster: Cluster) -> dict[str, list[str]]:
    """Return by node the pods that hold its GPUs now, as `namespace/name`.

    Raises:
        BringupError: the API server does not answer.
    """
    found: dict[str, list[str]] = {}
    kinds = dra_kinds(cluster)
    claimed = gpu_claimants(_listed(cluster, kinds.claims if kinds else None))
    for pod in cluster.list_objects(PODS):
        if not pod_runs(pod):
            continue
        spec, metadata = pod["spec"], pod["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        if any(gpus_asked(spec).values()) or name in claimed:
            found.setdefault(spec["nodeName"], []).append(name)
    return found


def gpu_claimants(claims: Iterable[Json]) -> set[str]:
    """Return the pods for which claims of GPUs are reserved."""
    found = set()
    for claim in claims:
        status = claim.get("status") or {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
        if any(result.get("driver") == GPU_DRIVER and not result.get("adminAccess") for result in results):
            namespace = claim["metadata"]["namespace"]
            found |= {f"{namespace}/{user.get('name')}" for user in status.get("reservedFor") or []}
    return found


def node_capacity(
    nodes: Iterable[Json],
    pods: Iterable[Json],
    claims: Iterable[Json],
    slices: Iterable[Json],
    names: Collection[str],
    tolerations: tuple[Toleration, ...] | None = None,
    roll: str = "",
) -> dict[str, NodeCapacity]:
    """Return the capacity of each of these nodes; a name that is no node has none and is closed."""
    running = [pod for pod in pods if pod_runs(pod)]
    held, claimed, offered = _held(running), _claimed(claims), _offered(slices)
    there = Counter(pod["spec"]["nodeName"] for pod in running)
    found: dict[str, NodeCapacity] = {}
    cleaner = Cleaner()
    for obj in nodes:
        if obj["metadata"]["name"] in names:
            name, node = read_node(obj, cleaner)
            allocatable = node.allocatable
            amounts = {key: _whole(value) for key, value in allocatable.items() if is_gpu(key)}
            plugin = amounts.pop(GPU, 0)
            parts = {key: number for key, number in amounts.items() if number}
            # A claim would take a whole GPU away from those who share it.
            total = plugin or (0 if parts else offered[name])
            asked = held.get(name, Counter())
            found[name] = NodeCapacity(
                name=name, total=total, used=asked[GPU] + claimed[name], closed=_closed(node, obj, tolerations, roll),
                by_dra=not plugin and total > 0, parts=parts, parts_used={key: asked[key] for key in parts},
                pods_free=max(0, _whole(allocatable.get("pods")) - there[name]) if "pods" in allocatable else _NO_LIMIT,
            )  # fmt: skip
    missing = {
        name: NodeCapacity(name=name, total=0, used=0, closed="no such node") for name in names if name not in found
    }
    return {**found, **missing}


def is_gpu(resource: str) -> bool:
    """Whether a resource of the device plugin stands for GPUs or parts of them."""
    return resource.startswith((GPU, MIG))


def pod_runs(pod: Json) -> bool:
    """Whether a pod has a node, and holds there what it asked for."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return bool((pod.get("spec") or {}).get("nodeName")) and not ended


def _held(running: Iterable[Json]) -> dict[str, Counter[str]]:
    """Return by node what its pods hold of each GPU resource."""
    held: dict[str, Counter[str]] = {}
    for pod in running:
        held.setdefault(pod["spec"]["nodeName"], Counter()).update(gpus_asked(pod["spec"]))
    return held


def _claimed(claims: Iterable[Json]) -> Counter[str]:
    held: Counter[str] = Counter()
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or []:
            # Its pools are called as its nodes; sharing by adminAccess takes nothing away.
            if result.get("driver") == GPU_DRIVER and not result.get("adminAccess"):
                held[result.get("pool", "")] += 1
    return held


def _offered(slices: Iterable[Json]) -> Counter[str]:
    offered: Counter[str] = Counter()
    for item in slices:
        spec = item.get("spec") or {}
        if spec.get("driver") == GPU_DRIVER:
            offered[spec.get("nodeName", "")] += sum(
                is_whole_gpu(device) and not is_kept_away(device) for device in spec.get("devices") or []
            )
    return offered


def gpus_asked(spec: Json) -> Counter[str]:
    """Return how much of each GPU resource a pod asks for."""

    def of(container: Json) -> Counter[str]:
        limits = (container.get("resources") or {}).get("limits") or {}
        return Counter({key: _whole(value) for key, value in limits.items() if is_gpu(key)})

    asked: Counter[str] = Counter()
    for container in spec.get("containers") or []:
        asked += of(container)
    # Init containers run before the others and give back what they had.
    for container in spec.get("initContainers") or []:
        asked |= of(container)
    return asked


def _whole(value: Any) -> int:
    return whole_number(value or 0) or 0


def _closed(node: Node, obj: Json, tolerations: tuple[Toleration, ...] | None, roll: str = "") -> str:
    reason = str(condition(obj, "Ready").get("reason") or "no condition")
    return closed(node, tolerations, reason, ours=out_by(obj, roll))
