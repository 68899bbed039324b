# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""GPUs that are free on nodes: those that the device plugin or DRA offers, less those that pods and claims hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.kinds import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from ..outcome.errors import NotFoundError
from .tolerations import Toleration, known_tolerations, repelling

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
GPU_DRIVER, DOMAIN_DRIVER = "gpu.nvidia.com", "compute-domain.nvidia.com"
# The API group of ComputeDomains.
DOMAINS = "resource.nvidia.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """GPUs of one node: `total` by the device plugin or, where that offers none, by DRA; `closed` says why no
    pod may be placed there."""

    name: str
    total: int
    used: int
    closed: str = ""
    by_dra: bool = False

    @property
    def free(self) -> int:
        """GPUs that a test may take now."""
        return 0 if self.closed else max(0, self.total - self.used)


def read_node_capacity(
    cluster: Cluster, names: Collection[str], tolerations: tuple[Toleration, ...] | None = None
) -> dict[str, NodeCapacity]:
    """Return the capacity of each of these nodes as the API server knows it now, for pods with these tolerations.

    Raises:
        BringupError: the API server does not answer.
    """
    nodes = cluster.list_objects(NODES)
    pods = cluster.list_objects(PODS)
    claims, slices = _dra(cluster, RESOURCE_CLAIMS), _dra(cluster, RESOURCE_SLICES)
    return node_capacity(nodes, pods, claims, slices, names, tolerations)


def open_nodes(
    nodes: Iterable[Json], names: Collection[str], tolerations: tuple[Toleration, ...] | None = None
) -> set[str]:
    """Return which of these nodes are Ready and take pods of tests."""
    there = ((node["metadata"]["name"], node) for node in nodes)
    return {name for name, node in there if name in names and not _closed(node, tolerations)}


def _dra(cluster: Cluster, kind: Any) -> list[Json]:
    try:
        return cluster.list_objects(kind)
    except NotFoundError:
        # A cluster without DRA.
        return []


def imex_nodes(cluster: Cluster) -> frozenset[str]:
    """Return the nodes on which pods can share GPU memory across hosts: their DRA driver offers channels of
    ComputeDomains, and the API server knows these.

    Raises:
        BringupError: the API server does not answer.
    """
    if not cluster.served_versions(DOMAINS):
        return frozenset()
    slices = (item.get("spec") or {} for item in _dra(cluster, RESOURCE_SLICES))
    return frozenset(spec.get("nodeName", "") for spec in slices if spec.get("driver") == DOMAIN_DRIVER)


def gpu_users(cluster: Cluster) -> dict[str, list[str]]:
    """Return by node the pods that hold its GPUs now, as `namespace/name`.

    Raises:
        BringupError: the API server does not answer.
    """
    found: dict[str, list[str]] = {}
    claimed = _claimants(_dra(cluster, RESOURCE_CLAIMS))
    for pod in cluster.list_objects(PODS):
        spec, metadata = pod.get("spec") or {}, pod["metadata"]
        if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        name = f"{metadata['namespace']}/{metadata['name']}"
        if _asked(spec) or name in claimed:
            found.setdefault(spec["nodeName"], []).append(name)
    return found


def _claimants(claims: Iterable[Json]) -> set[str]:
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
) -> dict[str, NodeCapacity]:
    """Return the capacity of each of these nodes; a name that is no node has none and is closed."""
    held, offered = _held(pods, claims), _offered(slices)
    found: dict[str, NodeCapacity] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        if name in names:
            plugin = _whole(((node.get("status") or {}).get("allocatable") or {}).get(GPU))
            total = plugin or offered[name]
            closed = _closed(node, tolerations)
            found[name] = NodeCapacity(
                name=name, total=total, used=held[name], closed=closed, by_dra=not plugin and total > 0
            )
    missing = {
        name: NodeCapacity(name=name, total=0, used=0, closed="no such node") for name in names if name not in found
    }
    return {**found, **missing}


def _held(pods: Iterable[Json], claims: Iterable[Json]) -> Counter[str]:
    held: Counter[str] = Counter()
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            held[node] += _asked(pod["spec"])
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
            offered[spec.get("nodeName", "")] += len(spec.get("devices") or [])
    return offered


def _asked(spec: Json) -> int:
    def of(containers: Iterable[Json]) -> list[int]:
        return [_whole(((c.get("resources") or {}).get("limits") or {}).get(GPU)) for c in containers]

    # Init containers run before the others and give back what they had.
    return max(sum(of(spec.get("containers") or [])), *of(spec.get("initContainers") or []), 0)


def _whole(value: Any) -> int:
    text = str(value or "0")
    return int(text) if text.isdigit() else 0


def _closed(node: Json, tolerations: tuple[Toleration, ...] | None) -> str:
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return "cordoned"
    ready: Json = next((c for c in (node.get("status") or {}).get("conditions") or [] if c.get("type") == "Ready"), {})
    if ready.get("status") != "True":
        return f"not Ready ({ready.get('reason') or 'no condition'})"
    taints = repelling(spec.get("taints") or [], known_tolerations() if tolerations is None else tolerations)
    return f"taint {', '.join(taints)}" if taints else ""
