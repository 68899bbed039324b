# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: a pending pod with GPUs gets a new node, and the node is removed when it is no longer needed."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_scaling import CHECK_ID, OBSERVER, NodeScaling, ScalingSettings

SPEC = CheckSpec(
    id=CHECK_ID,
    gate="gpu_stack",
    phase="conformance",
    title="Nodes with GPUs come for pending pods, and go again",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=900.0,
    applies=(needs("kubernetes", "node_autoscaler"),),
    causes=("autoscaler-missing", "autoscaler-silent", "node-not-added", "node-without-gpus", "scale-up-refused"),
    settings=ScalingSettings,
)
_DRIVER = "is the GPU operator's driver for this image of nodes?"
_LOOK = "kubectl get nodepools,nodeclaims; kubectl -n kube-system get cm cluster-autoscaler-status -o yaml; its log"


def judge(observed: NodeScaling, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome. Its cause is the first stage that fails."""
    answer = Answer.about_cluster(SPEC, context)
    if observed.problem:
        return (answer.unknown(observed.problem, f"not tried: {observed.reason}", "run the gate again"),)
    if not observed.asked:
        return (answer.unknown("no-gpus-asked", "the pod asked for no GPU", "run the gate again"),)
    return (_added(observed, answer) or _gone(observed, answer),)


def _added(observed: NodeScaling, answer: Answer) -> Outcome | None:
    """Return why there is no new node with the running pod. None: there is one."""
    facts, themselves = _facts(observed), "; ".join(observed.answers)
    if observed.node and observed.gpus < observed.asked:
        text = f"node {observed.node} was added and has {observed.gpus} GPUs, where {observed.asked} were asked for"
        hint = f"kubectl describe node {observed.node}, which is paid for until it goes; {_DRIVER}"
        return answer.failed("node-without-gpus", text, hint, **facts)
    if observed.node and not observed.placed:
        why = observed.unplaced or "nobody says why"
        text = f"node {observed.node} was added with {observed.gpus} GPUs, but the pod does not get it: {why}"
        hint = (
            f"kubectl describe node {observed.node}: taints that stay? gpu_stack.tolerations are those of "
            "the pods of tests"
        )
        return answer.unknown("pod-not-placed", text[:500], hint, **facts)
    if observed.node and not observed.started:
        text = (
            f"node {observed.node} was added, but the pod did not start there: "
            f"{observed.unstarted or 'nothing says why'}"
        )
        return answer.unknown("pod-not-started", text, "kubectl describe node; can it pull the pause image?", **facts)
    if observed.node:
        return None
    words = observed.words
    if words.taken:
        text = f"a node was promised ({words.taken}), and none came in time"
        return answer.failed("node-not-added", text[:500], f"quota and capacity of the provider; {_LOOK}", **facts)
    if words.refused and words.is_full:
        text = f"no node may be added: {words.refused}"
        return answer.unknown("no-room-to-grow", text[:500], "raise the limit of the pool for the test", **facts)
    if observed.by_request:
        reported = words.refused or "nobody said anything of it"
        text = f"no node is added for a pod alone ({reported}); Kueue asks for nodes by ProvisioningRequests of class "
        hint = (
            "this check makes no such request: name nodes that come for pending pods as well "
            "(gpufleet_settings.cluster-autoscaling.selector), or run a job through the queue; "
            "kubectl get provisioningrequests -A"
        )
        return answer.unknown("nodes-by-request", f"{text}{', '.join(observed.by_request)}"[:500], hint, **facts)
    if words.refused:
        text = f"no node is added for a pod with {observed.asked} GPUs: {words.refused}"
        hint = (
            "labels, taints and instance types of the pools against what the pod asks for; "
            "gpufleet_settings.cluster-autoscaling.selector names the pool"
        )
        return answer.failed("scale-up-refused", text[:500], f"{hint}; {_LOOK}", **facts)
    if not observed.answers:
        text = "nobody adds nodes: no NodePool of Karpenter, no status of cluster-autoscaler, no word of the pod"
        hint = "install one, or state that nobody adds nodes: gpufleet_settings: {cluster-autoscaling: {added: false}}"
        return answer.failed("autoscaler-missing", text, hint, **facts)
    text = f"nobody said anything of a pending pod with {observed.asked} GPUs: {themselves}"
    return answer.failed("autoscaler-silent", text[:500], _LOOK, **facts)


def _gone(observed: NodeScaling, answer: Answer) -> Outcome:
    facts = _facts(observed)
    came = f"node {observed.node} came after {observed.up_s:.0f} s with {observed.gpus} GPUs and ran the pod"
    if observed.leftovers:
        hint = "kubectl get ns -l gpufleet.io/purpose=test; delete what the test left"
        return answer.unknown("cleanup-incomplete", f"{came}, but left behind: {observed.leftovers[0]}", hint, **facts)
    if observed.gone_s is None:
        text = f"{came}; it is still there {observed.waited_s:.0f} s after the pod, and is paid for"
        hint = (
            f"kubectl describe node {observed.node}: who keeps it? consolidation of the NodePool, "
            "scale-down-unneeded-time"
        )
        return answer.marginal("node-not-removed", text, hint, **facts)
    return answer.passed(f"{came}, and was gone {observed.gone_s:.0f} s after it", **facts)


def _facts(observed: NodeScaling) -> dict[str, Any]:
    reported = "\n".join((*observed.answers, *filter(None, (observed.words.taken, observed.words.refused))))
    return {
        "measured": (
            *(
                (Measure("node added after", observed.up_s, "s"), Measure("GPUs", observed.gpus, "count"))
                if observed.node
                else ()
            ),
            *((Measure("node gone after", observed.gone_s, "s"),) if observed.gone_s is not None else ()),
        ),
        "expected": (Expectation("GPUs", ">=", observed.asked, Basis.RULE, "count"),),
        "evidence": (Evidence("events of the pod; nodepools; cluster-autoscaler-status", "cluster", reported[:1200]),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
