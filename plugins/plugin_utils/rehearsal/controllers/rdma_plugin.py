# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The RDMA shared device plugin that a site runs on its nodes: it offers the network adapters to pods."""

from __future__ import annotations

from ...clients.kube.kinds import NODES
from .truth import Truth
from .world import MERGE, Change, World, is_true

MANAGER = "rdma-shared-device-plugin"
RESOURCE = "rdma/rdma_shared_device_a"
# Shared: so many pods may use the adapters at once; 63 is what the plugin's own examples have.
_SHARES = "63"


def reconcile(world: World, truth: Truth) -> list[Change]:
    """Return what the plugins of all nodes would do now."""
    changes = []
    for node in truth.model.nodes if truth.model else ():
        item = world.find(NODES, node.name)
        if item is None or not is_true(item, "Ready"):
            continue
        offered = ((item.get("status") or {}).get("allocatable") or {}).get(RESOURCE)
        wanted = _SHARES if node.present_hcas and node.performance.rdma_devices else "0"
        if wanted != (offered or "0"):
            amounts = {RESOURCE: wanted}
            body = {"status": {"capacity": amounts, "allocatable": amounts}}
            changes.append(Change(MANAGER, MERGE, NODES, node.name, body=body, subresource="status"))
    return changes
