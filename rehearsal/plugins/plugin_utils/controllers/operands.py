# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Operands of the GPU operator, and the labels and memory of nodes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import read_yaml

from .cluster_facts import MERGE, Change, ClusterFacts, ClusterView, Json, NodeFacts, owner_reference

# Operands of the GPU operator: those that a policy enables, their DaemonSets, and their faults.

DEVICE_PLUGIN, FEATURE_DISCOVERY = "nvidia-device-plugin-daemonset", "gpu-feature-discovery"
HASH = "nvidia.com/last-applied-hash"
_FACTS = Path(__file__).with_name("operands.yaml")
_GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand, from operands.yaml."""

    state: str
    name: str
    policy: str
    enabled: bool
    deploy: str
    component: str
    containers: tuple[str, ...]
    needs: tuple[str, ...]

    @property
    def node_label(self) -> str:
        """Label that selects the nodes on which it runs."""
        return f"nvidia.com/gpu.deploy.{self.deploy}"


@lru_cache(maxsize=1)
def all_operands() -> tuple[Operand, ...]:
    """Return every operand, in the order of the operator's states."""
    entries = read_yaml(_FACTS)
    return tuple(
        Operand(**{**entry, "containers": tuple(entry["containers"]), "needs": tuple(entry["needs"])})
        for entry in entries
    )


def wanted_operands(policy: Json) -> tuple[Operand, ...]:
    """Return the operands that a ClusterPolicy enables."""
    spec = policy.get("spec") or {}
    return tuple(
        operand
        for operand in all_operands()
        if not operand.policy or (spec.get(operand.policy) or {}).get("enabled", operand.enabled) is not False
    )


def daemon_set(operand: Operand, policy: Json, namespace: str) -> Json:
    """Return the DaemonSet of an operand, annotated with the hash of its content."""
    spec = policy.get("spec") or {}
    common = spec.get("daemonsets") or {}
    image = spec.get(operand.policy) or {}
    labels = {"app": operand.name, "app.kubernetes.io/component": operand.component}
    managed = {"app.kubernetes.io/managed-by": "gpu-operator", "app.kubernetes.io/part-of": "nvidia-gpu"}
    containers = [
        {"name": name, "image": f"rehearsal/{operand.component}:{image.get('version') or 'stand-in'}"}
        for name in operand.containers
    ]
    pod = {
        "nodeSelector": {operand.node_label: "true"},
        "priorityClassName": common.get("priorityClassName") or "system-node-critical",
        # A configured list replaces the default (NVIDIA/gpu-operator, controllers/object_controls.go:
        # applyCommonDaemonsetConfig).
        "tolerations": common.get("tolerations") or [_GPU_TAINT],
        "containers": containers,
    }
    body: Json = {
        "metadata": {"name": operand.name, "namespace": namespace, "labels": {**labels, **managed}},
        "spec": {
            "selector": {"matchLabels": {"app": operand.name}},
            "template": {"metadata": {"labels": {**labels, **managed}}, "spec": pod},
        },
    }
    if ((spec.get("driver") or {}).get("upgradePolicy") or {}).get("autoUpgrade") and operand.policy == "driver":
        # The upgrade controller replaces driver pods, node by node (assets/state-driver/0500_daemonset.yaml).
        body["spec"]["updateStrategy"] = {"type": "OnDelete"}
    body["metadata"]["annotations"] = {
        HASH: hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16],
    }
    body["metadata"]["ownerReferences"] = [owner_reference(policy, "nvidia.com/v1", "ClusterPolicy")]
    return body


def fault_of(node: NodeFacts, workload: str, present: frozenset[str]) -> str:
    """Return why the pod of a workload on a node does not become ready; empty if it does.

    Args:
        node: the node of the model.
        workload: name of the DaemonSet.
        present: names of the operands that the policy enables; only those can block others.
    """
    own = node.pod_faults.get(workload)
    if own:
        return own
    for operand in all_operands():
        if operand.name == workload:
            blocked = any(need in present and fault_of(node, need, present) for need in operand.needs)
            return "PodInitializing" if blocked else ""
    return ""


