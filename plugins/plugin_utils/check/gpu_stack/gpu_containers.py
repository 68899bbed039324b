# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: on every node a container with GPUs sees as many as it got, by nvidia-smi."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...workload.capacity import MIG
from ..kit import host_context
from ..kit.told_once import told_once
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .access import AccessResult, NodeAccess, are_whole, is_for_want_of_others, seen_of_its_own
from .claimed_container import ContainerSeen
from .observe_access import CHECK_ID, OBSERVER, AccessSettings

# One host for the checks of GPU containers.

HELD_BACK = "kubectl get ns -l gpufleet.io/purpose=test; delete what the run left"


@dataclass(frozen=True, slots=True)
class AccessHost(host_context.HostContext[AccessResult]):
    """One host and what the containers on it observed. None: it was not tested."""

    @property
    def node(self) -> NodeAccess | None:
        return self.seen.on(self.entry.node_name)

    def facts(self) -> dict[str, Any]:
        """Return measured values, expectation and evidence of the host's containers."""
        node = self.node
        if node is None:
            return {}
        observed = seen_of_its_own(node)
        without = sorted({device for entry in (node.plain, node.asking) if entry for device in entry.devices})
        return {
            "measured": (
                Measure("GPUs in the container with GPUs", observed, "count"),
                Measure("GPU devices in containers without GPUs", len(without), "count"),
            ),
            "expected": (
                Expectation("GPUs in the container with GPUs", "==", node.asked, Basis.RULE, "count"),
                Expectation("GPU devices in containers without GPUs", "==", 0, Basis.RULE, "count"),
            ),
            "evidence": (
                Evidence("nvidia-smi -L in the container", node.node, node.owner.printed if node.owner else ""),
                Evidence("/dev/nvidia* in containers without GPUs", node.node, ", ".join(without) or "none"),
            ),
        }


def per_host(
    spec: CheckSpec,
    observed: AccessResult,
    context: JudgeContext,
    judge_host: Callable[[AccessHost, NodeAccess], Outcome],
) -> tuple[Outcome, ...]:
    """Return the outcomes of every host in scope. What affects all hosts is reported once."""

    def judged(host: AccessHost) -> Outcome:
        node, answer = host.node, host.answer
        if observed.problem:
            return answer.unknown(
                observed.problem, f"not tried: {observed.reason}", observed.hint or "run the gate again"
            )
        if node is None:
            return answer.unknown("no-data", "no container was tried on the node", "run the gate again")
        if node.closed:
            return answer.blocked(by="node-ready", because=f"no pod can be placed there: {node.closed}")
        if not node.asked <= node.free <= node.total:
            text = f"what was saved contradicts itself: {node.asked} asked for, {node.free} free of {node.total}"
            return answer.unknown("no-data", text, "run the gate again")
        return judge_host(host, node)

    outcomes = host_context.per_host(AccessHost, spec, observed, context, judged, needs_sku=False)
    return told_once(outcomes, (*context.site.waivers, *context.site.acceptances))


SPEC = CheckSpec(
    id=CHECK_ID,
    gate="gpu_stack",
    title="A container on every node sees the GPUs that it gets",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=20.0,
    applies=(needs("kubernetes"),),
    causes=("gpus-not-given", "gpus-not-visible"),
    settings=AccessSettings,
)
_PLUGIN_LOG = "read the log of the pod nvidia-device-plugin-daemonset on the node (kubectl get pods -A -o wide)"


def judge(observed: AccessResult, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host.

    One container gets all free GPUs of a node; if they are in use, the result is unknown.
    """
    return per_host(SPEC, observed, context, _judge_host)


def _judge_host(host: AccessHost, node: NodeAccess) -> Outcome:
    answer, facts, owner = host.answer, host.facts(), node.owner
    if not node.total:
        return answer.blocked(by="gpu-allocatable", because="the node offers no GPU")
    if not node.asked:
        text = f"all {node.total} GPUs are in use, so none could be given to a container"
        return answer.unknown("gpus-in-use", text, "run the gate again when the node is idle", **facts)
    if is_for_want_of_others(node.refused):
        text = f"the kubelet does not take a pod with {node.asked} GPUs: {node.refused}"
        return answer.unknown("container-not-placed", text, "kubectl describe node; run the gate again", **facts)
    if node.refused:
        text = f"the kubelet does not give {node.asked} GPUs to a container: {node.refused}"
        return answer.failed("gpus-not-given", text, _PLUGIN_LOG, **facts)
    if owner is None and not node.resource and "dra" in host.context.site.capabilities:
        return answer.blocked(by="dra-allocation", because=f"its claim was not allocated: {node.unplaced}")
    if owner is None:
        text = f"a container with {node.asked} GPUs was not placed: {node.unplaced or 'there was no pod'}"
        return answer.unknown("container-not-placed", text, "kubectl describe node; run the gate again", **facts)
    if owner.no_image:
        hint = f"state an image that the site has: gpufleet_settings: {{{SPEC.id}: {{image: ...}}}}"
        return answer.unknown("image-not-pulled", f"the test's image: {owner.reason}", hint, **facts)
    if owner.unread:
        text = f"the container's log cannot be read: {owner.unread}"
        return answer.unknown("log-unread", text, "allow get of pods/log in the test's namespaces", **facts)
    if owner.exit_code is None:
        text = f"the container did not start: {owner.reason or 'no reason is told'}"
        hint = "read the log of the container toolkit and of containerd on the node"
        return answer.unknown("container-not-started", text, hint, **facts)
    return _counted(host, node, owner)


def _counted(host: AccessHost, node: NodeAccess, owner: ContainerSeen) -> Outcome:
    answer, facts = host.answer, host.facts()
    if not are_whole(owner.uuids):
        text = f"what nvidia-smi listed is not all UUIDs of GPUs: {', '.join(owner.uuids)}"
        return answer.unknown("no-data", text[:400], "run the gate again", **facts)
    observed, what = seen_of_its_own(node), "MIG devices" if node.resource.startswith(MIG) else "GPUs"
    if owner.exit_code != 0 or observed < node.asked:
        lines = owner.printed.splitlines()
        reported = lines[-1] if lines and not owner.uuids else owner.reason
        text = f"sees {observed} of the {node.asked} {what} that it got" + (f": {reported}" if reported else "")
        hint = (
            "the nvidia runtime or CDI of the node: nvidia-ctk cdi list, /etc/containerd/config.toml; `Unknown Error` "
            "after systemctl daemon-reload is NVIDIA/nvidia-container-toolkit#48: device files need their links"
        )
        return answer.failed("gpus-not-visible", text[:400], hint, **facts)
    if observed > node.asked:
        text = f"it sees {observed} {what} and got {node.asked}"
        return answer.blocked(by="secure-accelerator-access", because=text)
    if node.asked == node.free < node.total:
        text = f"sees {node.asked} of {node.total} GPUs; the others are in use and were not looked at"
        return answer.unknown("gpus-in-use", text, "run the gate again when the node is idle", **facts)
    if host.seen.leftovers:
        return answer.unknown("cleanup-incomplete", f"left behind: {host.seen.leftovers[0]}", HELD_BACK, **facts)
    how = f"of {node.resource}" if node.resource else "by a claim"
    return answer.passed(f"sees {observed} of {node.asked} GPUs that it got {how}", **facts)


CHECK = Check(SPEC, OBSERVER, judge)
