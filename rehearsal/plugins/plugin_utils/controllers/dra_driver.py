# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of the DRA driver: ResourceSlices of GPUs and of compute domains for each node with a ready plugin."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    DAEMON_SETS,
    NODES,
    RESOURCE_SLICES,
)

from .cluster_facts import (
    CREATE,
    DELETE,
    REPLACE,
    Change,
    ClusterFacts,
    ClusterView,
    GpuFacts,
    Json,
    NodeFacts,
    is_deleted,
    is_true,
    key_of,
    labels_of,
    owner_reference,
)

MANAGER = "nvidia-dra-driver-gpu"
GPU_DRIVER, DOMAIN_DRIVER = "gpu.nvidia.com", "compute-domain.nvidia.com"
_COMPONENT = "nvidia-dra-driver-gpu-component"
_CONTAINERS = {"gpus": GPU_DRIVER, "compute-domains": DOMAIN_DRIVER}
_TAINT = {"key": "gpu.nvidia.com/unhealthy", "value": "xid", "effect": "NoSchedule"}


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the slices to write and to delete."""
    wanted = {body["metadata"]["name"]: body for node in facts.nodes.values() for body in _slices(view, facts, node)}
    known = {
        item["metadata"]["name"]: item
        for item in view.all(RESOURCE_SLICES)
        if item["spec"]["driver"] in (GPU_DRIVER, DOMAIN_DRIVER)
    }
    changes = [_write(name, body, known.get(name)) for name, body in wanted.items()]
    gone = [
        Change(MANAGER, DELETE, RESOURCE_SLICES, name)
        for name, item in known.items()
        if name not in wanted and not is_deleted(item) and _outdated(view, item)
    ]
    return [change for change in changes if change is not None] + gone


def _outdated(view: ClusterView, item: Json) -> bool:
    """Tell whether the plugin of a slice is gone. A plugin that only restarts keeps its slices."""
    installed = any(labels_of(item).get(_COMPONENT) == "kubelet-plugin" for item in view.all(DAEMON_SETS))
    return not installed or _plugin(view, item["spec"]["nodeName"]) is not None


def _plugin(view: ClusterView, node: str) -> Json | None:
    return next((pod for pod in view.pods_on(node) if _serves(pod)), None)


def _write(name: str, body: Json, known: Json | None) -> Change | None:
    if known is None:
        return Change(MANAGER, CREATE, RESOURCE_SLICES, name, body=body)
    if _content(known) == _content(body):
        return None
    pool = {**body["spec"]["pool"], "generation": known["spec"]["pool"]["generation"] + 1}
    version = {"resourceVersion": known["metadata"]["resourceVersion"]}
    changed = {"metadata": {**body["metadata"], **version}, "spec": {**body["spec"], "pool": pool}}
    return Change(MANAGER, REPLACE, RESOURCE_SLICES, name, body=changed)


def _content(item: Json) -> list[Json]:
    # The API server adds the time to a taint.
    return [
        {**device, "taints": [{key: taint[key] for key in _TAINT} for taint in device.get("taints") or []]}
        for device in item["spec"].get("devices") or []
    ]


def _slices(view: ClusterView, facts: ClusterFacts, node: NodeFacts) -> Iterable[Json]:
    item = view.find(NODES, node.name)
    plugin = _plugin(view, node.name)
    if item is None or plugin is None:
        return
    drivers = {_CONTAINERS.get(container["name"]) for container in plugin["spec"]["containers"]}
    if GPU_DRIVER in drivers and node.advertised:
        taints = [] if facts.claims_allocate else [_TAINT]
        yield _slice(item, GPU_DRIVER, [_gpu_device(node, gpu, taints) for gpu in node.advertised])
    if DOMAIN_DRIVER in drivers:
        yield _slice(item, DOMAIN_DRIVER, [_domain_device("daemon"), _domain_device("channel")])


def _serves(pod: Json) -> bool:
    return labels_of(pod).get(_COMPONENT) == "kubelet-plugin" and is_true(pod, "Ready") and not is_deleted(pod)


def _slice(node: Json, driver: str, devices: list[Json]) -> Json:
    name = key_of(node)[1]
    suffix = hashlib.sha256(f"{node['metadata']['uid']}/{driver}".encode()).hexdigest()[:5]
    return {
        "metadata": {
            "name": f"{name}-{driver}-{suffix}",
            "ownerReferences": [owner_reference(node, "v1", "Node")],
        },
        "spec": {
            "driver": driver,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _gpu_device(node: NodeFacts, gpu: GpuFacts, taints: list[dict[str, str]]) -> Json:
    device: Json = {
        "name": f"gpu-{gpu.index}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": gpu.uuid},
            "productName": {"string": node.product},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": node.family.title()},
            "addressingMode": {"string": "HMM"},
            "cudaComputeCapability": {"version": semantic_version(node.compute)},
            "cudaDriverVersion": {"version": semantic_version(node.cuda)},
            "driverVersion": {"version": semantic_version(node.driver)},
            "resource.kubernetes.io/pciBusID": {"string": gpu.pci_bus_id},
            "resource.kubernetes.io/pcieRoot": {"string": gpu.pcie_root},
        },
        "capacity": {"memory": {"value": f"{node.memory_mib}Mi"}},
    }
    return {**device, "taints": taints} if taints else device


def _domain_device(kind: str) -> Json:
    return {"name": f"{kind}-0", "attributes": {"id": {"int": 0}, "type": {"string": kind}}}


def semantic_version(text: str) -> str:
    """Return a version in the API's form: three numbers without leading zeros (580.105.08 becomes 580.105.8)."""
    numbers = [str(int(part)) for part in text.split(".") if part.isdecimal()]
    return ".".join([*numbers, "0", "0"][:3])
