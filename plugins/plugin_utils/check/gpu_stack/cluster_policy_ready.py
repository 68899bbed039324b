# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the operators report their policies as ready, and what they run on the nodes is ready."""

from __future__ import annotations

from collections.abc import Iterable

from ...clients.kube.objects import NIC_CLUSTER_POLICIES
from ...component_stack.manifest import manifests_of
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, Subject, SubjectKind, node_subject
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .cluster_state import ClusterState, OperandState, PolicyState
from .lasting import flaps, not_lasting, passed_over
from .network_operands import broken_network_operands, network_operands
from .observe_cluster import OBSERVER
from .roots import (
    GPU_OPERATOR,
    NETWORK_OPERATOR,
    bad_nodes,
    blocked_by_permissions,
    broken_operands,
    closed_to,
    last_words,
    named_failure,
    operand_roots,
    operator_components,
    unhealthy_of,
)

SPEC = CheckSpec(
    id="cluster-policy-ready",
    gate="gpu_stack",
    title="ClusterPolicy (and NicClusterPolicy) ready, operands ready",
    per=SubjectKind.CLUSTER,
    applies=(needs("kubernetes"),),
    causes=(
        "cluster-policy-missing",
        "cluster-policy-not-ready",
        "container-runtime-hook-failed",
        "driver-build-failed",
        "nvlink-fabric-not-registered",
        "image-library-missing",
        "driver-root-wrong",
        "driver-not-found",
        "driver-module-refused",
        "mig-strategy-mismatch",
        "nic-cluster-policy-not-ready",
        "no-gpu-operator",
        "operand-not-ready",
        "operand-out-of-memory",
        "runtime-not-configured",
        "workload-flapping",
    ),
)
_NODES_NAMED = 16


