# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of the RDMA shared device plugin: it offers the network adapters of each node to pods."""

from __future__ import annotations

from ...clients.kube.kinds import NODES
from ..model.values import Node
from .cluster_facts import ClusterFacts
from .cluster_view import MERGE, Change, ClusterView, is_true

MANAGER = "rdma-shared-device-plugin"
RESOURCE = "rdma/rdma_shared_device_a"
# The number of pods that may share the adapters of a node; 63 is from the examples of the plugin.
_SHARES = 63


def adapter_offer(node: Node) -> dict[str, str]:
    """Return the extended resources with which a node offers its adapters to pods, and how much of each."""
    there = bool(node.present_hcas) and node.performance.rdma_devices
    wanted = {RESOURCE: _SHARES} if node.kubernetes.adapters is None else node.kubernetes.adapters
    return {name: str(amount) if there else "0" for name, amount in wanted.items()}


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of the plugins of all nodes."""
    changes = []
    for node in facts.model.nodes if facts.model else ():
        item = view.find(NODES, node.name)
        if item is None or not is_true(item, "Ready"):
            continue
        allocatable = (item.get("status") or {}).get("allocatable") or {}
        amounts = adapter_offer(node)
        if any(amount != allocatable.get(name, "0") for name, amount in amounts.items()):
            body = {"status": {"capacity": amounts, "allocatable": amounts}}
            changes.append(Change(MANAGER, MERGE, NODES, node.name, body=body, subresource="status"))
    return changes
