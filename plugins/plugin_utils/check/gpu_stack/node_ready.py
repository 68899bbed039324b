# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every host of the inventory is a node that takes pods."""

from __future__ import annotations

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind, node_subject
from ...site.model import Host
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext
from .observe_cluster import OBSERVER
from .roots import node_fault, shielded
from .view import ClusterView

SPEC = CheckSpec(
    id="node-ready",
    gate="gpu_stack",
    title="Every host is a Ready node",
    per=SubjectKind.NODE,
    requires=("kubernetes",),
    causes=("node-missing", "node-not-ready", "node-cordoned", "node-pressure"),
)
_HINTS = {
    "node-missing": "join the host to the cluster, or set gpufleet_node_name: kubectl get nodes",
    "node-not-ready": "kubectl describe node {node}; journalctl -u kubelet on the host",
    "node-cordoned": "find out who cordoned it and why; then kubectl uncordon {node}",
    "node-pressure": "kubectl describe node {node}; free the resource it names",
}


def judge(view: ClusterView, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome per host in scope."""
    return tuple(_one(view, context, host) for host in context.site.in_scope)


def _one(view: ClusterView, context: JudgeContext, host: Host) -> Outcome:
    answer = Answer(SPEC, context, node_subject(host.name))
    hidden = shielded(answer, view)
    if hidden:
        return hidden
    if not view.nodes:
        return answer.unknown("no-data", "the API server listed no nodes", "kubectl get nodes")
    node = view.node(host.node_name)
    fault = node_fault(node)
    facts = {
        "measured": (Measure("ready", node.ready if node else "missing"),),
        "expected": (Expectation("ready", "==", "True", Basis.INVENTORY),),
        "evidence": (Evidence("GET /api/v1/nodes", host.node_name, node.reason if node else ""),),
    }
    if fault:
        cause, text = fault
        hint = _HINTS[cause].format(node=host.node_name)
        return answer.failed(cause, f"node {host.node_name}: {text}", hint, **facts)
    return answer.passed(f"node {host.node_name} is Ready and takes pods", **facts)


CHECK = Check(SPEC, OBSERVER, judge)
