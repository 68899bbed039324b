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


def judge(seen: NodeScaling, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome. Its cause is the first stage that fails."""
    answer = Answer.about_cluster(SPEC, context)
    if seen.problem:
        return (answer.unknown(seen.problem, f"not tried: {seen.reason}", "run the gate again"),)
    if not seen.asked:
        return (answer.unknown("no-gpus-asked", "the pod asked for no GPU", "run the gate again"),)
    return (_added(seen, answer) or _gone(seen, answer),)


def _added(seen: NodeScaling, answer: Answer) -> Outcome | None:
    """Return why there is no new node with the running pod. None: there is one."""
    facts, themselves = _facts(seen), "; ".join(seen.answers)
    if seen.node and seen.gpus < seen.asked:
        text = f"node {seen.node} was added and has {seen.gpus} GPUs, where {seen.asked} were asked for"
        hint = f"kubectl describe node {seen.node}, which is paid for until it goes; {_DRIVER}"
        return answer.failed("node-without-gpus", text, hint, **facts)
    if seen.node and not seen.placed:
        why = seen.unplaced or "nobody says why"
        text = f"node {seen.node} was added with {seen.gpus} GPUs, but the pod does not get it: {why}"
        hint = (
            f"kubectl describe node {seen.node}: taints that stay? gpu_stack.tolerations are those of the pods of tests"
        )
        return answer.unknown("pod-not-placed", text[:500], hint, **facts)
    if seen.node and not seen.started:
        text = f"node {seen.node} was added, but the pod did not start there: {seen.unstarted or 'nothing says why'}"
        return answer.unknown("pod-not-started", text, "kubectl describe node; can it pull the pause image?", **facts)
    if seen.node:
        return None
    words = seen.words
    if words.taken:
        text = f"a node was promised ({words.taken}), and none came in time"
        return answer.failed("node-not-added", text[:500], f"quota and capacity of the provider; {_LOOK}", **facts)
    if words.refused and words.is_full:
        text = f"no node may be added: {words.refused}"
        return answer.unknown("no-room-to-grow", text[:500], "raise the limit of the pool for the test", **facts)
    if seen.by_request:
        said = words.refused or "nobody said anything of it"
        text = f"no node is added for a pod alone ({said}); Kueue asks for nodes by ProvisioningRequests of class "
        hint = (
            "this check makes no such request: name nodes that come for pending pods as well "
            "(gpufleet_settings.cluster-autoscaling.selector), or run a job through the queue; "
            "kubectl get provisioningrequests -A"
        )
        return answer.unknown("nodes-by-request", f"{text}{', '.join(seen.by_request)}"[:500], hint, **facts)
    if words.refused:
        text = f"no node is added for a pod with {seen.asked} GPUs: {words.refused}"
        hint = (
            "labels, taints and instance types of the pools against what the pod asks for; "
            "gpufleet_settings.cluster-autoscaling.selector names the pool"
        )
        return answer.failed("scale-up-refused", text[:500], f"{hint}; {_LOOK}", **facts)
    if not seen.answers:
        text = "nobody adds nodes: no NodePool of Karpenter, no status of cluster-autoscaler, no word of the pod"
        hint = "install one, or state that nobody adds nodes: gpufleet_settings: {cluster-autoscaling: {added: false}}"
        return answer.failed("autoscaler-missing", text, hint, **facts)
    text = f"nobody said anything of a pending pod with {seen.asked} GPUs: {themselves}"
    return answer.failed("autoscaler-silent", text[:500], _LOOK, **facts)


def _gone(seen: NodeScaling, answer: Answer) -> Outcome:
    facts = _facts(seen)
    came = f"node {seen.node} came after {seen.up_s:.0f} s with {seen.gpus} GPUs and ran the pod"
    if seen.leftovers:
        hint = "kubectl get ns -l gpufleet.io/purpose=test; delete what the test left"
        return answer.unknown("cleanup-incomplete", f"{came}, but left behind: {seen.leftovers[0]}", hint, **facts)
    if seen.gone_s is None:
        text = f"{came}; it is still there {seen.waited_s:.0f} s after the pod, and is paid for"
        hint = (
            f"kubectl describe node {seen.node}: who keeps it? consolidation of the NodePool, scale-down-unneeded-time"
        )
        return answer.marginal("node-not-removed", text, hint, **facts)
    return answer.passed(f"{came}, and was gone {seen.gone_s:.0f} s after it", **facts)


def _facts(seen: NodeScaling) -> dict[str, Any]:
    said = "\n".join((*seen.answers, *filter(None, (seen.words.taken, seen.words.refused))))
    return {
        "measured": (
            *((Measure("node added after", seen.up_s, "s"), Measure("GPUs", seen.gpus, "count")) if seen.node else ()),
            *((Measure("node gone after", seen.gone_s, "s"),) if seen.gone_s is not None else ()),
        ),
        "expected": (Expectation("GPUs", ">=", seen.asked, Basis.RULE, "count"),),
        "evidence": (Evidence("events of the pod; nodepools; cluster-autoscaler-status", "cluster", said[:1200]),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
