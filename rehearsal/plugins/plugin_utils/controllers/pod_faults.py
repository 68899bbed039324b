# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Failing operand pods: the model has the faults, KWOK shows them (annotation `rehearsal.gpufleet.invalid/fault`).

A pod of the DRA driver's kubelet plugin that looks for the driver in the wrong place stays in its init container, which
runs nvidia-smi again and again (kubernetes-sigs/dra-driver-nvidia-gpu, hack/kubelet-plugin-prestart.sh), and continues
once the driver is there.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS

from ..charts.chart import FAULT_ANNOTATION
from .cluster_facts import (
    DELETE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    annotations_of,
    is_deleted,
    key_of,
    labels_of,
)
from .gpu_operator import present_operands
from .network_operator import PLUGIN_APPS, with_waiting_drivers
from .operands import fault_of

MANAGER = "rehearsal"
_DRIVER_APP = "nvidia-driver-daemonset"
_WAITS = "PodInitializing"
_OPERATORS_ROOT, _HOSTS_ROOT = "/run/nvidia/driver", "/"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the pods to mark as failing, and those to delete because their fault is over."""
    present = present_operands(view)
    return list(_changes(view, with_waiting_drivers(view, facts), present)) if present else []


def _changes(view: ClusterView, facts: ClusterFacts, present: frozenset[str]) -> Iterable[Change]:
    for node in facts.nodes.values():
        for pod in view.pods_on(node.name):
            workload = labels_of(pod).get("app", "")
            if is_deleted(pod):
                continue
            shown = annotations_of(pod).get(FAULT_ANNOTATION, "")
            if labels_of(pod).get("nvidia-dra-driver-gpu-component") == "kubelet-plugin":
                fault = _without_driver(pod, present)
                if not fault and shown != _WAITS:
                    continue
            elif workload in present or workload in PLUGIN_APPS:
                fault = fault_of(node, workload, present)
            else:
                continue
            namespace, name = key_of(pod)
            if fault and not shown:
                body = {"metadata": {"annotations": {FAULT_ANNOTATION: fault}}}
                yield Change(MANAGER, MERGE, PODS, name, namespace, body)
            elif shown and not fault:
                yield Change(MANAGER, DELETE, PODS, name, namespace)


def _without_driver(pod: Json, present: frozenset[str]) -> str:
    """Return the fault of a plugin's pod that looks for the driver in the wrong place.

    The wrong place is the host's if the operator installs the driver, and the operator's otherwise.
    """
    elsewhere = _HOSTS_ROOT if _DRIVER_APP in present else _OPERATORS_ROOT
    env = [entry for container in pod["spec"]["containers"] for entry in container.get("env") or []]
    roots = {entry.get("value") for entry in env if entry.get("name") == "NVIDIA_DRIVER_ROOT"}
    return _WAITS if elsewhere in roots else ""
