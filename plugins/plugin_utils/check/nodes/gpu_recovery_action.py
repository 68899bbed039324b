# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-recovery-action: the driver asks for no reset, drain or reboot."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Outcome, SubjectKind
from ...probe.nvidia_smi_model import Gpu
from ..kit.counting import count
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, per_gpu, per_host
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="gpu-recovery-action",
    gate="nodes",
    title="No GPU waits for a reset or reboot",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("gpu-recovery-required",),
)


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """What the driver asks for is the remedy; older drivers do not say (N/A) or only say that a reset is required."""
    return per_host(SPEC, seen, context, lambda host: per_gpu(host, _gpu, lambda n: _report(host, n)), needs=("smi",))


def _report(host: NodeContext, number: int) -> Report:
    return Report(
        summary=f"no action required on {count(number, 'GPU')}",
        expected=(Expectation("gpu_recovery_action", "==", "None", Basis.RULE),),
        evidence=host.evidence("smi"),
    )


def _gpu(host: NodeContext, gpu: Gpu) -> list[Finding]:
    action = gpu.recovery_action
    if action is None and (gpu.reset_status or "").lower() == "yes":
        action = "Reset"
    if action is None or action.lower() == "none":
        return []
    text = f"{gpu.bus_id}: the driver asks for {action!r}"
    hint = f"drain {host.name}, do what the driver asks for ({action}), then run the gate again"
    return [Finding(cause="gpu-recovery-required", text=text, hint=hint, subjects=(host.gpu(gpu.bus_id),))]


CHECK = Check(SPEC, OBSERVER, judge)
