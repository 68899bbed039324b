# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of the GPU operator: operands, node labels, allocatable GPUs and the state of the ClusterPolicy."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CLUSTER_POLICIES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NODES,
    RUNTIME_CLASSES,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc

from .cluster_facts import (
    CREATE,
    DELETE,
    MERGE,
    REPLACE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    NodeFacts,
    available,
    condition_of,
    is_deleted,
    is_true,
    labels_of,
    owner_reference,
)
from .network_operator import with_waiting_drivers
from .operands import (
    DEVICE_PLUGIN,
    FEATURE_DISCOVERY,
    HASH,
    Operand,
    daemon_set,
    fault_of,
    feature_labels,
    placement_labels,
    states_not_ready,
    wanted_operands,
)

MANAGER = "gpu-operator"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of the GPU operator; none while its Deployment is not available."""
    deployment = available(view, DEPLOYMENTS, "app", "gpu-operator")
    policies = sorted(view.all(CLUSTER_POLICIES), key=lambda item: str(item["metadata"]["creationTimestamp"]))
    if deployment is None or not policies or is_deleted(policies[0]):
        return []
    policy, namespace = policies[0], deployment["metadata"]["namespace"]
    facts = with_waiting_drivers(view, facts)
    wanted = wanted_operands(policy)
    sets = {item["metadata"]["name"]: item for item in _operand_sets(view, namespace)}
    changes = [
        *_runtime_class(view, policy),
        *_operands(policy, wanted, sets, namespace),
        *_nodes(view, facts, policy, wanted),
    ]
    waiting = states_not_ready(facts, wanted, sets)
    if facts.policy_state != "ready" and not waiting:
        waiting = [wanted[-1].state]
    if changes and not waiting:
        # The next pass writes the status, once it has the result of these changes.
        return changes
    return [*changes, *_status(policy, namespace, waiting)]


def _runtime_class(view: ClusterView, policy: Json) -> Iterable[Change]:
    """Create the RuntimeClass named in the policy (NVIDIA/gpu-operator, controllers/object_controls.go)."""
    name = ((policy.get("spec") or {}).get("operator") or {}).get("runtimeClass") or "nvidia"
    if view.find(RUNTIME_CLASSES, name) is None:
        metadata = {"name": name, "ownerReferences": [owner_reference(policy, "nvidia.com/v1", "ClusterPolicy")]}
        yield Change(MANAGER, CREATE, RUNTIME_CLASSES, name, body={"metadata": metadata, "handler": name})


def present_operands(view: ClusterView) -> frozenset[str]:
    """Return the names of the operands that have a DaemonSet."""
    return frozenset(item["metadata"]["name"] for item in _operand_sets(view, ""))


def _operand_sets(view: ClusterView, namespace: str) -> Iterable[Json]:
    for item in view.all(DAEMON_SETS):
        here = not namespace or item["metadata"]["namespace"] == namespace
        if here and labels_of(item).get("app.kubernetes.io/managed-by") == MANAGER:
            yield item


def _operands(policy: Json, wanted: tuple[Operand, ...], sets: dict[str, Json], namespace: str) -> Iterable[Change]:
    for operand in wanted:
        body = daemon_set(operand, policy, namespace)
        known = sets.get(operand.name)
        if known is None:
            yield Change(MANAGER, CREATE, DAEMON_SETS, operand.name, namespace, body)
        elif (known["metadata"].get("annotations") or {}).get(HASH) != body["metadata"]["annotations"][HASH]:
            yield Change(MANAGER, REPLACE, DAEMON_SETS, operand.name, namespace, body)
    for name in set(sets) - {operand.name for operand in wanted}:
        if not is_deleted(sets[name]):
            yield Change(MANAGER, DELETE, DAEMON_SETS, name, namespace)


def _nodes(view: ClusterView, facts: ClusterFacts, policy: Json, wanted: tuple[Operand, ...]) -> Iterable[Change]:
    present = frozenset(operand.name for operand in wanted)
    strategy = ((policy.get("spec") or {}).get("mig") or {}).get("strategy") or "single"
    for node in facts.nodes.values():
        item = view.find(NODES, node.name)
        if item is None:
            continue
        running = _running(view, node, present)
        labels: dict[str, str | None] = {**placement_labels(node, wanted)}
        if FEATURE_DISCOVERY in running:
            labels |= feature_labels(node, strategy)
        # The label of an operand that was switched off stays on a node unless it is removed by name.
        labels |= {
            key: None for key in labels_of(item) if key.startswith("nvidia.com/gpu.deploy.") and key not in labels
        }
        missing = {key: value for key, value in labels.items() if labels_of(item).get(key) != value}
        if missing:
            yield Change(MANAGER, MERGE, NODES, node.name, body={"metadata": {"labels": missing}})
        yield from _resources(item, node, DEVICE_PLUGIN in running)


def _running(view: ClusterView, node: NodeFacts, present: frozenset[str]) -> set[str]:
    """Return the names of the operands whose pod on the node is ready."""
    return {
        app
        for pod in view.pods_on(node.name)
        if (app := labels_of(pod).get("app", "")) in present
        and is_true(pod, "Ready")
        and not is_deleted(pod)
        and not fault_of(node, app, present)
    }


def _resources(item: Json, node: NodeFacts, serving: bool) -> Iterable[Change]:
    """Offer the node's GPUs while its device plugin runs. Without it the kubelet sets their count to 0."""
    status = item.get("status") or {}
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    offered = {key for key in capacity if key.startswith("nvidia.com/")}
    if not serving and not offered:
        return
    wanted = {key: str(count) if serving else "0" for key, count in node.resources.items()}
    wanted |= dict.fromkeys(offered - set(wanted), "0")
    # The kubelet keeps devices that the plugin reports as unhealthy in the capacity (its device manager, GetCapacity).
    usable = {key: str(max(0, int(count) - node.unhealthy)) for key, count in wanted.items()}
    if any(capacity.get(key) != count or allocatable.get(key) != usable[key] for key, count in wanted.items()):
        body = {"status": {"capacity": wanted, "allocatable": usable}}
        yield Change(MANAGER, MERGE, NODES, node.name, body=body, subresource="status")


