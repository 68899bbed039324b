# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The memory that the kubelet of each node offers to pods."""

from __future__ import annotations

from ...clients.kube.kinds import NODES
from .cluster_facts import ClusterFacts
from .cluster_view import MERGE, Change, ClusterView

MANAGER = "rehearsal"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return a patch for each node whose memory differs from the model."""
    changes = []
    for node in facts.model.nodes if facts.model else ():
        item = view.find(NODES, node.name)
        if item is None:
            continue
        offered = ((item.get("status") or {}).get("allocatable") or {}).get("memory")
        # As the API server writes it in its shortest form.
        wanted = f"{node.kubernetes.memory_gib // 1024}Ti" if node.kubernetes.memory_gib % 1024 == 0 else ""
        wanted = wanted or f"{node.kubernetes.memory_gib}Gi"
        if offered is not None and offered != wanted:
            amounts = {"memory": wanted}
            body = {"status": {"capacity": amounts, "allocatable": amounts}}
            changes.append(Change(MANAGER, MERGE, NODES, node.name, body=body, subresource="status"))
    return changes
