# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every node offers the GPUs of the inventory, in the form in which the recipe offers them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from ...component_stack.workloads import Workload
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...workload.capacity import GPU, MIG, SHARED
from ..kit.answer import Answer
from ..kit.settings import setting
from ..spec import Check, CheckSpec, JudgeContext, needs
from .cluster_host import ClusterHost, per_host
from .cluster_state import ClusterState, NodeState
from .dra_slices import current
from .kept_away import CAUSE, FEATURE_DISCOVERY, is_unknown_to_the_operator, kept_away
from .observe_cluster import OBSERVER
from .roots import GPU_OPERATOR, Roots, closed_by_taint, is_dra_only, mig_manager, node_fault


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatableSettings:
    """Settings of check gpu-allocatable."""

    resources: dict[str, int] = setting(
        "What a node offers in place of whole GPUs: under MIG such as {nvidia.com/mig-1g.10gb: 56}, with time-slicing "
        "or MPS such as {nvidia.com/gpu.shared: 80}; it is never guessed, nor taken from the node's own labels.",
        default={},
        unit="count by resource",
        minimum=0,
    )
    hosts: tuple[str, ...] = setting(
        "Hosts, with * and ?, that offer these resources; the others offer whole GPUs.", default=["*"]
    )

    def stated(self, host: str) -> dict[str, int]:
        """Return what a host offers in place of whole GPUs. Empty: it offers whole GPUs."""
        return self.resources if any(fnmatchcase(host, pattern) for pattern in self.hosts) else {}


SPEC = CheckSpec(
    id="gpu-allocatable",
    gate="gpu_stack",
    title="Allocatable GPUs are those of the inventory",
    per=SubjectKind.NODE,
    applies=(needs("kubernetes"),),
    causes=("gpu-count-mismatch", "gpu-marked-unhealthy", "gpu-not-advertised", "mig-geometry-mismatch", CAUSE),
    settings=AllocatableSettings,
)
# What a missing GPU resource can wait for. Exporters do not matter here.
_CHAIN = (
    "nvidia-driver-daemonset",
    "nvidia-container-toolkit-daemonset",
    "nvidia-device-plugin-daemonset",
    "nvidia-mig-manager",
)


