# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Failing operand pods: the model says which, KWOK plays it (annotation `rehearsal.gpufleet.invalid/fault`)."""

from __future__ import annotations

from collections.abc import Iterable

from ...clients.kube.kinds import PODS
from ..charts.chart import FAULT_ANNOTATION
from .gpu_operator import present_operands
from .operands import fault_of
from .truth import Truth
from .world import DELETE, MERGE, Change, World, annotations_of, is_deleted, key_of, labels_of

MANAGER = "rehearsal"


def reconcile(world: World, truth: Truth) -> list[Change]:
    """Return the pods to fail, and those to start anew because their fault is over."""
    present = present_operands(world)
    return list(_changes(world, truth, present)) if present else []


def _changes(world: World, truth: Truth, present: frozenset[str]) -> Iterable[Change]:
    for node in truth.nodes.values():
        for pod in world.pods_on(node.name):
            workload = labels_of(pod).get("app", "")
            if workload not in present or is_deleted(pod):
                continue
            fault, played = fault_of(node, workload, present), annotations_of(pod).get(FAULT_ANNOTATION, "")
            namespace, name = key_of(pod)
            if fault and not played:
                body = {"metadata": {"annotations": {FAULT_ANNOTATION: fault}}}
                yield Change(MANAGER, MERGE, PODS, name, namespace, body)
            elif played and not fault:
                yield Change(MANAGER, DELETE, PODS, name, namespace)
