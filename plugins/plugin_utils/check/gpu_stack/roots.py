# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One cause, not its symptoms: what is to blame, so that each fault fails exactly one check.

The order is: permissions, nodes, components, operands, allocatable GPUs, DRA slices. A judge looks up here whether
something earlier in that order already explains its observation. It is then blocked by that check, never `failed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...clients.kube.objects import taint_of
from ...component_stack.api_services import NOT_ANSWERED, NOT_AVAILABLE
from ...component_stack.chart_version import same_chart_version
from ...component_stack.facts import KnownFailure, stack_facts
from ...component_stack.promised import broken_promise
from ...component_stack.workloads import Workload
from ...outcome.model import Outcome
from ...workload.nodes import repelling
from ..kit.answer import Answer
from ..kit.tolerations import tolerations_of
from ..spec import JudgeContext, ObserveContext
from .cluster_state import ClusterState, ComponentState, NodeState, OperandState
from .dra_offer import DRA_DRIVER, recipe_offers_gpus_by_dra
from .kept_away import kept_away
from .lasting import excused, flaps

GPU_OPERATOR = "gpu-operator"
NETWORK_OPERATOR = "network-operator"
# What a recipe has in place of a chart where OLM installs the operator (OpenShift): its subscription and its policy.
_BY_OLM = {
    GPU_OPERATOR: ("gpu-operator-ocp-olm", "gpu-operator-ocp"),
    NETWORK_OPERATOR: ("network-operator-ocp-olm",),
}
# Matches lines with an error. A program that failed may print more lines: a banner (`[Vector addition of 50000
# elements]`), or its cleanup.
_ERROR = re.compile(
    r"\b(?:errors?|fail(?:ed)?|failure|fatal|panic|cannot|could not|unable|denied|refused)\b|: no such ", re.I
)


def node_fault(node: NodeState | None) -> tuple[str, str] | None:
    """Return (cause, text) of what keeps a node from working. None: nothing does."""
    if node is None:
        return "node-missing", "the cluster has no node of that name"
    if node.ready != "True":
        return "node-not-ready", f"Ready is {node.ready or 'not reported'}" + (
            f" ({node.reason})" if node.reason else ""
        )
    if node.unschedulable:
        return "node-cordoned", "it is cordoned"
    if node.pressures:
        return "node-pressure", f"it reports {', '.join(node.pressures)}"
    return None


def closed_by_taint(node: NodeState | None, context: JudgeContext) -> tuple[str, ...]:
    """Return the taints of a node that keep test pods away, and with them most of what the operators run there."""
    return repelling(map(taint_of, node.taints), tolerations_of(context)) if node is not None else ()


def bad_nodes(cluster: ClusterState, context: JudgeContext) -> frozenset[str]:
    """Return the names of the nodes that do not work. Check node-ready reports why.

    Quarantined nodes count as well: a workload that is not ready only there blocks nothing.
    """
    names, set_aside = [host.node_name for host in context.site.hosts], context.site.quarantined
    quarantined = {host.node_name for host in context.site.hosts if host.name in set_aside}
    return frozenset(quarantined | {name for name in names if node_fault(cluster.node(name))})


def component_fault(
    cluster: ClusterState, component: ComponentState, context: JudgeContext
) -> tuple[str, str, str] | None:
    """Return (cause, text, hint) of what is wrong with a component itself. None: nothing is."""
    installed = _release_fault(component, wanted_version(component.name, context))
    if installed:
        return installed
    broken = broken_promise(component.promised or (), cluster.workloads or ())
    bad = bad_nodes(cluster, context)
    own = [w for w in cluster.workloads_for(component) if w.state != "ready" and not excused(w, bad)]
    # An operator that does not run creates no StatefulSet.
    if broken and not (own and broken.entry.kind == "StatefulSet"):
        return broken.cause, broken.text, _put_back(component)
    flapping = flaps(cluster.workloads_for(component), context, bad)
    if flapping and not any(workload.state == "failed" for workload in own):
        return "workload-flapping", flapping[1], flapping[2]
    if not own:
        return None
    # A permanent failure explains what still waits.
    worst = min(own, key=lambda workload: workload.state != "failed")
    namespace = worst.namespace
    pod = f" pod {worst.pod}" if worst.pod else f" {worst.kind.lower()} {worst.name}"
    text = f"{worst.kind} {worst.name}: {worst.reason}"
    known = named_failure(worst)
    if known:
        return known[0].cause, f"{text}; {known[0].says}: {known[1]}", known[0].hint
    hint = f"kubectl describe{pod} -n {namespace}"
    if worst.cause == NOT_AVAILABLE:
        hint = (
            f"kubectl describe apiservice {worst.name}; pods of its Service: kubectl get endpointslices -n {namespace}"
        )
    return worst.cause or "workload-not-ready", text + last_words(worst), hint


def named_failure(workload: Workload) -> tuple[KnownFailure, str] | None:
    """Return the cause that a failing pod itself names, and the line with it. None: it names no known one."""
    text = f"{workload.reason}\n{workload.said}"
    for failure in stack_facts().known_failures:
        line = failure.line_in(text)
        if line:
            return failure, line
    return None


def last_words(workload: Workload) -> str:
    """Return a suffix for a text with the last line of a failing pod's log that has an error.

    If no line has one, it is the last line. Empty: no log was read.
    """
    lines = [line for line in workload.said.splitlines() if line.strip()]
    telling = [line for line in lines if _ERROR.search(line)]
    return f"; it says: {(telling or lines)[-1].strip()[:300]}" if lines else ""


def _put_back(component: ComponentState) -> str:
    namespace, _slash, name = component.release.partition("/")
    return (
        f"put it back as it was installed: helm get manifest {name} -n {namespace} | "
        f"kubectl apply -n {namespace} -f -; who removed it is in the API server's audit log"
    )


def _release_fault(component: ComponentState, wanted: str) -> tuple[str, str, str] | None:
    name = component.name
    if component.installing_cause == "component-foreign":
        return "component-foreign", component.installing_reason, component.installing_hint
    if component.installing_cause == NOT_ANSWERED:
        # Whatever release is there, it is not known to be that of this recipe.
        return NOT_ANSWERED, component.installing_reason, component.installing_hint
    if component.owner and not component.release:
        text = f"no controller of {name} was found for {component.owner}"
        return None if component.used else ("component-missing", text, "fix it, or let this collection install it")
    if not component.release:
        why = component.installing_reason or "it was never installed"
        hint = component.installing_hint or "run gate gpu_stack again, or install the component"
        return "component-missing", f"no release of {name}: {why}", hint
    namespace = component.release.partition("/")[0]
    if component.status.startswith("pending-") or component.status == "uninstalling":
        hint = f"helm history {name} -n {namespace}; then helm rollback {name} -n {namespace}"
        return "release-pending", f"release {component.release} is {component.status}", hint
    if component.status != "deployed":
        why = f": {component.installing_reason}" if component.installing_reason else ""
        hint = component.installing_hint or f"helm history {name} -n {namespace}"
        return "release-not-deployed", f"release {component.release} is {component.status}{why}", hint
    if component.installing == "failed" and not component.owner and same_chart_version(component.version, wanted):
        # The previous state is still in force, with its old values.
        text = f"release {component.release} was not changed to what the recipe wants: {component.installing_reason}"
        return "release-not-deployed", text, component.installing_hint or f"helm history {name} -n {namespace}"
    if not same_chart_version(component.version, wanted) and not component.owner:
        text = f"release {component.release} has version {component.version or 'unknown'}, the recipe wants {wanted}"
        why = f"; {component.installing_reason}" if component.installing_reason else ""
        return "component-version", text + why, component.installing_hint or "upgrade it, or correct the recipe"
    return None


def recipe_component(name: str, context: JudgeContext | ObserveContext) -> dict[str, object] | None:
    """Return a component of the recipe. None: the recipe has none of that name."""
    refs = (context.recipe or {}).get("componentRefs") or []
    return next((ref for ref in refs if ref.get("name") == name), None)


def wanted_version(name: str, context: JudgeContext) -> str:
    """Return the version that the recipe pins. Empty: it pins none."""
    return str((recipe_component(name, context) or {}).get("version", ""))


def mig_manager(node: str) -> str:
    """Return the command that shows the MIG manager's pod of a node, in any namespace."""
    return f"kubectl get pods -A -l app=nvidia-mig-manager --field-selector spec.nodeName={node}"


def operator_components(operator: str, context: JudgeContext) -> tuple[str, ...]:
    """Return the components of the recipe that install an operator. Empty: the recipe does not have it."""
    names = (operator, *_BY_OLM.get(operator, ()))
    return tuple(name for name in names if recipe_component(name, context) is not None)


def unhealthy_of(cluster: ClusterState, operator: str, context: JudgeContext) -> str:
    """Return the first component of an operator that does not work. Empty: all do."""
    names = operator_components(operator, context)
    return next((name for name in names if unhealthy(cluster, name, context)), "")


def unhealthy(cluster: ClusterState, name: str, context: JudgeContext) -> bool:
    """Return whether a component of the recipe does not work. Check component-health reports why."""
    component = cluster.component(name)
    return component is not None and component_fault(cluster, component, context) is not None


def broken_operands(cluster: ClusterState, context: JudgeContext) -> tuple[OperandState, ...]:
    """Return the operands that do not work, in order of dependency. Those that fail only on bad nodes are left out."""
    bad = bad_nodes(cluster, context)
    closed = {operand.title for operand in closed_to(cluster, context)}
    return tuple(
        operand
        for operand in cluster.operands or ()
        if (is_unplaced(operand) and operand.title not in closed)
        or (operand.workload.state != "ready" and not excused(operand.workload, bad))
    )


def closed_to(cluster: ClusterState, context: JudgeContext) -> tuple[OperandState, ...]:
    """Return the operands that taints keep off every host. Check gpu-allocatable reports the taints."""
    nodes = [node for host in context.site.in_scope if (node := cluster.node(host.node_name)) is not None]
    return tuple(
        operand
        for operand in cluster.operands or ()
        if is_unplaced(operand) and nodes and all(kept_away(node, [operand.workload]) for node in nodes)
    )


@dataclass(frozen=True)
class Roots:
    """What of the whole cluster may explain an observation on one host. Computed once for all hosts."""

    cluster: ClusterState
    context: JudgeContext

    @cached_property
    def unhealthy(self) -> frozenset[str]:
        """The components of the GPU stack that do not work."""
        names = (GPU_OPERATOR, NETWORK_OPERATOR, DRA_DRIVER)
        return frozenset(name for name in names if unhealthy_of(self.cluster, name, self.context))

    def broken_on(self, node: str) -> tuple[OperandState, ...]:
        """Return the operands that do not work on a node."""
        return tuple(operand for operand, nodes in self._broken if not nodes or node in nodes)

    @cached_property
    def _broken(self) -> tuple[tuple[OperandState, frozenset[str]], ...]:
        broken = broken_operands(self.cluster, self.context)
        return tuple((operand, frozenset(operand.workload.nodes)) for operand in broken)


def is_unplaced(operand: OperandState) -> bool:
    """Return whether an operand that belongs on every GPU node has no desired pod: zero of zero is not ready."""
    return operand.workload.desired == 0 and operand.workload.app in stack_facts().on_every_gpu_node


def operand_roots(broken: Iterable[OperandState]) -> tuple[OperandState, ...]:
    """Return the operands to blame: all that failed permanently, else the first one that the others wait for."""
    broken = tuple(broken)
    failed = tuple(operand for operand in broken if operand.workload.state == "failed")
    return failed or broken[:1]


def is_dra_only(context: JudgeContext | ObserveContext) -> bool:
    """Return whether the recipe switches the device plugin off, so that GPUs are only offered by DRA."""
    values: Any = (recipe_component(GPU_OPERATOR, context) or {}).get("values") or {}
    return (values.get("devicePlugin") or {}).get("enabled") is False


def offers_gpus_by_dra(context: JudgeContext) -> bool:
    """Return whether the recipe's DRA driver offers GPUs. Many recipes leave that to the device plugin."""
    return recipe_offers_gpus_by_dra(context.recipe or {})


def blocked_by_permissions(answer: Answer, cluster: ClusterState) -> Outcome | None:
    """Return the blocked outcome if permissions were denied, so that nothing was observed. None: none were."""
    if not cluster.denied:
        return None
    texts = ", ".join(permission.text for permission in cluster.denied[:3])
    return answer.blocked(by="api-permissions", because=f"the credentials do not allow: {texts}")
