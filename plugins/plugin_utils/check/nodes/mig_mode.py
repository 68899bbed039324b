# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check mig-mode: every GPU is in the MIG mode that the site configures, and no change is pending until a reset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
class MigModeSettings:
    """Settings of check mig-mode."""

    expected: Literal["Disabled", "Enabled", "disabled", "enabled"] = setting(
        "The MIG mode that every GPU must have; a GPU without MIG counts as Disabled.", default="Disabled"
    )


SPEC = CheckSpec(
    id="mig-mode",
    gate="nodes",
    title="MIG mode as expected",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("mig-mode-mismatch", "mig-mode-pending"),
    settings=MigModeSettings,
)
_DISABLED = "Disabled"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the mode against setting `expected`; a GPU without MIG counts as Disabled."""
    return per_host(SPEC, observed, context, _judge, needs=("smi",))


def _judge(host: NodeContext) -> Report | Outcome:
    has_mig = host.sku.gpu_kind.mig
    need = Unreported("mig-mode-not-reported", "MIG mode", lambda gpu: has_mig and gpu.mig_current is None)
    return per_gpu(host, _gpu, lambda number: _report(host, number), (need,))


def expected_mode(context: JudgeContext) -> str:
    """Return the MIG mode that the site configures: `Enabled` or `Disabled`."""
    return context.settings_of(SPEC.id, MigModeSettings).expected.capitalize()


def _report(host: NodeContext, number: int) -> Report:
    wanted = expected_mode(host.context)
    return Report(
        summary=f"MIG {wanted.lower()} on {count(number, 'GPU')}",
        expected=(Expectation("mig_mode", "==", wanted, Basis.RULE),),
        evidence=host.evidence("smi"),
    )


def _gpu(host: NodeContext, gpu: Gpu) -> list[Finding]:
    wanted, parts = expected_mode(host.context), (host.gpu(gpu.bus_id),)
    current, pending = gpu.mig_current or _DISABLED, gpu.mig_pending or gpu.mig_current or _DISABLED
    if current != pending:
        text = f"{gpu.bus_id}: MIG {current}, {pending} pending"
        hint = "drain the node and reset the GPU (`nvidia-smi -r -i <gpu>`)"
        return [Finding(cause="mig-mode-pending", text=text, hint=hint, subjects=parts)]
    if current != wanted:
        text = f"{gpu.bus_id}: MIG {current}, expected {wanted}"
        hint = f"`nvidia-smi -mig {int(wanted != _DISABLED)}` on the node and reset the GPU, or state the mode wanted"
        return [Finding(cause="mig-mode-mismatch", text=text, hint=hint, subjects=parts)]
    return []


CHECK = Check(SPEC, OBSERVER, judge)
