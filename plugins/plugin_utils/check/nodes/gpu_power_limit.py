# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-power-limit: no GPU has a power limit below that of its SKU, its vendor or the site."""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.nvidia_smi_xml import Gpu, SmiLog
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, Unreported, per_gpu, per_host
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLimitSettings:
    """Settings of check gpu-power-limit."""

    power_limit_w: float | None = setting(
        "Power limit that every GPU must have at least; null: the default that the GPU itself reports.",
        default=None,
        unit="W",
        above=0,
    )


SPEC = CheckSpec(
    id="gpu-power-limit",
    gate="nodes",
    title="GPU power limits are not lowered",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("power-limit-lowered",),
    settings=PowerLimitSettings,
)
_Limits = dict[str, set[float | None]]


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the limit against setting `power_limit_w` or the GPU's default.

    Where all GPUs of the SKU have the same lower limit it looks intended: a person decides whether it is.
    """
    limits: _Limits = {}
    for host in context.site.in_scope:
        smi = observed.hosts[host.name].smi if host.name in observed.hosts else None
        if isinstance(smi, SmiLog):
            limits.setdefault(host.sku, set()).update(gpu.power_limit_w for gpu in smi.gpus if not gpu.trouble)
    return per_host(SPEC, observed, context, lambda host: _judge(host, limits), needs=("smi",))


def _judge(host: NodeContext, limits: _Limits) -> Report | Outcome:
    need = Unreported(
        "power-limit-not-reported",
        "power limit",
        lambda gpu: gpu.power_limit_w is None or _wanted(host, gpu) is None,
    )
    return per_gpu(host, lambda node, gpu: _gpu(node, gpu, limits), lambda number: _report(host, number), (need,))


def _wanted(host: NodeContext, gpu: Gpu) -> float | None:
    configured = host.settings(PowerLimitSettings).power_limit_w
    return gpu.power_limit_default_w if configured is None else configured


def _report(host: NodeContext, number: int) -> Report:
    lowest = min((gpu.power_limit_w or 0.0 for gpu in host.live_gpus), default=0.0)
    wanted = min((_wanted(host, gpu) or 0.0 for gpu in host.live_gpus), default=0.0)
    return Report(
        summary=f"{count(number, 'GPU')} may draw {lowest:g} W or more",
        measured=(Measure("power_limit_min", lowest, "W"),),
        expected=(Expectation("power_limit_min", ">=", wanted, Basis.HARDWARE, "W"),),
        evidence=host.evidence("smi"),
    )


def _gpu(host: NodeContext, gpu: Gpu, limits: _Limits) -> list[Finding]:
    wanted, limit, parts = _wanted(host, gpu), gpu.power_limit_w, (host.gpu(gpu.bus_id),)
    if wanted is None or limit is None or limit >= wanted:
        return []
    text = f"{gpu.bus_id}: limit {limit:g} W, expected {wanted:g} W"
    if len(limits[host.entry.sku]) == 1:
        configured = f"gpufleet_settings: {{{SPEC.id}: {{power_limit_w: {limit:g}}}}}"
        hint = f"all GPUs have it: if it is meant, state it: {configured}"
        return [Finding(cause="power-limit-below-default", text=text, hint=hint, subjects=parts, marginal=True)]
    hint = f"`nvidia-smi -i <gpu> -pl {wanted:g}` on {host.name}; look for what lowers it at boot"
    return [Finding(cause="power-limit-lowered", text=text, hint=hint, subjects=parts)]


CHECK = Check(SPEC, OBSERVER, judge)
