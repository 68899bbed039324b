# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The labels that node feature discovery, the GPU operator and GPU feature discovery put on a node."""

from __future__ import annotations

from .cluster_facts import NodeFacts
from .operands import Operand


def placement_labels(node: NodeFacts, wanted: tuple[Operand, ...]) -> dict[str, str]:
    """Return the labels that the DaemonSets of the operator select."""
    labels = {"feature.node.kubernetes.io/pci-10de.present": "true", "nvidia.com/gpu.present": "true"}
    for operand in wanted:
        if operand.deploy != "mig-manager" or node.mig:
            labels[operand.node_label] = "true"
    return labels


def feature_labels(node: NodeFacts, mig_strategy: str) -> dict[str, str]:
    """Return the labels that GPU feature discovery writes."""
    driver = [*node.driver.split("."), "", ""][:3]
    cuda = [*node.cuda.split("."), "0"][:2]
    compute = [*node.compute.split("."), "0"][:2]
    values = {
        "gpu.product": node.label,
        "gpu.count": str(len(node.gpus)),
        "gpu.replicas": str(node.replicas),
        "gpu.sharing-strategy": "none" if node.replicas == 1 else "time-slicing",
        "gpu.memory": str(node.memory_mib),
        "gpu.family": node.family,
        "gpu.mode": "compute",
        "gpu.machine": node.machine,
        "gpu.compute.major": compute[0],
        "gpu.compute.minor": compute[1],
        "cuda.driver.major": driver[0],
        "cuda.driver.minor": driver[1],
        "cuda.driver.rev": driver[2],
        "cuda.driver-version.major": driver[0],
        "cuda.driver-version.minor": driver[1],
        "cuda.driver-version.revision": driver[2],
        "cuda.driver-version.full": node.driver,
        "cuda.runtime.major": cuda[0],
        "cuda.runtime.minor": cuda[1],
        "cuda.runtime-version.major": cuda[0],
        "cuda.runtime-version.minor": cuda[1],
        "cuda.runtime-version.full": ".".join(cuda),
        "mig.capable": "true" if node.mig else "false",
        "mig.strategy": mig_strategy,
        "mps.capable": "false",
        **node.mig_labels,
    }
    return {f"nvidia.com/{key}": value for key, value in values.items()}