def states_not_ready(facts: ClusterFacts, wanted: tuple[Operand, ...], sets: dict[str, Json]) -> list[str]:
    """Return the operator's states that are not ready, in order.

    Args:
        facts: the cluster of the model.
        wanted: the operands that the policy enables.
        sets: the operands' DaemonSets by name.
    """
    present = frozenset(operand.name for operand in wanted)
    failing = {
        operand.name for operand in wanted for node in facts.nodes.values() if fault_of(node, operand.name, present)
    }
    return [
        operand.state
        for operand in wanted
        if operand.name in failing or operand.name not in sets or not rolled_out(sets[operand.name])
    ]


def rolled_out(item: Json) -> bool:
    """Tell whether all pods of a DaemonSet are ready and of its current revision."""
    status = item.get("status") or {}
    desired = status.get("desiredNumberScheduled", -1)
    observed = status.get("observedGeneration", 0) >= item["metadata"].get("generation", 1)
    return bool(
        observed and status.get("numberReady", 0) == desired and (status.get("updatedNumberScheduled", 0) == desired)
    )


# Labels of a node from node feature discovery, the GPU operator and GPU feature discovery.


def placement_labels(node: NodeFacts, wanted: tuple[Operand, ...]) -> dict[str, str]:
    """Return the labels that the operator's DaemonSets select."""
    labels = {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.present": "true"}
    for operand in wanted:
        if operand.deploy != "mig-manager" or node.mig:
            labels[operand.node_label] = "true"
    return labels


def feature_labels(node: NodeFacts, mig_strategy: str) -> dict[str, str]:
    """Return the labels that GPU feature discovery writes."""
    driver = [*node.driver.split("."), "", ""][:3]
    cuda = [*node.cuda.split("."), "0"][:2]
    compute = [*node.compute.split("."), "0"][:2]
    values = {
        "gpu.product": node.label,
        "gpu.count": str(len(node.gpus)),
        "gpu.replicas": str(node.replicas),
        "gpu.sharing-strategy": "none" if node.replicas == 1 else "time-slicing",
        "gpu.memory": str(node.memory_mib),
        "gpu.family": node.family,
        "gpu.mode": "compute",
        "gpu.machine": node.machine,
        "gpu.compute.major": compute[0],
        "gpu.compute.minor": compute[1],
        "cuda.driver.major": driver[0],
        "cuda.driver.minor": driver[1],
        "cuda.driver.rev": driver[2],
        "cuda.driver-version.major": driver[0],
        "cuda.driver-version.minor": driver[1],
        "cuda.driver-version.revision": driver[2],
        "cuda.driver-version.full": node.driver,
        "cuda.runtime.major": cuda[0],
        "cuda.runtime.minor": cuda[1],
        "cuda.runtime-version.major": cuda[0],
        "cuda.runtime-version.minor": cuda[1],
        "cuda.runtime-version.full": ".".join(cuda),
        "mig.capable": "true" if node.mig else "false",
        "mig.strategy": mig_strategy,
        "mps.capable": "false",
        **node.mig_labels,
    }
    return {f"nvidia.com/{key}": value for key, value in values.items()}


# Memory that the kubelet of each node offers to pods.

MANAGER = "rehearsal"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return a patch for each node whose memory differs from the model."""
    changes = []
    for node in facts.model.nodes if facts.model else ():
        item = view.find(NODES, node.name)
        if item is None:
            continue
        offered = ((item.get("status") or {}).get("allocatable") or {}).get("memory")
        # As the API server writes it, in the shortest form.
        wanted = f"{node.kubernetes.memory_gib // 1024}Ti" if node.kubernetes.memory_gib % 1024 == 0 else ""
        wanted = wanted or f"{node.kubernetes.memory_gib}Gi"
        if offered is not None and offered != wanted:
            amounts = {"memory": wanted}
            body = {"status": {"capacity": amounts, "allocatable": amounts}}
            changes.append(Change(MANAGER, MERGE, NODES, node.name, body=body, subresource="status"))
    return changes
