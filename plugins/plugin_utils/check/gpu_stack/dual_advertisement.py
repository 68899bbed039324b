# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: no node offers its GPUs twice, by the device plugin and by DRA.

Both count independently, so a pod with `nvidia.com/gpu` and a pod with a claim can get the same GPU, and neither
scheduler nor kubelet notices (README of kubernetes-sigs/dra-driver-nvidia-gpu, gpuResourcesEnabledOverride).
"""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...workload.capacity import is_gpu
from ..spec import Check, CheckSpec, JudgeContext, needs
from .cluster_host import ClusterHost, per_host
from .cluster_state import ClusterState, NodeState, SliceState
from .dra_offer import DRA_DRIVER
from .dra_slices import current
from .observe_cluster import OBSERVER
from .roots import node_fault

SPEC = CheckSpec(
    id="dual-advertisement",
    gate="gpu_stack",
    phase="conformance",
    title="GPUs are given out once: by the device plugin or by DRA",
    per=SubjectKind.NODE,
    applies=(needs("kubernetes"),),
    causes=("gpus-advertised-twice",),
)
_PLUGIN = "nvidia-device-plugin-daemonset"
# Minutes for which the kubelet keeps the capacity of a device plugin that is gone, with none of it allocatable
# (kubernetes/kubernetes, pkg/kubelet/cm/devicemanager/types.go: endpointStopGracePeriod).
_FORGETS_MIN = 5


def judge(observed: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return the outcomes by host.

    A node may offer extended resources of GPUs, or devices in ResourceSlices, never both.
    """
    return per_host(SPEC, observed, context, _judge_host, needs_sku=False)


def _judge_host(host: ClusterHost) -> Outcome:
    node, answer = host.node, host.answer
    if node is None:
        fault = node_fault(node)
        return answer.blocked(by="node-ready", because=f"the node itself does not work: {fault[1] if fault else ''}")
    plugin = {name: number for name, number in node.capacity.items() if number and is_gpu(name)}
    plugin |= node.gpus
    slices = current(host.seen.slices_on(node.name))
    devices = sum(entry.devices for entry in slices)
    facts = _facts(node, slices, sum(plugin.values()), devices)
    if plugin and devices and not node.gpus and not _plugin_runs(host):
        text = f"{devices} devices by DRA, and the kubelet still counts those of a device plugin that runs nowhere"
        return answer.unknown("device-plugin-leaves", text, f"run the gate again in {_FORGETS_MIN} minutes", **facts)
    if plugin and devices:
        offered = ", ".join(f"{number} {name}" for name, number in sorted(plugin.items()))
        text = f"{offered} by the device plugin and {devices} devices by DRA: one GPU can be given to two pods"
        hint = (
            f"let one of them give GPUs out: {DRA_DRIVER} with resources.gpus.enabled: false, or gpu-operator with "
            "devicePlugin.enabled: false; kubectl get resourceslices names the driver's node"
        )
        return answer.failed("gpus-advertised-twice", text, hint, **facts)
    if not plugin and not devices:
        return answer.blocked(by="gpu-allocatable", because="the node offers no GPU in any way")
    how = "the device plugin" if plugin else "DRA"
    return answer.passed(f"GPUs are given out by {how} alone", **facts)


def _plugin_runs(host: ClusterHost) -> bool:
    operands = (operand.workload for operand in host.seen.operands or ())
    return any(workload.app == _PLUGIN and workload.desired for workload in operands)


def _facts(node: NodeState, slices: tuple[SliceState, ...], plugin: int, devices: int) -> dict[str, Any]:
    pools = "; ".join(f"{entry.pool}: {entry.devices} devices" for entry in slices) or "no ResourceSlice of GPUs"
    return {
        "measured": (Measure("extended resources", plugin, "count"), Measure("DRA devices", devices, "count")),
        "expected": (Expectation("ways that give GPUs out", "==", 1, Basis.RULE, "count"),),
        "evidence": (Evidence("nodes status.allocatable; resourceslices", node.name, f"{node.allocatable}; {pools}"),),
    }


CHECK = Check(SPEC, OBSERVER, judge)
