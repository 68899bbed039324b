# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Free GPUs of nodes: what the device plugin or DRA offers, less what pods and claims hold."""

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

# Devices that the pods of a test request by claims: the templates of the claims, and the parts of pod and container.
#
# Every pod of a template gets claims for itself (kubernetes.io/docs/concepts/scheduling-eviction/ dynamic-resource-
# allocation). A request gives the number of devices, never `All`: with `All` a node that lost a device runs the test
# on the devices that are left. With a number the scheduler refuses that node and reports it.

Json = dict[str, Any]
GPUS = "gpus"
# The name of a device class among the extended resources of Kubernetes (KEP-5004, DRAExtendedResource). Pods do not
# request it by this name: that feature is younger than claims.
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """A number of devices of one class for every pod. `name` is the claim's name in the pod, a DNS label."""

    name: str
    device_class: str
    count: int


def gpu_requests(device_class: str, count: int) -> tuple[DeviceRequest, ...]:
    """Return the claim request for GPUs. There is none without a device class or with a count below 1."""
    if not device_class or count < 1:
        return ()
    return (DeviceRequest(name=GPUS, device_class=device_class, count=count),)


def split_limits(limits: Mapping[str, str]) -> tuple[dict[str, str], tuple[DeviceRequest, ...]]:
    """Split the resource limits of a pod into plain resources and requests for DRA device classes."""
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
    """Return a ResourceClaimTemplate for each request. The namespace creates it in the API version of its server.

    Args:
        owner: prefix of the names of the templates (template_name).
        namespace: namespace of the pods.
        labels: labels of templates and claims.
        requests: the devices of every pod.
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
    """Return the variables with which the templates of workloads claim devices.

    `claim_templates` are the templates to create. `pod_claims` are the resourceClaims of a pod, with those of the
    templates `made_by_others`. `claims` are the claims of the container, which gets all of them.
    """
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


# A device of NVIDIA's DRA driver, as its ResourceSlice lists it. Pure.
#
# A whole GPU has type `gpu`, the type that the device class of GPUs takes. A MIG device has type `mig` and the UUID of
# its GPU; a GPU that was partitioned beforehand is not listed itself. `vfio` lists a GPU a second time, for virtual
# machines (kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/{deviceinfo,mig}.go and its chart,
# deviceclass-gpu.yaml). A GPU that the driver's health monitor lost, or that had a fatal XID, gets a taint with effect
# NoSchedule (device_health.go there; KEP-5055): the slice still lists it, and no claim gets it.

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def _part(device: Mapping[str, Any], name: str) -> Any:
    """Return a field of a device. v1beta1 keeps the fields one level deeper, under `basic`."""
    return device.get(name) or (device.get("basic") or {}).get(name) or {}


def _attribute(device: Mapping[str, Any], name: str) -> str:
    return str((_part(device, "attributes").get(name) or {}).get("string", ""))


def uuid_of(device: Mapping[str, Any]) -> str:
    """Return the UUID of a device, empty if it has none."""
    return _attribute(device, "uuid")


def is_whole_gpu(device: Mapping[str, Any]) -> bool:
    """Tell whether a device is a whole GPU, and not a part that the driver lists beside it."""
    return (_attribute(device, "type") or "gpu") == "gpu"


def is_kept_away(device: Mapping[str, Any]) -> bool:
    """Tell whether a taint keeps claims away from a device."""
    return any(taint.get("effect") in _KEEPS_AWAY for taint in _part(device, "taints") or ())


def gpus_covered(devices: Iterable[Mapping[str, Any]]) -> int:
    """Return how many GPUs these devices cover, whole or in parts.

    A device without type or with a taint is not counted.
    """
    open_ones = [device for device in devices if not is_kept_away(device)]
    whole = {uuid_of(d) or str(d.get("name")) for d in open_ones if _attribute(d, "type") == "gpu"}
    parts = {parent for d in open_ones if _attribute(d, "type") == "mig" and (parent := _attribute(d, "parentUUID"))}
    return len(whole | parts)


# Free GPUs of nodes: what the device plugin or DRA offers, less what pods and claims hold.
#
# A device plugin may share GPUs (README of NVIDIA/k8s-device-plugin). MIG devices are the resource
# `nvidia.com/mig-<profile>`, or `nvidia.com/gpu` where all of a node have one profile. With time-slicing and MPS each
# GPU is offered several times, as `nvidia.com/gpu.shared` or, by default, as `nvidia.com/gpu`. Two such parts may be
# on one GPU.

GPU = "nvidia.com/gpu"
SHARED, MIG = f"{GPU}.shared", "nvidia.com/mig-"
# Stands for a node without a limit of pods; above every real limit.
_NO_LIMIT = 10**6
GPU_DRIVER, DOMAIN_DRIVER = "gpu.nvidia.com", "compute-domain.nvidia.com"
# The API group of ComputeDomains.
DOMAINS = "resource.nvidia.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """GPUs of one node.

    Args:
        name: the node.
        total: whole GPUs, from the device plugin or, where that offers none, from DRA.
        used: whole GPUs that pods and claims hold.
        closed: why no pod may be placed there; empty on an open node.
        by_dra: `total` is from DRA.
        parts: by resource, how many parts of GPUs the device plugin offers in place of whole ones.
        parts_used: by resource, how many of these parts pods hold.
        pods_free: how many more pods the kubelet accepts.
    """

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
        """Whole GPUs that a test may take."""
        return 0 if self.closed else max(0, self.total - self.used)

    @property
    def free_parts(self) -> dict[str, int]:
        """Parts of GPUs that a test may take, by resource."""
        if self.closed:
            return {}
        return {name: max(0, number - self.parts_used.get(name, 0)) for name, number in self.parts.items()}


def read_node_capacity(
    cluster: Cluster, names: Collection[str], tolerations: tuple[Toleration, ...] | None = None, roll: str = ""
) -> dict[str, NodeCapacity]:
    """Read nodes, pods, claims and slices and return the capacity of the named nodes for pods with these tolerations.

    A node that `roll` cordoned counts as open.

    Raises:
        BringupError: the API server does not answer.
    """
    return node_capacity(*read_gpu_objects(cluster), names, tolerations, roll)


def read_gpu_objects(cluster: Cluster) -> tuple[list[Json], list[Json], list[Json], list[Json]]:
    """Return all nodes, pods, claims and slices. Claims and slices are empty in a cluster without DRA.

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
    """Return the named nodes that are Ready and accept pods of tests."""
    cleaner = Cleaner()
    there = ((*read_node(obj, cleaner), obj) for obj in nodes if obj["metadata"]["name"] in names)
    return {name for name, node, obj in there if not _closed(node, obj, tolerations)}


