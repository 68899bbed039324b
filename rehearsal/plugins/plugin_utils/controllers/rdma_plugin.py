# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of the RDMA shared device plugin: it offers the network adapters of each node to pods.

Where the network operator runs it, a node whose plugin pod is not ready offers none. Where a site allocates adapters in
another way (no DaemonSet of the operator), it is always there. A configuration that matches no adapter of a node offers
0 (Mellanox/k8s-rdma-shared-dev-plugin, pkg/resources/resources_manager.go: an empty resource server).
"""

from __future__ import annotations

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import DAEMON_SETS, NODES

from ..model.values import Node
from .cluster_facts import MERGE, Change, ClusterFacts, ClusterView, is_deleted, is_true, labels_of
from .network_operator import SHARED, has_nics

MANAGER = "rdma-shared-device-plugin"
RESOURCE = "rdma/rdma_shared_device_a"
# Number of pods that may share the adapters of a node; 63 is from the examples of the plugin.
_SHARES = 63


def adapter_offer(node: Node, *, operated: bool = False, runs: bool = True) -> dict[str, str]:
    """Return the extended resources with which a node offers its adapters to pods, and their amounts.

    Args:
        node: the node; the site's own resources are there beside those of the operator's plugin.
        operated: the network operator runs the plugin.
        runs: the operator's pod on the node is ready.
    """
    there, own = bool(node.present_hcas) and node.performance.rdma_devices, node.kubernetes.adapters
    of_plugin = own is None or (operated and has_nics(node))
    wanted = {**({RESOURCE: _SHARES} if of_plugin else {}), **(own or {})}
    if operated and not runs:
        wanted |= dict.fromkeys({RESOURCE} & set(wanted), 0)
    return {name: str(amount) if there else "0" for name, amount in wanted.items()}


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of the plugins of all nodes."""
    changes = []
    operated = any(item["metadata"]["name"] == SHARED.name for item in view.all(DAEMON_SETS))
    for node in facts.model.nodes if facts.model else ():
        item = view.find(NODES, node.name)
        if item is None or not is_true(item, "Ready"):
            continue
        allocatable = (item.get("status") or {}).get("allocatable") or {}
        amounts = adapter_offer(node, operated=operated, runs=operated and _runs(view, node.name))
        if any(amount != allocatable.get(name, "0") for name, amount in amounts.items()):
            body = {"status": {"capacity": amounts, "allocatable": amounts}}
            changes.append(Change(MANAGER, MERGE, NODES, node.name, body=body, subresource="status"))
    return changes


def _runs(view: ClusterView, node: str) -> bool:
    pods = (pod for pod in view.pods_on(node) if labels_of(pod).get("app") == SHARED.app)
    return any(is_true(pod, "Ready") and not is_deleted(pod) for pod in pods)