def judge(observed: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes. If operands wait for each other, only those at the root are reported."""
    answer = Answer.about_cluster(SPEC, context)
    hidden = blocked_by_permissions(answer, observed)
    if hidden:
        return (hidden,)
    if not operator_components(GPU_OPERATOR, context):
        hint = "add gpu-operator to the recipe, or waive this check if the platform brings its own device plugin"
        return (answer.failed("no-gpu-operator", "the recipe has no GPU operator", hint),)
    for name in (GPU_OPERATOR, NETWORK_OPERATOR):
        sick = unhealthy_of(observed, name, context)
        if sick:
            return (answer.blocked(by="component-health", because=f"component {sick} is not healthy"),)
    bad = _gpu_operator(answer, observed, context) + _network_operator(answer, observed, context)
    if bad:
        return bad
    killed = _killed(answer, observed, context)
    if killed:
        return killed
    unsteady = _unsteady(answer, observed, context)
    if unsteady:
        return (unsteady,)
    policies = [policy.name for policy in observed.cluster_policies or () if policy.state == "ready"]
    operands = [operand.workload for operand in observed.operands or ()]
    text = f"ClusterPolicy {policies[0]} ready, {len(operands)} operands ready{passed_over(operands)}"
    return (answer.passed(text, **_facts(observed)),)


def _gpu_operator(answer: Answer, cluster: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    if not cluster.cluster_policies:
        hint = "kubectl get clusterpolicies; the GPU operator's chart makes one unless its values say otherwise"
        return (answer.failed("cluster-policy-missing", "there is no ClusterPolicy", hint, **_facts(cluster)),)
    if not cluster.operands:
        hint = f"kubectl get daemonsets -A; {_log_of(cluster, operator_components(GPU_OPERATOR, context))}"
        return (answer.unknown("no-data", "the GPU operator runs nothing on the nodes", hint, **_facts(cluster)),)
    broken = broken_operands(cluster, context)
    if broken:
        return tuple(_operand(answer, cluster, context, operand) for operand in operand_roots(broken))
    closed = closed_to(cluster, context)
    if closed:
        titles = ", ".join(operand.title for operand in closed)
        return (answer.blocked(by="gpu-allocatable", because=f"taints keep {titles} off every host"),)
    operators = operator_components(GPU_OPERATOR, context)
    active = [policy for policy in cluster.cluster_policies if not policy.is_ignored]
    if active and all(policy.state == "ready" for policy in active):
        return ()
    if any(operand.workload.state != "ready" for operand in cluster.operands):
        return (answer.blocked(by="node-ready", because="operands wait only for nodes that are not ready"),)
    return (_not_ready(answer, cluster, "cluster-policy-not-ready", "ClusterPolicy", operators, active),)


def _not_ready(
    answer: Answer,
    cluster: ClusterState,
    cause: str,
    kind: str,
    operators: tuple[str, ...],
    policies: list[PolicyState],
    where: tuple[str, tuple[Subject, ...]] = ("", ()),
) -> Outcome:
    worst = next((policy for policy in policies if policy.state != "ready"), None)
    reported = "; ".join(filter(None, (*(worst.messages if worst else ()), where[0])))
    text = f"{kind} {worst.name} is {worst.state or 'without state'}" if worst else f"there is no {kind} that counts"
    hint = f"kubectl describe {kind.lower()}; {_log_of(cluster, operators)}"
    return answer.failed(
        cause, f"{text}: {reported}" if reported else text, hint, more_subjects=where[1], **_facts(cluster)
    )


def _log_of(cluster: ClusterState, operators: tuple[str, ...]) -> str:
    """Return the command that shows the operator's log.

    Subcharts of its release have longer names that begin with the release's, so the shortest name is the operator.
    """
    components = [component for name in operators if (component := cluster.component(name))]
    found = [workload for component in components for workload in cluster.workloads_for(component)]
    deployed = [workload for workload in found if workload.kind == "Deployment" and "operator" in workload.name]
    if not deployed:
        return "then the log of the operator"
    operator = min(deployed, key=lambda workload: len(workload.name))
    return f"kubectl logs -n {operator.namespace} deployment/{operator.name} --tail=200"


def _operand(answer: Answer, cluster: ClusterState, context: JudgeContext, operand: OperandState) -> Outcome:
    workload = operand.workload
    host_of = {host.node_name: host.name for host in context.site.hosts}
    bad = bad_nodes(cluster, context)
    nodes = [node for node in workload.nodes if node not in bad]
    subjects = [Subject(SubjectKind.COMPONENT, f"{GPU_OPERATOR}/{workload.app}")]
    subjects += [node_subject(host_of.get(node, node)) for node in nodes[:_NODES_NAMED]]
    where = f" on {', '.join(nodes[:_NODES_NAMED])}" if nodes else ""
    pod = workload.pod or f"daemonset/{workload.name}"
    cause, hint = (
        "operand-not-ready",
        f"kubectl logs {pod} -n {workload.namespace} --all-containers; kubectl describe pod {workload.pod}".rstrip(),
    )
    if not workload.desired and not workload.pod:
        # If a taint keeps NFD's own pods away, it labels no node, and no operand is wanted anywhere.
        hint = (
            f"no node has the labels of its nodeSelector: kubectl describe daemonset {workload.name} -n "
            f"{workload.namespace}; kubectl get nodes -L nvidia.com/gpu.present; look at the pods of NFD and at taints"
        )
    text = f"{operand.title}{where}: {workload.reason} ({workload.ready} of {workload.desired} ready)"
    known = named_failure(workload)
    if known:
        cause, hint, text = known[0].cause, known[0].hint, f"{text}; {known[0].says}: {known[1]}"
    else:
        text += last_words(workload)
    return answer.failed(
        cause,
        text,
        hint,
        more_subjects=tuple(subjects),
        **_facts(cluster),
    )


def _killed(answer: Answer, cluster: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for each operand that is ready again after it was killed for its memory limit.

    It will recur.
    """
    host_of = {host.node_name: host.name for host in context.site.hosts}
    bad = bad_nodes(cluster, context)
    found = []
    for operand in cluster.operands or ():
        nodes = [node for node in operand.workload.killed if node not in bad]
        if nodes:
            subjects = [Subject(SubjectKind.COMPONENT, f"{GPU_OPERATOR}/{operand.workload.app}")]
            subjects += [node_subject(host_of.get(node, node)) for node in nodes[:_NODES_NAMED]]
            text = f"{operand.title} on {', '.join(nodes[:_NODES_NAMED])}: last ended as OOMKilled; it is ready again"
            hint = (
                f"raise the memory limit of {operand.workload.app} in the values of gpu-operator: what it needs grows "
                "with the GPUs of a node"
            )
            facts = _facts(cluster)
            found.append(answer.marginal("operand-out-of-memory", text, hint, more_subjects=tuple(subjects), **facts))
    return tuple(found)


def _unsteady(answer: Answer, cluster: ClusterState, context: JudgeContext) -> Outcome | None:
    """Return the outcome for operands that are ready but do not stay so. None: all do."""
    operands, bad = [operand.workload for operand in cluster.operands or ()], bad_nodes(cluster, context)
    flapping = flaps(operands, context, bad)
    if flapping is None:
        return not_lasting(answer, operands, bad)
    host_of = {host.node_name: host.name for host in context.site.hosts}
    workload, text, hint = flapping
    nodes = sorted(node for node in workload.losses if node in host_of and node not in bad)[:_NODES_NAMED]
    subjects = (
        Subject(SubjectKind.COMPONENT, f"{GPU_OPERATOR}/{workload.app}"),
        *(node_subject(host_of[node]) for node in nodes),
    )
    return answer.failed("workload-flapping", text, hint, more_subjects=subjects, **_facts(cluster))


def _network_operator(answer: Answer, cluster: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    operators = operator_components(NETWORK_OPERATOR, context)
    if not operators:
        return ()
    # A site without secondary networks has no policy; a recipe for RDMA creates one.
    configured = stated_policies(context)
    policies = [p for p in cluster.nic_cluster_policies or () if not p.is_ignored or p.name in configured]
    lacking = missing_policies(cluster, context)
    if lacking:
        text = f"NicClusterPolicy {lacking[0]} of the recipe is not in the cluster"
        hint = "run the gate again, which applies it; who deleted it is in the audit log of the API server"
        return (answer.failed("nic-cluster-policy-not-ready", text, hint, **_facts(cluster)),)
    if all(policy.state == "ready" for policy in policies) and (policies or not cluster.nic_cluster_policies):
        return ()
    bad = bad_nodes(cluster, context)
    broken = broken_network_operands(cluster, bad)
    if not broken and any(operand.workload.state != "ready" for operand in network_operands(cluster)):
        because = "operands of the network operator wait only for nodes that are not ready"
        return (answer.blocked(by="node-ready", because=because),)
    cause = "nic-cluster-policy-not-ready"
    where = _where(broken, bad, context)
    return (_not_ready(answer, cluster, cause, "NicClusterPolicy", operators, policies, where),)


def _where(
    broken: Iterable[OperandState], bad: frozenset[str], context: JudgeContext
) -> tuple[str, tuple[Subject, ...]]:
    """Return which operands fail on which nodes as text, and these hosts."""
    host_of = {host.node_name: host.name for host in context.site.hosts}
    texts, nodes = [], dict[str, None]()
    for operand in broken:
        there = [node for node in operand.workload.nodes if node not in bad][:_NODES_NAMED]
        nodes |= dict.fromkeys(there)
        where = f" on {', '.join(there)}" if there else ""
        texts.append(f"{operand.title}{where}: {operand.workload.reason}{last_words(operand.workload)}")
    return "; ".join(texts), tuple(node_subject(host_of.get(node, node)) for node in nodes)


def stated_policies(context: JudgeContext) -> list[str]:
    """Return the NicClusterPolicies among the recipe's manifests. A manifest that cannot be read was not installed."""
    entries = (context.recipe or {}).get("componentRefs") or ()
    manifests = (manifest for entry in entries for manifest in manifests_of(entry, "", []))
    return [str(m.body["metadata"]["name"]) for m in manifests if m.body["kind"] == NIC_CLUSTER_POLICIES.kind]


def missing_policies(cluster: ClusterState, context: JudgeContext) -> list[str]:
    """Return the NicClusterPolicies of the recipe that the cluster does not have."""
    there = {policy.name for policy in cluster.nic_cluster_policies or ()}
    return [name for name in stated_policies(context) if name not in there]


def _facts(cluster: ClusterState) -> dict[str, tuple[object, ...]]:
    states = ", ".join(f"{policy.name} {policy.state}" for policy in cluster.cluster_policies or ())
    ready = sum(operand.workload.state == "ready" for operand in cluster.operands or ())
    lines = "\n".join(f"{o.title}: {o.workload.ready}/{o.workload.desired}" for o in cluster.operands or ())
    return {
        "measured": (Measure("ClusterPolicy", states or "none"), Measure("operands ready", ready, "count")),
        "expected": (
            Expectation("ClusterPolicy", "==", "ready", Basis.RULE),
            Expectation("operands ready", "==", len(cluster.operands or ()), Basis.RULE, "count"),
        ),
        "evidence": (Evidence("GET clusterpolicies; daemonsets of the operator", "cluster", lines),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