def _listed(cluster: Cluster, kind: Kind | None) -> list[Json]:
    """Return all objects of a kind. There are none in a cluster without DRA."""
    try:
        return cluster.list_objects(kind) if kind else []
    except NotFoundError:
        return []


def imex_nodes(cluster: Cluster) -> frozenset[str]:
    """Return the nodes on which pods can share GPU memory across hosts (IMEX).

    The DRA driver of such a node offers channels of ComputeDomains, and the API server serves that API group.

    Raises:
        BringupError: the API server does not answer.
    """
    if not cluster.served_versions(DOMAINS):
        return frozenset()
    kinds = dra_kinds(cluster)
    slices = (item.get("spec") or {} for item in _listed(cluster, kinds.slices if kinds else None))
    return frozenset(spec.get("nodeName", "") for spec in slices if spec.get("driver") == DOMAIN_DRIVER)


def gpu_users(cluster: Cluster) -> dict[str, list[str]]:
    """Return the pods that hold GPUs of a node, by node, as `namespace/name`.

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
    """Return the pods that claims of GPUs are reserved for, as `namespace/name`. Admin access holds no GPU."""
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
    """Return the capacity of each named node. A name without a node is closed and has no GPUs."""
    running = [pod for pod in pods if pod_runs(pod)]
    on_hold, claimed, offered = _on_hold(running), _claimed(claims), _offered(slices)
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
            # A claim takes a whole GPU, which would be taken from the pods that share it.
            total = plugin or (0 if parts else offered[name])
            requested = on_hold.get(name, Counter())
            found[name] = NodeCapacity(
                name=name, total=total, used=requested[GPU] + claimed[name],
                closed=_closed(node, obj, tolerations, roll),
                by_dra=not plugin and total > 0, parts=parts, parts_used={key: requested[key] for key in parts},
                pods_free=max(0, _whole(allocatable.get("pods")) - there[name]) if "pods" in allocatable else _NO_LIMIT,
            )  # fmt: skip
    missing = {
        name: NodeCapacity(name=name, total=0, used=0, closed="no such node") for name in names if name not in found
    }
    return {**found, **missing}


def is_gpu(resource: str) -> bool:
    """Tell whether a resource of the device plugin is GPUs or parts of them."""
    return resource.startswith((GPU, MIG))


def pod_runs(pod: Json) -> bool:
    """Tell whether a pod is bound to a node and has not ended, so that it holds what it requested."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return bool((pod.get("spec") or {}).get("nodeName")) and not ended


def _on_hold(running: Iterable[Json]) -> dict[str, Counter[str]]:
    """Return by node how much of each GPU resource its pods hold."""
    on_hold: dict[str, Counter[str]] = {}
    for pod in running:
        on_hold.setdefault(pod["spec"]["nodeName"], Counter()).update(gpus_asked(pod["spec"]))
    return on_hold


def _claimed(claims: Iterable[Json]) -> Counter[str]:
    on_hold: Counter[str] = Counter()
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or []:
            # The driver names its pools after the nodes. A claim with adminAccess shares a device and takes none.
            if result.get("driver") == GPU_DRIVER and not result.get("adminAccess"):
                on_hold[result.get("pool", "")] += 1
    return on_hold


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
    """Return how much of each GPU resource a pod requests."""

    def of(container: Json) -> Counter[str]:
        limits = (container.get("resources") or {}).get("limits") or {}
        return Counter({key: _whole(value) for key, value in limits.items() if is_gpu(key)})

    requested: Counter[str] = Counter()
    for container in spec.get("containers") or []:
        requested += of(container)
    # Init containers run before the others and release what they had.
    for container in spec.get("initContainers") or []:
        requested |= of(container)
    return requested


def _whole(value: Any) -> int:
    return whole_number(value or 0) or 0


def _closed(node: Node, obj: Json, tolerations: tuple[Toleration, ...] | None, roll: str = "") -> str:
    reason = str(condition(obj, "Ready").get("reason") or "no condition")
    return closed(node, tolerations, reason, ours=out_by(obj, roll))
