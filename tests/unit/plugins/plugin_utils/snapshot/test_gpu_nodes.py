# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a snapshot have GPUs, and how many whole ones, however a cluster gives them out.

Labels and resources are those of NVIDIA/k8s-device-plugin and its gpu-feature-discovery, as their READMEs show them.
"""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.measure import cluster_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    COLLECTORS,
    Attributes,
    Collected,
    CollectorResult,
    Node,
    Snapshot,
    gpu_count,
    gpu_nodes,
    has_gpus,
)

PRODUCT, COUNT, REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.replicas"
STRATEGY, GPU, MIG = "nvidia.com/mig.strategy", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
H100 = "NVIDIA-H100-80GB-HBM3"


def devices(kind: str, count: int) -> dict[str, Attributes]:
    return {f"gpu.nvidia.com/n/{kind}-{n}": {"type": kind, "productName": "NVIDIA H100"} for n in range(count)}


def node(labels: dict[str, str], capacity: dict[str, str], **more: dict[str, Attributes]) -> Node:
    return Node(labels=labels, capacity=capacity, **more)


@pytest.mark.parametrize(
    ("seen", "count", "there"),
    [
        (node({PRODUCT: H100, COUNT: "8", REPLICAS: "1"}, {GPU: "8"}), 8, True),
        # One of eight is not given out: the plugin knows better than the label.
        (node({PRODUCT: H100, COUNT: "8"}, {GPU: "7"}), 7, True),
        (node({PRODUCT: f"{H100}-SHARED", COUNT: "8", REPLICAS: "4"}, {GPU: "32"}), 8, True),
        (node({PRODUCT: H100, COUNT: "8", REPLICAS: "4"}, {GPU: "0", f"{GPU}.shared": "32"}), 8, True),
        (node({PRODUCT: f"{H100}-MIG-1g.10gb", COUNT: "56", STRATEGY: "single"}, {GPU: "56"}), 0, True),
        (node({}, {f"{GPU}.shared": "1k"}), 0, True),
        # No GPU is in MIG mode, whatever the strategy would be.
        (node({PRODUCT: H100, COUNT: "8", STRATEGY: "single"}, {GPU: "8"}), 8, True),
        (node({PRODUCT: H100, COUNT: "8", STRATEGY: "mixed"}, {GPU: "4", MIG: "28"}), 8, True),
        (node({}, {GPU: "0", MIG: "56"}), 0, True),
        (node({}, {}, devices=devices("gpu", 8) | devices("mig", 8)), 8, True),
        (node({}, {}, devices=devices("mig", 7)), 0, True),
        (node({PRODUCT: H100, COUNT: "8"}, {}), 8, True),
        # Feature discovery and the device plugin have died there, or never ran: the operator's own label stays.
        (node({"nvidia.com/gpu.present": "true"}, {}), 0, True),
        (node({"nvidia.com/gpu.present": "true"}, {GPU: "0"}), 0, True),
        (node({"nvidia.com/gpu.present": "false"}, {}), 0, False),
        (node({"kubernetes.io/arch": "arm64"}, {"cpu": "64", GPU: "0"}), 0, False),
        (Node(operating_system="windows"), 0, False),
    ],
)
def test_whole_gpus_are_counted_and_parts_are_seen(seen: Node, count: int, there: bool) -> None:
    assert (gpu_count(seen), has_gpus(seen)) == (count, there)
    collectors = dict.fromkeys(COLLECTORS, CollectorResult(state=Collected.WHOLE))
    snapshot = Snapshot(taken="", made_by="", collectors=collectors, nodes={"n": seen})
    assert gpu_nodes(snapshot) == (("n",) if there else ())
    assert bool(cluster_facts(snapshot).gpu_nodes) == there
