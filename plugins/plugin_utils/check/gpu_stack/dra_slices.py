# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the DRA driver publishes every GPU of every node, in complete pools."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...workload.capacity import GPU
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext, needs
from .cluster_host import ClusterHost, per_host
from .cluster_state import ClusterState, NodeState, SliceState
from .dra_offer import DRA_DRIVER
from .kept_away import CAUSE, DRA_PLUGIN, kept_away
from .observe_cluster import OBSERVER
from .roots import GPU_OPERATOR, Roots, node_fault, offers_gpus_by_dra

SPEC = CheckSpec(
    id="dra-slices",
    gate="gpu_stack",
    phase="conformance",
    title="ResourceSlices are complete and hold every GPU",
    per=SubjectKind.NODE,
    applies=(needs("kubernetes", "dra"),),
    causes=("dra-device-count-mismatch", "dra-slices-incomplete", "dra-slices-missing", CAUSE),
)
_GPU_DRIVER = "gpu.nvidia.com"


def judge(observed: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host. Every GPU of the SKU must be a device of a complete pool of its node."""
    return per_host(SPEC, observed, context, partial(_judge_host, Roots(observed, context)))


def _judge_host(roots: Roots, host: ClusterHost) -> Outcome:
    blocked = _blocked(roots, host)
    if blocked is not None:
        return blocked
    if host.node is None:
        return host.answer.unknown("no-data", "the node was not looked at", "run the gate again")
    slices = current(host.seen.slices_on(host.node.name))
    plugins = [w for w in host.seen.workloads or () if w.kind == "DaemonSet" and w.app == DRA_PLUGIN]
    away = None if slices else kept_away(host.node, plugins)
    if away is not None:
        facts = _facts(host.node, slices, host.sku.gpus, 0)
        return away.answer(host.answer, host.node.name, f"no ResourceSlice of {_GPU_DRIVER}", **facts)
    return _judged(host.answer, host.node, slices, host.sku.gpus)


def _blocked(roots: Roots, host: ClusterHost) -> Outcome | None:
    node, answer = host.node, host.answer
    if not offers_gpus_by_dra(host.context):
        return answer.blocked(by="dra-allocation", because="no DRA driver of the recipe gives out GPUs")
    if host.seen.slices is None:
        return answer.blocked(by="dra-allocation", because="the API server serves no resource.k8s.io")
    fault = node_fault(node)
    if fault and fault[0] != "node-cordoned":
        return answer.blocked(by="node-ready", because=f"the node itself does not work: {fault[1]}")
    for name in (GPU_OPERATOR, DRA_DRIVER):
        if name in roots.unhealthy:
            return answer.blocked(by="component-health", because=f"component {name} is not healthy")
    for operand in roots.broken_on(node.name if node else ""):
        if operand.workload.app == "nvidia-driver-daemonset":
            return answer.blocked(by="cluster-policy-ready", because="the driver is not ready there")
    return None


def current(slices: tuple[SliceState, ...]) -> tuple[SliceState, ...]:
    """Return the slices of a node that are the GPU driver's, of the newest generation of each pool."""
    own = [entry for entry in slices if entry.driver == _GPU_DRIVER]
    newest = {pool: max(e.generation for e in own if e.pool == pool) for pool in {e.pool for e in own}}
    return tuple(entry for entry in own if entry.generation == newest[entry.pool])


def _judged(answer: Answer, node: NodeState, slices: tuple[SliceState, ...], gpus: int) -> Outcome:
    found = sum(entry.gpus for entry in slices)
    facts = _facts(node, slices, gpus, found)
    log = f"kubectl logs -n {DRA_DRIVER} -l nvidia-dra-driver-gpu-component=kubelet-plugin -c gpus (pod on {node.name})"
    if not slices:
        return answer.failed("dra-slices-missing", f"no ResourceSlice of {_GPU_DRIVER} for {node.name}", log, **facts)
    if not all(entry.pool for entry in slices):
        text, hint = f"a ResourceSlice of {node.name} has no pool", "run the gate again; kubectl get resourceslices"
        return answer.unknown("no-data", text, hint, **facts)
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
        text = f"{found} of {gpus} GPUs published for claims"
        hint = f"{log}; a GPU that the driver put a taint on (XID, lost) is none: kubectl get resourceslices -o yaml"
        return answer.failed("dra-device-count-mismatch", text, hint, **facts)
    return answer.passed(f"{found} of {gpus} GPUs published", **facts)


def _facts(node: NodeState, slices: tuple[SliceState, ...], gpus: int, found: int) -> dict[str, Any]:
    pools = "; ".join(f"{s.pool} generation {s.generation}: {s.gpus} GPUs of {s.devices} devices" for s in slices)
    return {
        "measured": (Measure("GPUs in slices", found, "count"), Measure("slices", len(slices), "count")),
        "expected": (Expectation("GPUs in slices", "==", gpus, Basis.INVENTORY, "count"),),
        "evidence": (Evidence("GET resourceslices", node.name, pools),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
