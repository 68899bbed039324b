# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hardware facts of the simulated operators, from the cluster model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware, sku_or_error
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

from ..model.patch import build_model
from ..model.spec import read_spec
from ..model.values import ClusterModel
from ..model.values import Gpu as ModelGpu
from ..model.values import Node as ModelNode

# Input and output of a controller: the objects of the cluster at one moment, and its writes. No I/O.

Json = dict[str, Any]
Key = tuple[str, str]

CREATE, MERGE, STRATEGIC, REPLACE, DELETE = "create", "merge", "strategic", "replace", "delete"


@dataclass(frozen=True, slots=True)
class Change:
    """One write: `verb` on the object `name` of a kind. `manager` is the field manager."""

    manager: str
    verb: str
    kind: Kind
    name: str
    namespace: str = ""
    body: Json = field(default_factory=dict)
    subresource: str = ""


class ClusterView:
    """The objects of a cluster at one moment, by kind, namespace and name."""

    def __init__(self, objects: Mapping[Kind, Mapping[Key, Json]]) -> None:
        """Keep references to the objects; nothing is copied."""
        self._objects = objects
        self._pods_by_node: dict[str, list[Json]] | None = None

    def all(self, kind: Kind) -> Iterable[Json]:
        """Return every object of a kind."""
        return self._objects.get(kind, {}).values()

    def find(self, kind: Kind, name: str, namespace: str = "") -> Json | None:
        """Return one object."""
        return self._objects.get(kind, {}).get((namespace, name))

    def pods_on(self, node: str) -> list[Json]:
        """Return the pods that are bound to a node."""
        if self._pods_by_node is None:
            self._pods_by_node = {}
            for pod in self.all(PODS):
                self._pods_by_node.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
        return self._pods_by_node.get(node, [])


def key_of(item: Json) -> Key:
    """Return namespace and name of an object."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def labels_of(item: Json) -> Mapping[str, str]:
    """Return the labels of an object."""
    labels: Mapping[str, str] = item["metadata"].get("labels") or {}
    return labels


def annotations_of(item: Json) -> Mapping[str, str]:
    """Return the annotations of an object."""
    annotations: Mapping[str, str] = item["metadata"].get("annotations") or {}
    return annotations


def is_deleted(item: Json) -> bool:
    """Tell whether an object is being deleted."""
    return "deletionTimestamp" in item["metadata"]


def condition_of(item: Json, name: str) -> Json:
    """Return a condition of an object's status, empty if it has none of that name."""
    for condition in (item.get("status") or {}).get("conditions") or []:
        if condition.get("type") == name:
            found: Json = condition
            return found
    return {}


def is_true(item: Json, condition: str) -> bool:
    """Tell whether a condition of an object is True."""
    return condition_of(item, condition).get("status") == "True"


def available(view: ClusterView, kind: Kind, label: str, value: str) -> Json | None:
    """Return the object with that label if it is Available and not being deleted, else None."""
    for item in view.all(kind):
        if labels_of(item).get(label) == value and is_true(item, "Available") and not is_deleted(item):
            return item
    return None


def owner_reference(item: Json, api_version: str, kind: str) -> Json:
    """Return the owner reference with which the garbage collector deletes a child with its owner."""
    metadata = item["metadata"]
    reference = {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, "controller": True}


