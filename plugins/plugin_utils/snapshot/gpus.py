# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which GPUs nodes have, as a snapshot says it."""

from __future__ import annotations

from collections.abc import Mapping

from .model import Snapshot
from .node import Node
from .quantity import whole_number

_PRODUCT = "nvidia.com/gpu.product"
_GPU = "nvidia.com/gpu"
# The GPU operator gives this label to every node with a GPU on its bus (NVIDIA/gpu-operator,
# controllers/state_manager.go, commonGPULabelKey), before driver, device plugin and feature discovery run there, and
# it stays when they die: of such a node is known that it has GPUs, and nothing else.
_PRESENT = "nvidia.com/gpu.present"


def gpu_count(node: Node) -> int:
    """Return how many whole GPUs a node has, 0 where nothing says it.

    The device plugin offers parts of GPUs as such (README of NVIDIA/k8s-device-plugin, "Shared Access to GPUs"; of its
    gpu-feature-discovery, "MIG Strategies"): with time-slicing and MPS each several times (`replicas`), with MIG
    strategy `single` the devices of MIG, which the label `count` counts then as well.
    """
    labelled, offered, devices = _number(node.labels, f"{_GPU}.count"), _number(node.capacity, _GPU), _devices(node)
    if node.labels.get("nvidia.com/mig.strategy") == "single" and "-MIG-" in node.labels.get(_PRODUCT, ""):
        return devices
    if _number(node.labels, f"{_GPU}.replicas") > 1:
        return labelled or devices
    if _mig(node):
        # GPUs without MIG are offered beside the devices of the others.
        return max(labelled, devices, offered)
    return offered or devices or labelled


def has_gpus(node: Node) -> bool:
    """Tell whether a node has GPUs, whole or in parts."""
    offered = _number(node.capacity, _GPU) or _mig(node) or _number(node.capacity, f"{_GPU}.shared")
    return bool(offered or gpu_count(node) or gpu_product(node) or node.labels.get(_PRESENT) == "true")


def _mig(node: Node) -> bool:
    return any(key.startswith("nvidia.com/mig-") and _number(node.capacity, key) for key in node.capacity)


def _number(said: Mapping[str, str], key: str) -> int:
    return whole_number(said.get(key, "")) or 0


def _devices(node: Node) -> int:
    return sum(attributes.get("type") == "gpu" for attributes in node.devices.values())


def gpu_product(node: Node) -> str:
    """Return the product of a node's GPUs: as feature discovery or the DRA driver names it, else empty."""
    products = (str(attributes.get("productName") or "") for attributes in node.devices.values())
    return node.labels.get(_PRODUCT) or next(filter(None, products), "")


def gpu_nodes(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the nodes that have GPUs: by count, product or label, or as the host of that name says it."""
    nodes = {name for name, node in snapshot.nodes.items() if has_gpus(node)}
    return tuple(sorted(nodes | {name for name, host in snapshot.hosts.items() if host.gpus}))
