# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes whose taints keep away the DaemonSets that offer their GPUs, although test pods tolerate them.

The operator tolerates only `nvidia.com/gpu` unless its values add more (NVIDIA/gpu-operator#26). A DaemonSet that does
not tolerate a taint creates no pod there and reports itself as ready, so nothing else shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...clients.kube.objects import taint_of
from ...component_stack.workloads import Workload
from ...outcome.model import Evidence, Outcome
from ...workload.nodes import Toleration, repelling, toleration_of
from ..kit.answer import Answer
from .cluster_state import NodeState

CAUSE = "taint-not-tolerated"
# Taints that represent conditions of a node, which other checks report.
_STATES = "node.kubernetes.io/"
# GPU operator's mark of a node with GPUs. Until NFD has labelled the node, the operator places nothing there.
_KNOWN = "nvidia.com/gpu.present"
FEATURE_DISCOVERY, DRA_PLUGIN = "node-feature-discovery", "nvidia-dra-driver-gpu"
# Component, and which of its values has the tolerations, by the label `app` of the DaemonSet.
_OPERANDS = "gpu-operator", "daemonsets"
_VALUES = {FEATURE_DISCOVERY: ("nfd", "worker"), DRA_PLUGIN: (DRA_PLUGIN, "kubeletPlugin")}


@dataclass(frozen=True, slots=True)
class KeptAway:
    """DaemonSets that a taint keeps off a node, and the taint."""

    taint: str
    workloads: tuple[Workload, ...]

    def answer(self, answer: Answer, node: str, what: str, **facts: Any) -> Outcome:
        """Return the failed outcome.

        Args:
            answer: makes the outcome.
            node: name of the node.
            what: what is missing there.
            facts: measured values and evidence.
        """
        names = ", ".join(workload.name for workload in self.workloads)
        one = len(self.workloads) == 1
        whose = f"DaemonSet {names}, which does" if one else f"the DaemonSets {names}, which do"
        text = f"{what}: no pod is placed there by {whose} not tolerate the node's taint {self.taint}"
        hint = (
            f"gpufleet_overrides: {self._overrides()}, then run gate gpu_stack again; or take the taint off: "
            f"kubectl taint node {node} {self.taint}-"
        )
        reported = "\n".join(
            f"{workload.name} tolerates {list(workload.tolerations or ())}" for workload in self.workloads
        )
        evidence = (
            *facts.pop("evidence", ()),
            Evidence("GET daemonsets spec.template.spec.tolerations", node, reported),
        )
        return answer.failed(CAUSE, text, hint, evidence=evidence, **facts)

    def _overrides(self) -> str:
        """Return values that tolerate the taint in addition to the present ones: a list replaces that of the chart."""
        taint = taint_of(self.taint)
        found: dict[str, str] = {}
        own = Toleration(key=taint["key"], value=taint["value"], effect=taint["effect"]).body
        for workload in self.workloads:
            entries = ", ".join(_flow(entry) for entry in (*(workload.tolerations or ()), own))
            component, group = _VALUES.get(workload.app, _OPERANDS)
            found.setdefault(component, f"{component}: {{{group}: {{tolerations: [{entries}]}}}}")
        return "{" + ", ".join(found.values()) + "}"


def _flow(entry: Mapping[str, str]) -> str:
    """Return a toleration as YAML in one line."""
    return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in entry.items()) + "}"


def kept_away(node: NodeState, workloads: Iterable[Workload]) -> KeptAway | None:
    """Return which of these workloads a taint keeps off a node. None: it keeps off none, or that is not certain."""
    taints = [taint_of(text) for text in node.taints if not text.startswith(_STATES)]
    found: dict[str, list[Workload]] = {}
    for workload in workloads:
        # A pod that was there before the taint may still run. Then the taint explains nothing.
        if workload.tolerations is None or workload.misplaced != 0:
            continue
        for text in repelling(taints, map(toleration_of, workload.tolerations))[:1]:
            found.setdefault(text, []).append(workload)
    return next((KeptAway(text, tuple(kept)) for text, kept in found.items()), None)


def is_unknown_to_the_operator(node: NodeState) -> bool:
    """Return whether the GPU operator does not recognise a node as one with GPUs. It does so by NFD's labels."""
    return node.labels.get(_KNOWN) != "true"
