# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every host of the inventory is a node that takes pods."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..spec import Check, CheckSpec, JudgeContext, needs
from .cluster_host import ClusterHost, per_host
from .cluster_state import ClusterState
from .observe_cluster import OBSERVER
from .roots import closed_by_taint, node_fault

SPEC = CheckSpec(
    id="node-ready",
    gate="gpu_stack",
    title="Every host is a Ready node",
    per=SubjectKind.NODE,
    applies=(needs("kubernetes"),),
    causes=("node-missing", "node-not-ready", "node-cordoned", "node-pressure"),
)
_HINTS = {
    "node-missing": "join the host to the cluster, or set gpufleet_node_name: kubectl get nodes",
    "node-not-ready": "kubectl describe node {node}; journalctl -u kubelet on the host",
    "node-cordoned": "find out who cordoned it and why; then kubectl uncordon {node}",
    "node-pressure": "kubectl describe node {node}; free the resource it names",
}


def judge(observed: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host. A host without a node in the cluster fails, like one that is not Ready."""
    return per_host(SPEC, observed, context, _judge_host, needs_sku=False)


def _judge_host(host: ClusterHost) -> Outcome:
    node, name = host.node, host.entry.node_name
    fault = node_fault(node)
    facts: dict[str, Any] = {
        "measured": (Measure("ready", node.ready if node else "missing"),),
        "expected": (Expectation("ready", "==", "True", Basis.INVENTORY),),
        "evidence": (Evidence("GET /api/v1/nodes", name, node.reason if node else ""),),
    }
    taints = () if fault else closed_by_taint(node, host.context)
    if taints:
        return _tainted(host, taints, facts)
    if fault:
        cause, text = fault
        hint = _HINTS[cause].format(node=name)
        return host.answer.failed(cause, f"node {name}: {text}", hint, **facts)
    return host.answer.passed(f"node {name} is Ready and takes pods", **facts)


def _tainted(host: ClusterHost, taints: tuple[str, ...], facts: dict[str, Any]) -> Outcome:
    """Return the outcome for a node on which no test can run: reserved for others, or not set up yet.

    That is no fault.
    """
    name = host.entry.node_name
    hint = (
        f"if it is the site's own, state it: gpufleet_settings: {{gpu_stack: {{tolerations: ['{taints[0]}']}}}}; else "
        f"wait for whoever takes it off (startup taints), or kubectl taint node {name} {taints[0]}-"
    )
    text = f"node {name}: no test pod may run there, for it has the taint {', '.join(taints)}"
    return host.answer.unknown("node-tainted", text, hint, **facts)


CHECK = Check(SPEC, OBSERVER, judge)
