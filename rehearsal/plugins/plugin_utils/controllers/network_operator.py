# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of the network operator: the state of its policy, its device plugins, and nvidia_peermem's dependency.

For `rdmaSharedDevicePlugin` and `sriovDevicePlugin` of a policy it creates a DaemonSet each, on nodes that have the
label of NICs by node feature discovery and do not wait for the operator's driver (Mellanox/network-operator,
manifests/state-rdma-shared-device-plugin and state-sriov-device-plugin). The policy is ready when each of them is, and
names in `appliedStates` those that are not (pkg/state/manager.go, api/v1alpha1/nicclusterpolicy_types.go).

With driver.rdma.enabled the GPU operator's driver waits, on every node with an NVIDIA NIC, for drivers of the NICs: for
the file that the operator's own OFED container makes, or with useHostMofed for a module of the host
(NVIDIA/gpu-operator, cmd/nvidia-validator/main.go: MOFED.runValidation, NvidiaPeermem.runValidation). That container
comes only with `ofedDriver` in a NicClusterPolicy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CLUSTER_POLICIES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NIC_CLUSTER_POLICIES,
    NODES,
)

from ..model.values import Node
from .cluster_facts import (
    CREATE,
    DELETE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    available,
    is_deleted,
    labels_of,
    owner_reference,
)
from .operands import rolled_out

MANAGER = "network-operator"
_DRIVER = "nvidia-driver-daemonset"
_WAITING = "PodInitializing"
_SELECTOR = {
    "feature.node.kubernetes.io/pci-15b3.present": "true",
    "network.nvidia.com/operator.mofed.wait": "false",
}


@dataclass(frozen=True, slots=True)
class DevicePlugin:
    """A device plugin of the operator: field of the policy, its state, its DaemonSet, the label `app` of its pods."""

    field: str
    state: str
    name: str
    app: str


SHARED = DevicePlugin("rdmaSharedDevicePlugin", "state-RDMA-device-plugin", "rdma-shared-dp-ds", "rdma-shared-dp")
_DEVICES = DevicePlugin("sriovDevicePlugin", "state-SRIOV-device-plugin", "sriov-device-plugin", "sriovdp")
_PLUGINS = (SHARED, _DEVICES)
PLUGIN_APPS = frozenset(plugin.app for plugin in _PLUGINS)


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of the network operator; none while its Deployment is not available."""
    deployment = available(view, DEPLOYMENTS, "app.kubernetes.io/name", MANAGER)
    policies = [item for item in view.all(NIC_CLUSTER_POLICIES) if not is_deleted(item)]
    if deployment is None or not policies:
        return []
    namespace = deployment["metadata"]["namespace"]
    return [*_labels(view, facts), *(change for policy in policies for change in _of_policy(view, policy, namespace))]


def has_nics(node: Node) -> bool:
    """Tell whether a host has NVIDIA adapters (PCI vendor 15b3). Those of EFA are not."""
    return bool(node.present_hcas) and node.fabric in ("infiniband", "roce")


def _labels(view: ClusterView, facts: ClusterFacts) -> Iterable[Change]:
    """Yield two labels of a host with NICs: that of node feature discovery, and the operator's own.

    The latter means that the host waits for no driver of the operator.
    """
    for node in facts.model.nodes if facts.model else ():
        item = view.find(NODES, node.name)
        if item is None or not has_nics(node):
            continue
        missing = {key: value for key, value in _SELECTOR.items() if labels_of(item).get(key) != value}
        if missing:
            yield Change(MANAGER, MERGE, NODES, node.name, body={"metadata": {"labels": missing}})


def _of_policy(view: ClusterView, policy: Json, namespace: str) -> Iterable[Change]:
    spec, waiting = policy.get("spec") or {}, []
    for plugin in _PLUGINS:
        known = view.find(DAEMON_SETS, plugin.name, namespace)
        if spec.get(plugin.field) and known is None:
            yield Change(MANAGER, CREATE, DAEMON_SETS, plugin.name, namespace, _daemon_set(plugin, policy, namespace))
        elif known is not None and not spec.get(plugin.field) and not is_deleted(known):
            yield Change(MANAGER, DELETE, DAEMON_SETS, plugin.name, namespace)
        if spec.get(plugin.field) and (known is None or not rolled_out(known)):
            waiting.append({"name": plugin.state, "state": "notReady"})
    status = {"state": "notReady" if waiting else "ready", "appliedStates": waiting}
    if any((policy.get("status") or {}).get(key) != value for key, value in status.items()):
        name = policy["metadata"]["name"]
        yield Change(MANAGER, MERGE, NIC_CLUSTER_POLICIES, name, body={"status": status}, subresource="status")


def _daemon_set(plugin: DevicePlugin, policy: Json, namespace: str) -> Json:
    labels = {"app": plugin.app}
    container = {"name": plugin.app, "image": f"rehearsal/{plugin.app}:stand-in"}
    own = (policy.get("spec") or {}).get("tolerations") or []
    tolerations = [*own, {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    pod = {"nodeSelector": _SELECTOR, "tolerations": tolerations, "containers": [container]}
    return {
        "metadata": {
            "name": plugin.name,
            "namespace": namespace,
            "ownerReferences": [owner_reference(policy, NIC_CLUSTER_POLICIES.api_version, NIC_CLUSTER_POLICIES.kind)],
        },
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def with_waiting_drivers(view: ClusterView, facts: ClusterFacts) -> ClusterFacts:
    """Return the facts in which the driver of a node waits for NIC drivers that nothing installs."""
    if facts.model is None or not any(_wants_ofed(policy) for policy in view.all(CLUSTER_POLICIES)):
        return facts
    if any((item.get("spec") or {}).get("ofedDriver") for item in view.all(NIC_CLUSTER_POLICIES)):
        return facts
    waiting = {node.name for node in facts.model.nodes if node.present_hcas}
    nodes = {
        name: replace(node, pod_faults={_DRIVER: _WAITING, **node.pod_faults}) if name in waiting else node
        for name, node in facts.nodes.items()
    }
    return replace(facts, nodes=nodes)


def _wants_ofed(policy: Json) -> bool:
    driver = (policy.get("spec") or {}).get("driver") or {}
    rdma = driver.get("rdma") or {}
    return driver.get("enabled", True) is not False and bool(rdma.get("enabled")) and not rdma.get("useHostMofed")
