# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of the network operator: the state of its policy, and what a driver that asks for nvidia_peermem waits for.

With driver.rdma.enabled the GPU operator's driver waits, on every node with a NIC of NVIDIA, for drivers of the NICs:
for the file that the operator's own OFED container makes, or with useHostMofed for a module of the host
(NVIDIA/gpu-operator, cmd/nvidia-validator/main.go: MOFED.runValidation, NvidiaPeermem.runValidation). That container
comes with `ofedDriver` in a NicClusterPolicy, and with nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from ...clients.kube.kinds import CLUSTER_POLICIES, DEPLOYMENTS, NIC_CLUSTER_POLICIES
from .cluster_facts import ClusterFacts
from .cluster_view import MERGE, Change, ClusterView, Json, available, is_deleted

MANAGER = "network-operator"
_DRIVER = "nvidia-driver-daemonset"
_WAITING = "PodInitializing"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of the network operator: a policy is ready as soon as the operator runs."""
    if not available(view, DEPLOYMENTS, "app.kubernetes.io/name", MANAGER):
        return []
    body = {"status": {"state": "ready"}}
    return [
        Change(MANAGER, MERGE, NIC_CLUSTER_POLICIES, item["metadata"]["name"], body=body, subresource="status")
        for item in view.all(NIC_CLUSTER_POLICIES)
        if not is_deleted(item) and (item.get("status") or {}).get("state") != "ready"
    ]


def with_waiting_drivers(view: ClusterView, facts: ClusterFacts) -> ClusterFacts:
    """Return the facts in which the driver of a node waits for drivers of its NICs that nothing brings."""
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
