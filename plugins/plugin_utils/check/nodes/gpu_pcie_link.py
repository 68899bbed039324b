# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-pcie-link: every GPU's PCIe link has its full width, and can reach the generation of the others.

The generation drops at idle, so the present one is only reported. The highest that GPU and machine can reach together
does not drop (nvidia-smi's documentation, pcie.link.gen.max); a setting of the BIOS or a riser of one slot lowers it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.nvidia_smi_xml import Gpu, SmiLog
from ...verdict.majority import more_than_half
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, per_gpu, per_host
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLinkSettings:
    """Settings of check gpu-pcie-link."""

    width: int | None = setting(
        "PCIe lanes that every GPU must have; null: as many as the SKU states, else as the GPU is able to.",
        default=None,
        unit="lanes",
        minimum=1,
        maximum=32,
    )
    # Healthy H100s stand at 106 to 174 since their driver was loaded (NVIDIA/k8s-test-infra, qx-h100).
    replays: int = setting(
        "PCIe replays of a GPU since its driver was loaded that are ordinary however few others have.",
        default=5000,
        unit="replays",
        minimum=0,
    )
    replays_times_median: float = setting(
        "How many times the median of the GPUs of its SKU the replays of a GPU may be, beyond those that are ordinary.",
        default=10,
        unit="times",
        minimum=1,
    )


SPEC = CheckSpec(
    id="gpu-pcie-link",
    gate="nodes",
    title="PCIe links at full width",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("pcie-width-reduced",),
    settings=PcieLinkSettings,
)
_RESEAT = "reseat the GPU or its riser, then reboot; replace the riser if the width stays reduced"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the width against setting `width`, the SKU, or the maximum of the GPU itself.

    A machine type may be wired narrower than the GPU allows: where every GPU of the SKU in the fleet has the same
    narrow width, no single node is to blame and a person decides. A generation below the SKU's, or below that of more
    than half of its GPUs, is for a person too: its reason is more often a setting or the wiring than a broken part. The
    link's maximum that the driver reports is the smaller of those of GPU and host.
    """
    widths, usual = _widths(observed, context), _usual_generations(observed, context)
    replays = _usual_replays(observed, context)
    return per_host(
        SPEC,
        observed,
        context,
        lambda host: per_gpu(
            host,
            lambda c, gpu: _gpu(c, gpu, widths) + _slow(c, gpu, usual) + _replays(c, gpu, replays),
            lambda n: _report(host, n),
        ),
        needs=("smi",),
    )


def _widths(observed: FleetFacts, context: JudgeContext) -> dict[str, set[int | None]]:
    found: dict[str, set[int | None]] = {}
    for host in context.site.in_scope:
        smi = observed.hosts[host.name].smi if host.name in observed.hosts else None
        if isinstance(smi, SmiLog):
            found.setdefault(host.sku, set()).update(gpu.link_width_current for gpu in smi.gpus if not gpu.trouble)
    return found


def _usual_generations(observed: FleetFacts, context: JudgeContext) -> dict[str, int]:
    """Return, by SKU, the maximum generation that the links of more than half of its GPUs have."""
    found: dict[str, Counter[int]] = {}
    for host in context.site.in_scope:
        smi = observed.hosts[host.name].smi if host.name in observed.hosts else None
        if isinstance(smi, SmiLog):
            able = (gpu.link_gen_max for gpu in smi.gpus if not gpu.trouble)
            found.setdefault(host.sku, Counter()).update(number for number in able if number)
    return {sku: number for sku, counts in found.items() if (number := more_than_half(counts)) is not None}


def _usual_replays(observed: FleetFacts, context: JudgeContext) -> dict[str, float]:
    """Return, by SKU, the median of the replays of its GPUs since their drivers were loaded."""
    found: dict[str, list[int]] = {}
    for host in context.site.in_scope:
        smi = observed.hosts[host.name].smi if host.name in observed.hosts else None
        for gpu in smi.gpus if isinstance(smi, SmiLog) else ():
            if gpu.replay_count is not None:
                found.setdefault(host.sku, []).append(gpu.replay_count)
    return {sku: median(counts) for sku, counts in found.items()}


def _replays(host: NodeContext, gpu: Gpu, usual: dict[str, float]) -> list[Finding]:
    settings, number, most = host.settings(PcieLinkSettings), gpu.replay_count or 0, usual.get(host.entry.sku, 0)
    allowed = max(settings.replays, settings.replays_times_median * most)
    if number <= allowed:
        return []
    text = f"{gpu.bus_id}: {number} PCIe replays since the driver was loaded, half of the GPUs {most:g} or fewer"
    hint = "reseat the GPU or its riser; read the counter again under load (`nvidia-smi -q -i <gpu> | grep -i replay`)"
    parts = (host.gpu(gpu.bus_id),)
    return [
        Finding(
            cause="pcie-replays-many", text=f"{text}, allowed {allowed:g}", hint=hint, subjects=parts, marginal=True
        )
    ]


def _slow(host: NodeContext, gpu: Gpu, usual: dict[str, int]) -> list[Finding]:
    able, most, sku = gpu.link_gen_max, usual.get(host.entry.sku, 0), expected_generation(host)
    if able is None or able >= max(most, sku):
        return []
    other = f"{host.sku.name} to generation {sku}" if sku > able else f"most GPUs of the SKU to generation {most}"
    text = f"{gpu.bus_id}: link is able to generation {able}, {other}"
    hint = "compare the link speed of the slot in the BIOS with that of other hosts; then reseat the GPU or its riser"
    parts = (host.gpu(gpu.bus_id),)
    return [Finding(cause="pcie-generation-low", text=text, hint=hint, subjects=parts, marginal=True)]


def expected_generation(host: NodeContext) -> int:
    """Return the PCIe generation of the SKU's GPUs; 0 where none is configured, or where GPUs use NVLink-C2C
    instead."""
    return 0 if host.sku.nvlink_domain == "rack" else host.sku.pcie_generation or 0


def _expected(host: NodeContext, gpu: Gpu) -> int:
    return host.settings(PcieLinkSettings).width or host.sku.pcie_width or gpu.link_width_max or 0


def _report(host: NodeContext, number: int) -> Report:
    gpus = host.live_gpus
    narrow = min((gpu.link_width_current or 0 for gpu in gpus), default=0)
    generations = sorted({gpu.link_gen_current or 0 for gpu in gpus})
    expected = _expected(host, gpus[0]) if gpus else 0
    lower = any((gpu.link_gen_current or 0) < (gpu.link_gen_max or 0) for gpu in gpus)
    idle = " (lower than they can at idle)" if lower else ""
    return Report(
        summary=f"{count(number, 'link')} x{narrow}, generation {', '.join(map(str, generations))} now{idle}",
        measured=(
            Measure("pcie_width_min", narrow, "lanes"),
            Measure("pcie_replays_max", max((gpu.replay_count or 0 for gpu in gpus), default=0), "count"),
        ),
        expected=(Expectation("pcie_width_min", ">=", expected, Basis.HARDWARE, "lanes"),),
        evidence=host.evidence("smi"),
    )


def _gpu(host: NodeContext, gpu: Gpu, widths: dict[str, set[int | None]]) -> list[Finding]:
    expected, width, parts = _expected(host, gpu), gpu.link_width_current, (host.gpu(gpu.bus_id),)
    if width is None or expected == 0:
        hint = "read `nvidia-smi -q` on the node; state the width: gpufleet_settings: {gpu-pcie-link: {width: 16}}"
        text = f"{gpu.bus_id}: the driver does not report the link's width"
        return [Finding(cause="pcie-width-unknown", text=text, hint=hint, subjects=parts, marginal=True)]
    if width >= expected:
        return []
    text = f"{gpu.bus_id}: link x{width}, expected x{expected}"
    if len(widths[host.entry.sku]) == 1:
        hint = f"if the machine type is wired so, state it: gpufleet_settings: {{gpu-pcie-link: {{width: {width}}}}}"
        return [Finding(cause="pcie-width-below-sku", text=text, hint=hint, subjects=parts, marginal=True)]
    return [Finding(cause="pcie-width-reduced", text=text, hint=_RESEAT, subjects=parts)]


CHECK = Check(SPEC, OBSERVER, judge)
