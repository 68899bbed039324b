# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-recovery-action: the driver requests no reset, drain or reboot."""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.nvidia_smi_xml import Gpu
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, Unreported, per_gpu, per_host
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryActionSettings:
    """Settings of check gpu-recovery-action."""

    # Whole documents of nvidia-smi published with NVIDIA/k8s-test-infra: 570, 580 and 595 print it, 535 does not.
    reported_from_driver: int = setting(
        "From this driver branch on every GPU says what it needs; there N/A is no answer.",
        default=570,
        unit="branch",
        minimum=1,
    )


SPEC = CheckSpec(
    id="gpu-recovery-action",
    gate="nodes",
    title="No GPU waits for a reset or reboot",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("gpu-recovery-required",),
    settings=RecoveryActionSettings,
)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the action that the driver requests, which is the remedy. Older drivers print N/A, or only that a reset is
    required."""
    return per_host(SPEC, observed, context, _judge, needs=("smi",))


def _judge(host: NodeContext) -> Report | Outcome:
    says = host.driver_branch >= host.settings(RecoveryActionSettings).reported_from_driver
    need = Unreported("gpu-recovery-not-reported", "recovery action", lambda gpu: says and gpu.recovery_action is None)
    return per_gpu(host, _gpu, lambda number: _report(host, number), (need,))


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
