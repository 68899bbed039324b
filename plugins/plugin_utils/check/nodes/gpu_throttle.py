# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-throttle: neither heat nor a power brake lowers the clock of a GPU."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.nvidia_smi_xml import Gpu
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, Unreported, per_gpu, per_host
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="gpu-throttle",
    gate="nodes",
    title="No GPU is slowed down by heat or power",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("gpu-throttled-heat", "gpu-throttled-power"),
)
# An idle GPU has `gpu_idle`, a busy one may have `sw_power_cap`: both are healthy. The names are those of
# nvmlClocksEventReasons: a slowdown by hardware comes from heat or from the power brake of the machine.
_HEAT = frozenset(("hw_thermal_slowdown", "sw_thermal_slowdown"))
_POWER = frozenset(("hw_power_brake_slowdown", "hw_slowdown"))


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the reasons that are active at the moment; a GPU that lists none at all is unknown."""
    return per_host(SPEC, observed, context, _judge, needs=("smi",))


def _judge(host: NodeContext) -> Report | Outcome:
    need = Unreported("gpu-throttle-not-reported", "clock event reasons", lambda gpu: gpu.clock_events is None)
    return per_gpu(host, _gpu, lambda number: _report(host, number), (need,))


def _report(host: NodeContext, number: int) -> Report:
    return Report(
        summary=f"{count(number, 'GPU')} without a slowdown by heat or power",
        expected=(Expectation("slowdown_reasons", "==", 0, Basis.RULE, "count"),),
        evidence=host.evidence("smi"),
    )


def _gpu(host: NodeContext, gpu: Gpu) -> list[Finding]:
    active = frozenset(gpu.clock_events or ())
    parts, heat, power = (host.gpu(gpu.bus_id),), active & _HEAT, active & _POWER
    if heat:
        degrees = f" at {gpu.temperature_c} C" if gpu.temperature_c is not None else ""
        text = f"{gpu.bus_id}: {', '.join(sorted(heat))}{degrees}"
        hint = f"look at fans, airflow and heat sinks or coolant of {host.name}; then run the gate again"
        return [Finding(cause="gpu-throttled-heat", text=text, hint=hint, subjects=parts)]
    if power:
        text = f"{gpu.bus_id}: {', '.join(sorted(power))}"
        hint = f"look at the power supplies of {host.name} in its BMC: one that failed pulls the power brake"
        return [Finding(cause="gpu-throttled-power", text=text, hint=hint, subjects=parts)]
    return []


CHECK = Check(SPEC, OBSERVER, judge)
