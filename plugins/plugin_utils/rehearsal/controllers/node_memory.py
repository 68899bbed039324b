# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How much memory the kubelet of each node offers to pods."""

from __future__ import annotations

from ...clients.kube.kinds import NODES
from .truth import Truth
from .world import MERGE, Change, World

MANAGER = "rehearsal"


def reconcile(world: World, truth: Truth) -> list[Change]:
    """Return the nodes whose memory is not what the model says."""
    changes = []
    for node in truth.model.nodes if truth.model else ():
        item = world.find(NODES, node.name)
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