def judge(observed: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host: whole GPUs, shared GPUs or MIG devices, as the recipe offers them."""
    return per_host(SPEC, observed, context, partial(_judge_host, Roots(observed, context)))


def _judge_host(roots: Roots, host: ClusterHost) -> Outcome:
    blocked = _blocked(roots, host)
    if blocked is not None:
        return blocked
    answer, node, gpus = host.answer, host.node, host.sku.gpus
    if node is None:
        return answer.unknown("no-data", "the node was not looked at", "run the gate again")
    if is_dra_only(host.context):
        return _dra_only(answer, host.seen, node, gpus)
    if not node.gpus:
        away = kept_away(node, _wanted_there(host.seen, node))
        if away is not None:
            facts = _facts(node, {GPU: gpus}, {GPU: 0})
            return away.answer(answer, node.name, f"offers no {GPU}, {gpus} expected", **facts)
    configured = host.settings(AllocatableSettings).stated(host.name)
    if configured:
        return _configured(answer, node, configured)
    if any(name.startswith(MIG) and number for name, number in node.allocatable.items()) or (
        "-MIG-" in node.labels.get("nvidia.com/gpu.product", "")
    ):
        return _unstated(answer, node, "mig-geometry-unstated", "MIG is on")
    if node.allocatable.get(SHARED) or node.allocatable.get(GPU, 0) > gpus or _replicas(node) > 1:
        return _unstated(answer, node, "gpu-sharing-unstated", f"its {gpus} GPUs are offered more than once each")
    return _whole_gpus(answer, node, gpus)


def _blocked(roots: Roots, host: ClusterHost) -> Outcome | None:
    node, answer = host.node, host.answer
    fault = node_fault(node)
    # A cordoned node still offers its GPUs.
    if fault and fault[0] != "node-cordoned":
        return answer.blocked(by="node-ready", because=f"the node itself does not work: {fault[1]}")
    if node is not None and not node.gpus and closed_by_taint(node, host.context):
        return answer.blocked(by="node-ready", because="its taint keeps the device plugin away as well")
    if GPU_OPERATOR in roots.unhealthy:
        return answer.blocked(by="component-health", because=f"component {GPU_OPERATOR} is not healthy")
    for operand in roots.broken_on(node.name if node else ""):
        if operand.workload.app in _CHAIN:
            return answer.blocked(by="cluster-policy-ready", because=f"the {operand.title} is not ready there")
    return None


def _wanted_there(cluster: ClusterState, node: NodeState) -> list[Workload]:
    """Return the DaemonSets without which a node offers no GPUs, in order of dependency."""
    sets = [w for w in cluster.workloads or () if w.kind == "DaemonSet" and w.app == FEATURE_DISCOVERY]
    operands = [operand.workload for operand in cluster.operands or () if operand.workload.app in _CHAIN[:-1]]
    return [*(sets if is_unknown_to_the_operator(node) else ()), *operands]


def _dra_only(answer: Answer, cluster: ClusterState, node: NodeState, gpus: int) -> Outcome:
    offered = sum(entry.gpus for entry in current(cluster.slices_on(node.name)))
    facts = _facts(node, {"GPUs in ResourceSlices": gpus}, {"GPUs in ResourceSlices": offered})
    if offered != gpus:
        text = f"the recipe offers GPUs by DRA alone, and {offered or 'none'} of {gpus} are in a ResourceSlice"
        return answer.blocked(by="dra-slices", because=text)
    return answer.passed(f"{gpus} of {gpus} GPUs offered by DRA (no device plugin)", **facts)


def _replicas(node: NodeState) -> int:
    text = node.labels.get("nvidia.com/gpu.replicas", "1")
    return int(text) if text.isdecimal() else 1


def _unstated(answer: Answer, node: NodeState, cause: str, text: str) -> Outcome:
    """Return the outcome for split GPUs that were not planned, or not configured for the host."""
    hint = (
        f"if that is planned, state it: gpufleet_settings: {{gpu-allocatable: {{hosts: [{answer.subject.name}], "
        f"resources: {_plain(node.gpus)}}}}}; else take the sharing or MIG configuration off the node: "
        f"kubectl get node {node.name} --show-labels (nvidia.com/device-plugin.config, nvidia.com/mig.config)"
    )
    summary = f"{text}, and the site states no resources for it; it offers {_plain(node.gpus)}"
    return answer.unknown(cause, summary, hint, **_facts(node, {}, {}))


def _configured(answer: Answer, node: NodeState, wanted: dict[str, int]) -> Outcome:
    """Compare split GPUs with what the site configures."""
    found = node.gpus
    facts = _facts(node, wanted, found)
    if found == {name: number for name, number in wanted.items() if number}:
        return answer.passed(f"offers {_plain(wanted)}, as stated", **facts)
    hint = f"read the log of the pod that {mig_manager(node.name)} names; kubectl describe node {node.name}"
    mig = any(name.startswith(MIG) for name in (*wanted, *found))
    cause = "mig-geometry-mismatch" if mig else "gpu-count-mismatch" if found else "gpu-not-advertised"
    return answer.failed(cause, f"offers {_plain(found)}, the site states {_plain(wanted)}", hint, **facts)


def _plain(resources: dict[str, int]) -> str:
    return "{" + ", ".join(f"{name}: {number}" for name, number in sorted(resources.items())) + "}"


def _whole_gpus(answer: Answer, node: NodeState, gpus: int) -> Outcome:
    found, unhealthy_gpus = node.allocatable.get(GPU, 0), _marked_unhealthy(node)
    facts = _facts(node, {GPU: gpus}, {GPU: found})
    if unhealthy_gpus and found + unhealthy_gpus == gpus:
        # The kubelet counts unhealthy devices of a plugin in the capacity, but not in allocatable.
        hint = (
            f"read the log of the pod nvidia-device-plugin-daemonset on {node.name} for the XID; once the GPU is "
            "replaced or reset restart that pod: it does not take a GPU back by itself"
        )
        text = f"{found} of {gpus} {GPU} allocatable: the device plugin marked {unhealthy_gpus} unhealthy"
        return answer.failed("gpu-marked-unhealthy", text, hint, **facts)
    if not found:
        hint = (
            f"read the log of the pod nvidia-device-plugin-daemonset on {node.name} (kubectl get pods -A -o wide): "
            "`could not load NVML` means that the nvidia runtime is not configured; else restart that pod"
        )
        return answer.failed("gpu-not-advertised", f"offers no {GPU}, {gpus} expected", hint, **facts)
    if found != gpus:
        hint = "compare with nvidia-smi -L on the host: a GPU that fell off the bus, or one that the plugin leaves out"
        return answer.failed("gpu-count-mismatch", f"{found} of {gpus} {GPU} allocatable", hint, **facts)
    return answer.passed(f"{found} of {gpus} {GPU} allocatable", **facts)


def _marked_unhealthy(node: NodeState) -> int:
    return max(0, node.capacity.get(GPU, 0) - node.allocatable.get(GPU, 0))


def _facts(node: NodeState, wanted: dict[str, int], found: dict[str, int]) -> dict[str, Any]:
    return {
        "measured": tuple(Measure(name, found.get(name, 0), "count") for name in wanted),
        "expected": tuple(Expectation(n, "==", count, Basis.INVENTORY, "count") for n, count in wanted.items()),
        "evidence": (Evidence("GET /api/v1/nodes status.allocatable", node.name, str(node.allocatable)),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
