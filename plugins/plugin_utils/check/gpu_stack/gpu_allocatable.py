# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every node offers the GPUs that the inventory says it has, in the form that the recipe gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ..kit.answer import Answer
from ..kit.settings import setting
from ..spec import Check, CheckSpec, JudgeContext
from .cluster_host import ClusterHost, per_host
from .cluster_state import ClusterState, NodeState
from .observe_cluster import OBSERVER
from .roots import GPU_OPERATOR, broken_operands, node_fault, recipe_component, unhealthy


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatableSettings:
    """Settings of check gpu-allocatable."""

    resources: dict[str, int] = setting(
        "What every node offers under MIG, such as {nvidia.com/mig-1g.10gb: 56}; it is never guessed.",
        unit="count by resource",
        minimum=0,
    )


SPEC = CheckSpec(
    id="gpu-allocatable",
    gate="gpu_stack",
    title="Allocatable GPUs are those of the inventory",
    per=SubjectKind.NODE,
    requires=("kubernetes",),
    causes=("gpu-count-mismatch", "gpu-not-advertised", "mig-geometry-mismatch"),
    settings=AllocatableSettings,
)
GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
# What a missing GPU resource waits for; the exporters do not matter here.
_CHAIN = (
    "nvidia-driver-daemonset",
    "nvidia-container-toolkit-daemonset",
    "nvidia-device-plugin-daemonset",
    "nvidia-mig-manager",
)


def judge(seen: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Whole GPUs, shared GPUs or MIG devices, as the recipe gives them out."""
    return per_host(SPEC, seen, context, _judge_host)


def _judge_host(host: ClusterHost) -> Outcome:
    blocked = _blocked(host)
    if blocked is not None:
        return blocked
    answer, node, gpus = host.answer, host.node, host.sku.gpus
    if node is None:
        return answer.unknown("no-data", "the node was not looked at", "run the gate again")
    if _is_dra_only(host.context):
        return _dra_only(answer, host.seen, node, gpus)
    if any(name.startswith("nvidia.com/mig-") and count for name, count in node.allocatable.items()) or (
        "-MIG-" in node.labels.get("nvidia.com/gpu.product", "")
    ):
        return _mig(answer, host.context, node)
    return _whole_gpus(answer, node, gpus)


def _blocked(host: ClusterHost) -> Outcome | None:
    node, answer = host.node, host.answer
    fault = node_fault(node)
    # A cordoned node still offers its GPUs.
    if fault and fault[0] != "node-cordoned":
        return answer.blocked(by="node-ready", because=f"the node itself does not work: {fault[1]}")
    if unhealthy(host.seen, GPU_OPERATOR, host.context):
        return answer.blocked(by="component-health", because=f"component {GPU_OPERATOR} is not healthy")
    for operand in broken_operands(host.seen, host.context):
        on_it = not operand.workload.nodes or (node is not None and node.name in operand.workload.nodes)
        if operand.workload.app in _CHAIN and on_it:
            return answer.blocked(by="cluster-policy-ready", because=f"the {operand.title} is not ready there")
    return None


def _is_dra_only(context: JudgeContext) -> bool:
    """Tell whether the recipe switches the device plugin off, so that GPUs are offered by DRA alone."""
    values: Any = (recipe_component(GPU_OPERATOR, context) or {}).get("values") or {}
    return (values.get("devicePlugin") or {}).get("enabled") is False


def _dra_only(answer: Answer, cluster: ClusterState, node: NodeState, gpus: int) -> Outcome:
    offered = sum(entry.gpus for entry in cluster.slices or () if entry.node == node.name)
    facts = _facts(node, {"GPUs in ResourceSlices": gpus}, {"GPUs in ResourceSlices": offered})
    if offered == 0:
        return answer.blocked(by="dra-slices", because="the recipe offers GPUs by DRA alone, and there is no slice")
    if offered != gpus:
        hint = "compare with nvidia-smi -L on the host; look at the DRA driver's log on that node"
        return answer.failed("gpu-count-mismatch", f"{offered} of {gpus} GPUs offered by DRA", hint, **facts)
    return answer.passed(f"{gpus} of {gpus} GPUs offered by DRA (no device plugin)", **facts)


def _mig(answer: Answer, context: JudgeContext, node: NodeState) -> Outcome:
    """Judge partitioned GPUs against the geometry that the inventory states; it is never guessed."""
    found = {name: count for name, count in node.allocatable.items() if count}
    wanted = context.settings_of(SPEC.id, AllocatableSettings).resources
    if not wanted:
        hint = "state what each node offers in gpufleet_settings: gpu-allocatable: resources: {nvidia.com/mig-...: n}"
        return answer.unknown("mig-geometry-unstated", f"MIG is on ({found}), the geometry is not stated", hint)
    facts = _facts(node, wanted, found)
    if any(found.get(name, 0) != count for name, count in wanted.items()):
        hint = f"kubectl logs -n gpu-operator -l app=nvidia-mig-manager; kubectl describe node {node.name}"
        return answer.failed("mig-geometry-mismatch", f"offers {found}, wanted {wanted}", hint, **facts)
    return answer.passed(f"offers {wanted}", **facts)


def _whole_gpus(answer: Answer, node: NodeState, gpus: int) -> Outcome:
    """Judge whole GPUs; with time-slicing or MPS each is offered as often as the node's label says."""
    replicas = node.labels.get("nvidia.com/gpu.replicas", "1")
    times = int(replicas) if replicas.isdigit() and int(replicas) > 0 else 1
    resource = SHARED if SHARED in node.allocatable else GPU
    wanted, found = gpus * times, node.allocatable.get(resource)
    facts = _facts(node, {resource: wanted}, {resource: found or 0})
    shared = f" ({gpus} GPUs shared {times} times each)" if times > 1 else ""
    if not found:
        hint = f"read the log of the pod nvidia-device-plugin-daemonset on {node.name} (kubectl get pods -A -o wide)"
        return answer.failed("gpu-not-advertised", f"offers no {resource}, {wanted} expected{shared}", hint, **facts)
    if found != wanted:
        hint = "compare with nvidia-smi -L on the host: a GPU that fell off the bus, or one marked unhealthy by an XID"
        return answer.failed("gpu-count-mismatch", f"{found} of {wanted} {resource} allocatable{shared}", hint, **facts)
    return answer.passed(f"{found} of {wanted} {resource} allocatable{shared}", **facts)


def _facts(node: NodeState, wanted: dict[str, int], found: dict[str, int]) -> dict[str, Any]:
    return {
        "measured": tuple(Measure(name, found.get(name, 0), "count") for name in wanted),
        "expected": tuple(Expectation(n, "==", count, Basis.INVENTORY, "count") for n, count in wanted.items()),
        "evidence": (Evidence("GET /api/v1/nodes status.allocatable", node.name, str(node.allocatable)),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
