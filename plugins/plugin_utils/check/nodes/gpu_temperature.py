# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-temperature: no GPU is hot without work, or near the temperature at which it slows down."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.nvidia_smi_xml import Gpu
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, Unreported, per_gpu, per_host
from .observe_hosts import OBSERVER

_LEAST_BESIDE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TemperatureSettings:
    """Settings of check gpu-temperature."""

    # Published idle GPUs have 27 to 39 C (NVIDIA/k8s-test-infra, documents of nvidia-smi); warm coolant adds to that.
    idle_c: int = setting("Highest temperature of a GPU without work.", default=65, unit="C", minimum=1)
    # Idle H100 and B200 draw 70 to 140 W of 700 to 1000 W there.
    idle_power: float = setting(
        "Part of its default power limit under which a GPU counts as without work.", default=0.3, above=0, maximum=1
    )
    margin_c: int = setting(
        "Degrees that must be left until a GPU slows down, with work or without.", default=5, unit="C", minimum=0
    )
    # Within a host idle GPUs differ by some degrees along the airflow; facebookresearch/gcm and liquid-cooled sites
    # look from 10 C on.
    above_peers_c: int = setting(
        "By how much a GPU without work, or its memory, may be hotter than the median of those beside it in the host; "
        "more is marginal: a heat sink, a fan or a coolant line of its own.",
        default=15,
        unit="C",
        minimum=1,
    )


SPEC = CheckSpec(
    id="gpu-temperature",
    gate="nodes",
    title="No GPU is too hot",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("gpu-hot",),
    settings=TemperatureSettings,
)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the temperature of GPUs without work, and the margin to the slowdown of every GPU that reports it."""
    return per_host(SPEC, observed, context, _judge, needs=("smi",))


def _judge(host: NodeContext) -> Report | Outcome:
    need = Unreported("gpu-temperature-not-reported", "temperature", lambda gpu: gpu.temperature_c is None)
    return per_gpu(host, _gpu, lambda number: _report(host, number), (need,))


def _report(host: NodeContext, number: int) -> Report:
    hottest = max((gpu.temperature_c or 0 for gpu in host.live_gpus), default=0)
    idle = sum(1 for gpu in host.live_gpus if _without_work(host, gpu))
    limit = host.settings(TemperatureSettings).idle_c
    return Report(
        summary=f"{count(number, 'GPU')} at {hottest} C or less, {idle} of them without work",
        measured=(Measure("temperature_max", hottest, "C"),),
        expected=(Expectation("temperature_max", "<=", limit, Basis.RULE, "C"),) if idle == number else (),
        evidence=host.evidence("smi"),
    )


def _without_work(host: NodeContext, gpu: Gpu) -> bool:
    """Whether the GPU has no work. One that does not report its power must have no process."""
    if gpu.power_w is None or gpu.power_limit_default_w is None:
        return gpu.processes == 0
    return gpu.power_w < gpu.power_limit_default_w * host.settings(TemperatureSettings).idle_power


def _gpu(host: NodeContext, gpu: Gpu) -> list[Finding]:
    limits, degrees, parts = host.settings(TemperatureSettings), gpu.temperature_c, (host.gpu(gpu.bus_id),)
    hint = f"look at fans, airflow and heat sinks or coolant of {host.name}; compare with the hosts beside it"
    if gpu.temperature_margin_c is not None and gpu.temperature_margin_c < limits.margin_c:
        text = (
            f"{gpu.bus_id}: {degrees} C, {gpu.temperature_margin_c} C under its slowdown, expected {limits.margin_c} C"
        )
        return [Finding(cause="gpu-hot", text=text, hint=hint, subjects=parts)]
    if degrees is not None and degrees > limits.idle_c and _without_work(host, gpu):
        text = f"{gpu.bus_id}: {degrees} C without work, expected {limits.idle_c} C or less"
        return [Finding(cause="gpu-hot", text=text, hint=hint, subjects=parts)]
    above = _above_peers(host, gpu)
    return [Finding(cause="gpu-hot", text=above, hint=hint, subjects=parts, marginal=True)] if above else []


def _above_peers(host: NodeContext, gpu: Gpu) -> str:
    """Return by how much a GPU without work, or its memory, is hotter than the median of those beside it.

    Empty if it is not hotter, or if fewer than two others have no work.
    """
    beside = [other for other in host.live_gpus if other is not gpu and _without_work(host, other)]
    if not _without_work(host, gpu):
        return ""
    readings = (
        ("", gpu.temperature_c, [other.temperature_c for other in beside]),
        (" (memory)", gpu.memory_temperature_c, [other.memory_temperature_c for other in beside]),
    )
    for what, own, degrees_beside in readings:
        others = [degrees for degrees in degrees_beside if degrees is not None]
        if own is None or len(others) < _LEAST_BESIDE:
            continue
        usual, most = median(others), host.settings(TemperatureSettings).above_peers_c
        if own - usual > most:
            return (
                f"{gpu.bus_id}: {own} C{what} without work, those beside it {usual:g} C, expected at most {most} C more"
            )
    return ""


CHECK = Check(SPEC, OBSERVER, judge)
