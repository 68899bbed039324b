# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Failing operand pods: the model says which; KWOK shows it (annotation `rehearsal.gpufleet.invalid/fault`)."""

from __future__ import annotations

from collections.abc import Iterable

from ...clients.kube.kinds import PODS
from ..charts.chart import FAULT_ANNOTATION
from .cluster_facts import ClusterFacts
from .cluster_view import DELETE, MERGE, Change, ClusterView, annotations_of, is_deleted, key_of, labels_of
from .gpu_operator import present_operands
from .operands import fault_of

MANAGER = "rehearsal"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the pods to mark as failing, and those to delete because their fault is over."""
    present = present_operands(view)
    return list(_changes(view, facts, present)) if present else []


def _changes(view: ClusterView, facts: ClusterFacts, present: frozenset[str]) -> Iterable[Change]:
    for node in facts.nodes.values():
        for pod in view.pods_on(node.name):
            workload = labels_of(pod).get("app", "")
            if workload not in present or is_deleted(pod):
                continue
            fault, shown = fault_of(node, workload, present), annotations_of(pod).get(FAULT_ANNOTATION, "")
            namespace, name = key_of(pod)
            if fault and not shown:
                body = {"metadata": {"annotations": {FAULT_ANNOTATION: fault}}}
                yield Change(MANAGER, MERGE, PODS, name, namespace, body)
            elif shown and not fault:
                yield Change(MANAGER, DELETE, PODS, name, namespace)
