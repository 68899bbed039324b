# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every node offers pods its network adapters, in the amount that the site or the network operator promises.

A policy of the operator and its DaemonSets can be ready while a node offers nothing: the device plugin runs where the
node has the label of NVIDIA's NICs, and offers an empty resource if its selectors match none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...component_stack.adapter_promises import AdapterPromise
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..spec import Check, CheckSpec, JudgeContext, Promised, needs
from .cluster_host import ClusterHost, per_host
from .cluster_policy_ready import missing_policies
from .cluster_state import ClusterState, NodeState
from .kept_away import CAUSE, kept_away
from .network_operands import broken_network_operands, network_operands
from .observe_cluster import OBSERVER
from .rdma_promise import (
    CHECK_ID,
    STATED,
    RdmaSettings,
    lack_of,
    of_other_kinds,
    promised_hosts,
    promises_for,
)
from .roots import NETWORK_OPERATOR, Roots, bad_nodes, closed_by_taint, node_fault

_UNASKED = f"nobody promises adapters to pods: neither a policy of the recipe's network operator nor {STATED}"
SPEC = CheckSpec(
    id=CHECK_ID,
    gate="gpu_stack",
    title="Nodes offer the network adapters that are promised to pods",
    per=SubjectKind.NODE,
    applies=(needs("kubernetes"), Promised(promised_hosts, _UNASKED)),
    causes=("network-operand-not-ready", "nic-label-missing", "rdma-count-mismatch", "rdma-resource-missing", CAUSE),
    settings=RdmaSettings,
)
_NIC, _DRIVER_WAIT = "feature.node.kubernetes.io/pci-15b3.present", "network.nvidia.com/operator.mofed.wait"
_NAMED = 8


def judge(observed: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host, from the recipe's policies or what the site configures in their place."""
    requested = promised_hosts(context.site, context.recipe)
    site = replace(context.site, hosts=tuple(host for host in context.site.hosts if host.name in requested))
    return per_host(SPEC, observed, replace(context, site=site), partial(_judge_host, Roots(observed, context)))


def _judge_host(roots: Roots, host: ClusterHost) -> Outcome:
    node, answer = host.node, host.answer
    fault = node_fault(node)
    if node is None or (fault and fault[0] != "node-cordoned"):
        return answer.blocked(by="node-ready", because=f"the node itself does not work: {fault[1] if fault else ''}")
    promises = promises_for(host.context, host.entry)
    if not promises:
        return answer.passed(f"{host.entry.sku} has no adapters for GPU traffic that the recipe promises to pods")
    unread = next((entry for entry in promises if entry.problem), None)
    if unread is not None:
        hint = f"correct the manifest of the recipe, or state what nodes offer: {STATED}"
        return answer.unknown("promise-unread", f"nobody knows what is promised: {unread.problem}", hint)
    by_recipe = promises[0].source != STATED
    facts = _facts(node, promises, by_recipe)
    blocked = _blocked(roots, host) if by_recipe else None
    if blocked is not None:
        return blocked
    others = of_other_kinds(host.seen, roots.context, host.entry.sku, promises)
    lack = lack_of(node, host.sku, promises, others)
    for operand in broken_network_operands(host.seen, bad_nodes(host.seen, roots.context)) if by_recipe else ():
        if node.name in operand.workload.nodes:
            text = f"the {operand.title} is not ready there: {operand.workload.reason}"
            hint = f"kubectl logs {operand.workload.pod} -n {operand.workload.namespace} --all-containers"
            return answer.failed("network-operand-not-ready", text, hint, **facts)
    if lack is None:
        offered = ", ".join(f"{node.allocatable[e.name]} {e.name}" for e in promises if node.allocatable.get(e.name))
        return answer.passed(f"offers {offered}", **facts)
    away = _kept_away(roots, host, node, lack.text, facts) if by_recipe and lack.nothing else None
    if away is not None:
        return away
    if by_recipe and lack.nothing and node.labels.get(_NIC) != "true":
        text = f"{lack.text}, and lacks the label {_NIC} by which the operator's pods choose nodes"
        hint = f"node feature discovery writes it: its worker on {node.name}; `lspci -d 15b3:` on the host"
        return answer.failed("nic-label-missing", text, hint, **facts)
    cause = "rdma-resource-missing" if lack.nothing else "rdma-count-mismatch"
    return answer.failed(cause, f"{lack.text}; {_source(promises)}", _hint(node, by_recipe), **facts)


def _blocked(roots: Roots, host: ClusterHost) -> Outcome | None:
    """Return the outcome if the operator itself explains the observation. None: it does not."""
    if NETWORK_OPERATOR in roots.unhealthy:
        return host.answer.blocked(by="component-health", because=f"component {NETWORK_OPERATOR} is not healthy")
    lacking = missing_policies(host.seen, roots.context)
    if lacking:
        because = f"NicClusterPolicy {lacking[0]} of the recipe is not in the cluster"
        return host.answer.blocked(by="cluster-policy-ready", because=because)
    policies = host.seen.nic_cluster_policies
    sick = next((policy for policy in policies or () if policy.state != "ready" and not policy.is_ignored), None)
    if sick is not None:
        because = f"NicClusterPolicy {sick.name} is {sick.state or 'without state'}"
        return host.answer.blocked(by="cluster-policy-ready", because=because)
    return None


def _kept_away(roots: Roots, host: ClusterHost, node: NodeState, lack: str, facts: dict[str, Any]) -> Outcome | None:
    """Return the outcome if a taint of the node keeps the operator's pods away. None: none does."""
    if closed_by_taint(node, roots.context):
        return host.answer.blocked(by="node-ready", because="its taint keeps the device plugin away as well")
    away = kept_away(node, [operand.workload for operand in network_operands(host.seen)])
    if away is None:
        return None
    names = ", ".join(workload.name for workload in away.workloads)
    text = f"{lack}: the node's taint {away.taint} keeps {names} away"
    hint = (
        f"let spec.tolerations of the NicClusterPolicy tolerate it, or take the taint off: kubectl taint node "
        f"{node.name} {away.taint}-"
    )
    return host.answer.failed(CAUSE, text, hint, **facts)


def _source(promises: Sequence[AdapterPromise]) -> str:
    return f"promised by {promises[0].source}"


def _hint(node: NodeState, by_recipe: bool) -> str:
    if not by_recipe:
        return f"the device plugin's pod on {node.name}; kubectl describe node {node.name}"
    waits = node.labels.get(_DRIVER_WAIT) == "true"
    driver = f"; {_DRIVER_WAIT} is true: the driver of the NICs is not there" if waits else ""
    return (
        f"log of the pod rdma-shared-dp-ds or sriov-device-plugin on {node.name}: which devices its selectors match; "
        f"`ibdev2netdev` on the host{driver}"
    )


def _facts(node: NodeState, promises: Sequence[AdapterPromise], by_recipe: bool) -> dict[str, Any]:
    basis = Basis.RECIPE if by_recipe else Basis.INVENTORY
    shown = {entry.name: entry for entry in promises[:_NAMED]}
    return {
        "measured": tuple(Measure(name, node.allocatable.get(name, 0), "count") for name in shown),
        "expected": tuple(
            Expectation(e.name, ">=" if e.count is None else "==", 1 if e.count is None else e.count, basis, "count")
            for e in shown.values()
        ),
        "evidence": (Evidence("GET /api/v1/nodes status.allocatable", node.name, str(node.allocatable)[:1200]),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
