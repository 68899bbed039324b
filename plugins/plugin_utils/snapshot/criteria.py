# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What criteria are detected from, as a snapshot knows it."""

from __future__ import annotations

from ..recipe.detect import ClusterFacts, NodeFacts
from ..recipe.os_image import os_release
from .gpus import gpu_count, gpu_product, has_gpus
from .model import Host, Snapshot
from .node import Node

_INSTANCE = "node.kubernetes.io/instance-type"


def cluster_facts(snapshot: Snapshot) -> ClusterFacts:
    """Return the facts of all nodes, of the hosts of the same name where the nodes do not say them."""
    names = sorted({*snapshot.nodes, *snapshot.hosts})
    nodes = tuple(_facts(name, snapshot.nodes.get(name, Node()), snapshot.hosts.get(name, Host())) for name in names)
    return ClusterFacts(server_version=snapshot.server.version, nodes=nodes)


def _facts(name: str, node: Node, host: Host) -> NodeFacts:
    layers = {str(adapter.get("link_layer") or "") for adapter in host.adapters.values()}
    listed = {layer for text in layers for layer in text.split(",") if layer}
    product = gpu_product(node) or next((gpu.product for gpu in host.gpus.values() if gpu.product), "")
    # A word such as `rtx-pro-6000`, in the letters that products are recognised by.
    product = product or next((gpu.kind.replace("-", " ").upper() for gpu in host.gpus.values() if gpu.kind), "")
    return NodeFacts(
        name=name,
        # Of parts of GPUs is known that there are some.
        gpus=gpu_count(node) or host.gpu_count or int(has_gpus(node)),
        gpu_product=product,
        os_id=os_release(node.os_image)[0] or host.os.get("ID", "").lower(),
        provider_id=node.provider_id,
        instance_type=node.labels.get(_INSTANCE, ""),
        labels=node.labels,
        resources=tuple(sorted(node.allocatable)),
        link_layers=tuple(sorted(listed)),
    )
