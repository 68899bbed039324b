# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the DRA driver publishes every GPU of every node, in complete pools."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind, node_subject
from ...site.model import Host
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext
from .gpu_allocatable import GPU
from .observe_cluster import OBSERVER
from .roots import (
    DRA_DRIVER,
    GPU_OPERATOR,
    broken_operands,
    node_fault,
    offers_gpus_by_dra,
    shielded,
    unhealthy,
)
from .view import ClusterView, NodeView, SliceView

SPEC = CheckSpec(
    id="dra-slices",
    gate="gpu_stack",
    title="ResourceSlices are complete and hold every GPU",
    per=SubjectKind.NODE,
    requires=("kubernetes", "dra"),
    causes=("dra-device-count-mismatch", "dra-slices-incomplete", "dra-slices-missing"),
)
_GPU_DRIVER = "gpu.nvidia.com"


def judge(view: ClusterView, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome per host in scope."""
    return tuple(_one(view, context, host) for host in context.site.in_scope)


def _one(view: ClusterView, context: JudgeContext, host: Host) -> Outcome:
    answer = Answer(SPEC, context, node_subject(host.name))
    hidden = shielded(answer, view)
    if hidden:
        return hidden
    if not offers_gpus_by_dra(context):
        return answer.blocked(by="dra-allocation", because="no DRA driver of the recipe gives out GPUs")
    node = view.node(host.node_name)
    before = _explained(answer, view, context, node)
    if before or node is None:
        return before or answer.unknown("no-data", "the node was not looked at", "run the gate again")
    sku = context.hardware.get(host.sku)
    if sku is None:
        return answer.unknown("no-data", f"SKU {host.sku!r} has no facts", "add it to recipes/hardware/")
    return _judged(answer, node, current(view.slices or (), node.name), int(sku.gpus))


def _explained(answer: Answer, view: ClusterView, context: JudgeContext, node: NodeView | None) -> Outcome | None:
    if not view.nodes:
        return answer.unknown("no-data", "the API server listed no nodes", "kubectl get nodes")
    if view.slices is None:
        return answer.blocked(by="dra-allocation", because="the API server does not serve resource.k8s.io/v1")
    fault = node_fault(node)
    if fault and fault[0] != "node-cordoned":
        return answer.blocked(by="node-ready", because=f"the node itself does not work: {fault[1]}")
    for name in (GPU_OPERATOR, DRA_DRIVER):
        if unhealthy(view, name, context):
            return answer.blocked(by="component-health", because=f"component {name} is not healthy")
    for operand in broken_operands(view, context):
        on_it = not operand.workload.nodes or (node is not None and node.name in operand.workload.nodes)
        if operand.workload.app == "nvidia-driver-daemonset" and on_it:
            return answer.blocked(by="cluster-policy-ready", because="the driver is not ready there")
    return None


def current(slices: tuple[SliceView, ...], node: str) -> tuple[SliceView, ...]:
    """Return the slices of the GPU driver on a node, of the newest generation of each pool."""
    own = [entry for entry in slices if entry.node == node and entry.driver == _GPU_DRIVER]
    newest = {pool: max(e.generation for e in own if e.pool == pool) for pool in {e.pool for e in own}}
    return tuple(entry for entry in own if entry.generation == newest[entry.pool])


def _judged(answer: Answer, node: NodeView, slices: tuple[SliceView, ...], gpus: int) -> Outcome:
    found = sum(entry.gpus for entry in slices)
    facts = _facts(node, slices, gpus, found)
    log = f"kubectl logs -n {DRA_DRIVER} -l nvidia-dra-driver-gpu-component=kubelet-plugin -c gpus (pod on {node.name})"
    if not slices:
        return answer.failed("dra-slices-missing", f"no ResourceSlice of {_GPU_DRIVER} for {node.name}", log, **facts)
    for pool in sorted({entry.pool for entry in slices}):
        members = [entry for entry in slices if entry.pool == pool]
        wanted = members[0].slice_count
        if len(members) != wanted:
            text = f"pool {pool} has {len(members)} of {wanted} slices"
            return answer.failed("dra-slices-incomplete", text, log, **facts)
    if found != gpus:
        if node.allocatable.get(GPU) == found:
            return answer.blocked(
                by="gpu-allocatable", because=f"{found} of {gpus} GPUs published, as many as are allocatable"
            )
        return answer.failed("dra-device-count-mismatch", f"{found} of {gpus} GPUs published", log, **facts)
    return answer.passed(f"{found} of {gpus} GPUs published", **facts)


def _facts(node: NodeView, slices: tuple[SliceView, ...], gpus: int, found: int) -> dict[str, Any]:
    pools = "; ".join(f"{s.pool} generation {s.generation}: {s.gpus} GPUs of {s.devices} devices" for s in slices)
    return {
        "measured": (Measure("GPUs in slices", found, "count"), Measure("slices", len(slices), "count")),
        "expected": (Expectation("GPUs in slices", "==", gpus, Basis.INVENTORY, "count"),),
        "evidence": (Evidence("GET resourceslices", node.name, pools),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
