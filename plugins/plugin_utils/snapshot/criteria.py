# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What criteria are detected from, as a snapshot knows it."""

from __future__ import annotations

from ..recipe.detect import ClusterFacts, NodeFacts
from ..recipe.os_image import os_release
from .model import Host, Node, Snapshot

_PRODUCT = "nvidia.com/gpu.product"
_GPU = "nvidia.com/gpu"
_INSTANCE = "node.kubernetes.io/instance-type"


def cluster_facts(snapshot: Snapshot) -> ClusterFacts:
    """Return the facts of all nodes, of the hosts of the same name where the nodes do not say them."""
    names = sorted({*snapshot.nodes, *snapshot.hosts})
    nodes = tuple(_facts(name, snapshot.nodes.get(name, Node()), snapshot.hosts.get(name, Host())) for name in names)
    return ClusterFacts(server_version=snapshot.server.version, nodes=nodes)


def gpu_count(node: Node) -> int:
    """Return how many whole GPUs a node has: by its plugin, else its devices, else what feature discovery counts."""
    counts = (node.capacity.get(_GPU, ""), str(_devices(node)), node.labels.get(f"{_GPU}.count", ""))
    return next((int(count) for count in counts if count.isdecimal() and int(count)), 0)


def _devices(node: Node) -> int:
    return sum(attributes.get("type") == "gpu" for attributes in node.devices.values())


def gpu_product(node: Node) -> str:
    """Return the product of a node's GPUs: as feature discovery or the DRA driver names it, else empty."""
    products = (str(attributes.get("productName") or "") for attributes in node.devices.values())
    return node.labels.get(_PRODUCT) or next(filter(None, products), "")


def _facts(name: str, node: Node, host: Host) -> NodeFacts:
    layers = {str(adapter.get("link_layer") or "") for adapter in host.adapters.values()}
    listed = {layer for text in layers for layer in text.split(",") if layer}
    product = gpu_product(node) or next((gpu.product for gpu in host.gpus.values() if gpu.product), "")
    return NodeFacts(
        name=name,
        gpus=gpu_count(node) or len(host.gpus),
        gpu_product=product,
        os_id=os_release(node.os_image)[0] or host.os.get("ID", "").lower(),
        provider_id=node.provider_id,
        instance_type=node.labels.get(_INSTANCE, ""),
        labels=node.labels,
        resources=tuple(sorted(node.allocatable)),
        link_layers=tuple(sorted(listed)),
    )