def _status(policy: Json, namespace: str, waiting: list[str]) -> Iterable[Change]:
    """Write the state of the policy: ready, or not ready with the missing operand states."""
    if waiting:
        reason = "DriverNotReady" if "state-driver" in waiting else "OperandNotReady"
        message = f"ClusterPolicy is not ready, states not ready: [{' '.join(waiting)}]"
        wanted = {"Ready": ("False", "Error", ""), "Error": ("True", reason, message)}
    else:
        message = "ClusterPolicy is ready as all resources have been successfully reconciled"
        wanted = {"Ready": ("True", "Reconciled", message), "Error": ("False", "Ready", "")}
    state = "ready" if wanted["Ready"][0] == "True" else "notReady"
    known = {name: _condition_values(condition_of(policy, name)) for name in wanted}
    if (policy.get("status") or {}).get("state") == state and known == wanted:
        return
    conditions = [
        {
            "type": name,
            "status": value,
            "reason": reason,
            "message": message,
            "lastTransitionTime": _since(policy, name, value),
        }
        for name, (value, reason, message) in wanted.items()
    ]
    body = {"status": {"namespace": namespace, "state": state, "conditions": conditions}}
    yield Change(MANAGER, MERGE, CLUSTER_POLICIES, policy["metadata"]["name"], body=body, subresource="status")


def _condition_values(condition: Json) -> tuple[str, str, str]:
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


def _since(policy: Json, name: str, value: str) -> str:
    known = condition_of(policy, name)
    return str(known["lastTransitionTime"]) if known.get("status") == value else now_utc()
