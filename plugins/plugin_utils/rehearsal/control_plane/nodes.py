# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Kubernetes nodes of a rehearsal, as KWOK plays them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MANAGED_BY = "gpufleet-rehearsal"
_KUBELET = "v1.36.3"
_NOT_READY = "node.kubernetes.io/not-ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node.

    Args:
        labels: added to the ones that every kubelet sets.
        capacity: cpu, memory, pods, ...; no `nvidia.com/gpu`: that is for the simulated operator to add.
        info: fields of `status.nodeInfo` (kernelVersion, osImage, containerRuntimeVersion, ...).
    """

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, str] = field(default_factory=lambda: {"cpu": "224", "memory": "2Ti", "pods": "250"})
    taints: tuple[dict[str, str], ...] = ()
    info: dict[str, str] = field(default_factory=dict)


def node_object(spec: NodeSpec) -> dict[str, Any]:
    """Return the Node as a kubelet registers it."""
    own = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "type": "kwok",
    }
    capacity = {"ephemeral-storage": "3Ti", **spec.capacity}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.name,
            "labels": {**own, **spec.labels},
            "annotations": {"kwok.x-k8s.io/node": "fake", **spec.annotations},
        },
        "spec": {"taints": [dict(taint) for taint in spec.taints]},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": _KUBELET,
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.8.0-60-generic",
                "osImage": "Ubuntu 24.04.3 LTS",
                **spec.info,
            },
        },
    }


def is_ready(node: dict[str, Any]) -> bool:
    """Whether a node's condition Ready is True and pods may come: the taint of its first moments is gone."""
    if any(taint.get("key") == _NOT_READY for taint in node.get("spec", {}).get("taints") or []):
        return False
    conditions = node.get("status", {}).get("conditions") or []
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)