ADMITS_WHOLE, ADMITS_SINGLY, ADMITS_NOTHING = "all-or-nothing", "partial", "not-running"
GPU_RESOURCE = "nvidia.com/gpu"
_HARDWARE = RECIPES / "hardware"
# Fails where the model names no operand, since it waits for all others.
_LAST_OPERAND = "nvidia-operator-validator"


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU as the driver lists it."""

    index: int
    uuid: str
    pci_bus_id: str
    pcie_root: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One GPU node from the operators' view.

    Args:
        name: Kubernetes node name.
        machine: product name of the server.
        product: GPU product as nvidia-smi prints it.
        label: GPU product as feature discovery writes it.
        family: architecture in lower case, such as `hopper`.
        compute: compute capability, such as `9.0`.
        memory_mib: memory of one GPU.
        driver: driver version.
        cuda: CUDA version of the driver, such as `13.0`.
        gpus: GPUs that the driver lists.
        resources: extended resources that the device plugin offers; `unhealthy` of its GPUs are only in the capacity.
        replicas: number of replicas of each GPU in its label.
        mig_labels: requested configuration of the MIG manager and its state, as labels.
        taints: its taints beyond Kubernetes' own; `cordoned` accepts no pods at all.
        advertised: GPUs that the DRA driver publishes; without any its slice is missing.
        mig: whether its GPUs can be partitioned.
        pod_faults: by workload name the reason for which its pod on this node keeps failing.
    """

    name: str
    machine: str
    product: str
    label: str
    family: str
    compute: str
    memory_mib: int
    driver: str
    cuda: str
    gpus: tuple[GpuFacts, ...]
    resources: Mapping[str, int]
    advertised: tuple[GpuFacts, ...]
    mig: bool = False
    unhealthy: int = 0
    replicas: int = 1
    mig_labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    cordoned: bool = False
    pod_faults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster of the model, with its faults.

    Args:
        nodes: its GPU nodes by name.
        gang_admission: how its gang scheduler admits (all-or-nothing, partial, not-running).
        gang_largest: larger groups are admitted pod by pod; 0: no limit.
        claims_allocate: whether the devices of the DRA driver can be allocated.
        policy_state: state of the ClusterPolicy when all operands are ready.
        deleted, scaled: releases whose first Deployment was deleted, or scaled to 0.
        model: the whole model, from which the output of programs is computed.
        skus: SKU facts by name.
    """

    nodes: Mapping[str, NodeFacts]
    gang_admission: str = ADMITS_WHOLE
    gang_largest: int = 0
    claims_allocate: bool = True
    policy_state: str = "ready"
    deleted: frozenset[str] = frozenset()
    scaled: frozenset[str] = frozenset()
    model: ClusterModel | None = None
    skus: Mapping[str, Sku] = field(default_factory=dict)


def read_cluster_facts(model_file: Path, hardware: tuple[Path, ...] = ()) -> ClusterFacts:
    """Read a model file. `hardware` are directories of SKU facts besides the collection's own.

    Raises:
        InputError: the file cannot be read.
        NotFoundError: an unknown SKU.
    """
    skus = load_hardware([_HARDWARE, *hardware])
    return cluster_facts_of(build_model(read_spec(model_file), skus), skus)


def cluster_facts_of(model: ClusterModel, skus: Mapping[str, Sku]) -> ClusterFacts:
    stack = model.stack
    return ClusterFacts(
        nodes={node.name: _node(node, sku_or_error(skus, node.sku)) for node in model.nodes},
        gang_admission=stack.gang_scheduler,
        gang_largest=stack.gang_largest,
        claims_allocate=stack.dra_driver == "allocates",
        policy_state=stack.cluster_policy,
        deleted=frozenset(name for name, state in stack.components.items() if state == "deleted"),
        scaled=frozenset(name for name, state in stack.components.items() if state == "scaled-to-zero"),
        model=model,
        skus=skus,
    )


def _node(node: ModelNode, sku: Sku) -> NodeFacts:
    working = tuple(_gpu(gpu) for gpu in node.working_gpus)
    view = node.kubernetes
    faults = {} if view.operands_ready else {view.failing_operand or _LAST_OPERAND: "CrashLoopBackOff"}
    return NodeFacts(
        name=node.name,
        machine=sku.name.upper(),
        product=sku.gpu_product,
        label=sku.gpu_product_label,
        family=node.accelerator.family,
        compute=node.accelerator.compute_capability,
        memory_mib=sku.gpu_memory_mib,
        driver=node.driver_version,
        cuda=node.cuda_version,
        gpus=working,
        resources=view.resources or {GPU_RESOURCE: node.advertised_gpus},
        unhealthy=view.unhealthy_gpus,
        replicas=view.replicas,
        mig_labels={k: v for k, v in (("mig.config", view.mig_config), ("mig.config.state", view.mig_state)) if v},
        taints=view.taints,
        cordoned=view.cordoned,
        advertised=working[: node.dra_device_count],
        mig=node.accelerator.mig,
        pod_faults=faults,
    )


def _gpu(gpu: ModelGpu) -> GpuFacts:
    # The root port is on the bus before the GPU's.
    domain, bus, _rest = gpu.pci.split(":")
    return GpuFacts(gpu.index, gpu.uuid, gpu.pci, f"pci{domain}:{max(int(bus, 16) - 1, 0):02x}")
