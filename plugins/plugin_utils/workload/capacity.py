# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""GPUs that are free on nodes: those that the device plugin or DRA offers, less those that pods and claims hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..clients.kube.api_versions import dra_kinds
from ..clients.kube.cluster import Cluster
from ..clients.kube.objects import NODES, PODS, Cleaner, Kind, condition, read_node
from ..outcome.errors import NotFoundError
from ..snapshot.model import Node, whole_number
from .nodes import Toleration, closed, out_by

# Devices that the pods of a test ask for by claims: the templates of these, and what pods and containers say.
#
# Every pod of a template gets claims of its own (kubernetes.io/docs/concepts/scheduling-eviction/ dynamic-resource-
# allocation). A request says how many devices it wants and not `All`: with `All` a node that lost a device serves
# the test with those that are left, with a number the scheduler refuses it and says so.

Json = dict[str, Any]
GPUS = "gpus"
# How Kubernetes itself names a device class among resources (KEP-5004, DRAExtendedResource). Not asked for as such:
# that feature is younger than claims.
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """So many devices of a class for every pod; `name` is that of the claim in a pod (a DNS label)."""

    name: str
    device_class: str
    count: int


def gpu_requests(device_class: str, count: int) -> tuple[DeviceRequest, ...]:
    """Return the request for GPUs; none without a class or without GPUs."""
    if not device_class or count < 1:
        return ()
    return (DeviceRequest(name=GPUS, device_class=device_class, count=count),)


def split_limits(limits: Mapping[str, str]) -> tuple[dict[str, str], tuple[DeviceRequest, ...]]:
    """Return the resources of a pod that are none of DRA, and the requests for those that are device classes."""
    classes = {name: amount for name, amount in limits.items() if name.startswith(CLASS_PREFIX)}
    plain = {name: amount for name, amount in limits.items() if name not in classes}
    numbered = enumerate(sorted(classes.items()))
    return plain, tuple(
        DeviceRequest(name=f"adapters-{number}", device_class=name.removeprefix(CLASS_PREFIX), count=int(amount))
        for number, (name, amount) in numbered
        if int(amount) > 0
    )


def claim_templates(
    owner: str, namespace: str, labels: Mapping[str, str], requests: Sequence[DeviceRequest]
) -> list[Json]:
    """Return a ResourceClaimTemplate for each request; a namespace makes it in the version that its server has.

    Args:
        owner: begin of the names of the templates (template_name).
        namespace: where the pods are.
        labels: of templates and claims.
        requests: what every pod wants.
    """
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": template_name(owner, request), "namespace": namespace, "labels": dict(labels)},
            "spec": {"metadata": {"labels": dict(labels)}, "spec": {"devices": {"requests": [_body(request)]}}},
        }
        for request in requests
    ]


def claim_variables(
    owner: str,
    namespace: str,
    labels: Mapping[str, str],
    requests: Sequence[DeviceRequest],
    made_by_others: Sequence[Json] = (),
) -> Json:
    """Return what the templates of workloads need to claim devices: `claim_templates`, `pod_claims` (resourceClaims of
    a pod, those of templates `made_by_others` included) and `claims` (of the container that gets all of them)."""
    own = [{"name": entry.name, "resourceClaimTemplateName": template_name(owner, entry)} for entry in requests]
    claimed = [*own, *made_by_others]
    return {
        "claim_templates": claim_templates(owner, namespace, labels, requests),
        "pod_claims": claimed,
        "claims": [{"name": entry["name"]} for entry in claimed],
    }


def template_name(owner: str, request: DeviceRequest) -> str:
    """Return the name of the template of a request."""
    return f"{owner}-{request.name}"


def _body(request: DeviceRequest) -> Json:
    wanted = {"deviceClassName": request.device_class, "allocationMode": "ExactCount", "count": request.count}
    return {"name": request.name, "exactly": wanted}


# What a device of NVIDIA's DRA driver is, as its ResourceSlice says it. Pure.
#
# Whole GPUs have type `gpu`, which is what the class of GPUs takes; MIG devices have type `mig` and the UUID of the
# GPU that they are parts of, and where a GPU was parted beforehand it is not listed itself; `vfio` is a GPU once
# more, for virtual machines (kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/{deviceinfo,mig}.go and
# its chart, deviceclass-gpu.yaml). A GPU that its health monitor lost, or that had a fatal XID, gets a taint with
# effect NoSchedule (device_health.go there; KEP-5055): no claim gets it, while the slice lists it on.

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def _part(device: Mapping[str, Any], name: str) -> Any:
    """Return a part of a device; v1beta1 keeps it one level deeper."""
    return device.get(name) or (device.get("basic") or {}).get(name) or {}


def _attribute(device: Mapping[str, Any], name: str) -> str:
    return str((_part(device, "attributes").get(name) or {}).get("string", ""))


def uuid_of(device: Mapping[str, Any]) -> str:
    """Return the UUID of a device, empty if it has none."""
    return _attribute(device, "uuid")


def is_whole_gpu(device: Mapping[str, Any]) -> bool:
    """Tell whether a device is a GPU and no part of one that the driver lists beside it."""
    return (_attribute(device, "type") or "gpu") == "gpu"


def is_kept_away(device: Mapping[str, Any]) -> bool:
    """Tell whether a taint keeps claims away from a device."""
    return any(taint.get("effect") in _KEEPS_AWAY for taint in _part(device, "taints") or ())


def gpus_covered(devices: Iterable[Mapping[str, Any]]) -> int:
    """Return of how many GPUs these devices are the whole or parts; what has no type, or a taint, counts for none."""
    open_ones = [device for device in devices if not is_kept_away(device)]
    whole = {uuid_of(d) or str(d.get("name")) for d in open_ones if _attribute(d, "type") == "gpu"}
    parts = {parent for d in open_ones if _attribute(d, "type") == "mig" and (parent := _attribute(d, "parentUUID"))}
    return len(whole | parts)


# GPUs that are free on nodes: those that the device plugin or DRA offers, less those that pods and claims hold.
#
# A device plugin may give GPUs out in parts (README of NVIDIA/k8s-device-plugin): MIG devices as
# `nvidia.com/mig-<profile>` or, where all of a node are alike, as `nvidia.com/gpu`; with time-slicing and MPS each
# GPU several times, as `nvidia.com/gpu.shared` or, by default, still as `nvidia.com/gpu`. Two such parts may lie on
# one GPU.

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
