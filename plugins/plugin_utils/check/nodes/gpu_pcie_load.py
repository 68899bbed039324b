# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-pcie-load: under load every GPU's PCIe link runs at its full generation and width.

An idle link saves power at a lower generation, so only a reading of a busy GPU shows whether it rises again. The
readings are taken while the diagnostic loads the GPUs; gpu-pcie-link judges idle links.

Parser of readings of `nvidia-smi --query-gpu=pci.bus_id,utilization.gpu,...` while something loads the GPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.errors import InputError
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe import nvidia_smi_query
from ...probe.text import plain, unreadable
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .dcgm_diag_settings import DCGM_DIAG, DcgmDiagSettings
from .gpu_pcie_link import expected_generation
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

_TOOL = "nvidia-smi --query-gpu=pci.bus_id,utilization.gpu,pcie.link.gen.current"
_HEADER = re.compile(r"pci\.bus_id, ")
_BUSY_PERCENT = 10.0
_COLUMNS = ("utilization.gpu", "pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current")


@dataclass(frozen=True, slots=True)
class LoadedLink:
    """The link of one GPU over all readings in which the GPU was at work (`busy` of them). `generation` and `width` are
    the best that were seen, `least_width` the least; 0 where there was none. `able` is the generation that GPU and
    machine can do together."""

    bus_id: str
    busy: int = 0
    generation: int = 0
    able: int = 0
    width: int = 0
    least_width: int = 0


def parse(text: str) -> tuple[LoadedLink, ...]:
    """Return the GPUs in the order in which they were first listed. What the last reading lacks, which was cut short
    when the load ended, counts for nothing.

    Raises:
        InputError: no whole reading, or one that is not what the tool prints.
    """
    readings: list[list[str]] = []
    for line in plain(text).splitlines():
        if _HEADER.match(line):
            readings.append([line])
        elif readings:
            readings[-1].append(line)
        elif line.strip():
            raise unreadable(_TOOL, line, "a header that begins with `pci.bus_id, `")
    links: dict[str, LoadedLink] = {}
    for number, lines in enumerate(readings, 1):
        try:
            gpus = nvidia_smi_query.parse("\n".join(lines))
        except InputError:
            if number == len(readings) > 1:
                break
            raise
        for gpu in gpus:
            links[gpu.bus_id] = _with(links.get(gpu.bus_id, LoadedLink(gpu.bus_id)), gpu)
    if not links:
        raise unreadable(_TOOL, text[:80], "at least one whole reading")
    return tuple(links.values())


def _with(link: LoadedLink, gpu: nvidia_smi_query.QueriedGpu) -> LoadedLink:
    values = [_number(gpu.values.get(name)) for name in _COLUMNS]
    if gpu.lost or any(value is None for value in values):
        return link
    used, generation, able, width = (value or 0.0 for value in values)
    if used < _BUSY_PERCENT:
        return link
    return LoadedLink(
        bus_id=link.bus_id,
        busy=link.busy + 1,
        generation=max(link.generation, int(generation)),
        able=max(link.able, int(able)),
        width=max(link.width, int(width)),
        least_width=min(link.least_width or int(width), int(width)),
    )


def _number(word: str | None) -> float | None:
    return float(word) if word is not None and re.fullmatch(r"\d{1,6}(?:\.\d{1,3})?", word) else None


SPEC = CheckSpec(
    id="gpu-pcie-load",
    gate="nodes",
    title="PCIe links at full generation and width under load",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "host_driver"),),
    causes=("pcie-generation-reduced", "pcie-width-drops"),
)
_FACT = "pcie_under_load"
# From this level on the diagnostic moves data (DCGM's guide); level 1 tests software alone.
_LOADING = 2


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge the best generation and the worst width of all readings under load."""
    return per_host(SPEC, observed, context, _judge, needs=("smi",))


def _judge(host: NodeContext) -> Report | Outcome:
    proof = host.evidence(_FACT)
    if host.sku.nvlink_domain == "rack":
        text = f"GPUs of {host.sku.name} reach the processor by NVLink-C2C, not by PCIe"
        return Report(summary=text, evidence=proof)
    if host.context.settings_of(DCGM_DIAG, DcgmDiagSettings, host.entry.sku).level < _LOADING:
        return Report(summary="no diagnostic that loads the GPUs is wanted here", evidence=proof)
    if isinstance(host.facts.diag, ProbeFailure):
        return host.answer.blocked(by=DCGM_DIAG, because="the diagnostic did not run, so nothing loaded the GPUs")
    if host.facts.diag_level < _LOADING:
        return host.answer.blocked(by=DCGM_DIAG, because=f"level {host.facts.diag_level} does not load the GPUs")
    links = host.facts.read(_FACT, tuple)
    if isinstance(links, ProbeFailure):
        return host.tool_failure(_FACT, links)
    reported: dict[str, LoadedLink] = {link.bus_id: link for link in links}
    idle = {gpu.bus_id: gpu.link_width_current or 0 for gpu in host.live_gpus}
    live = list(idle)
    findings = [f for bus_id in live if bus_id in reported for f in _findings(host, reported[bus_id], idle[bus_id])]
    unseen = [bus_id for bus_id in live if bus_id not in reported or not reported[bus_id].busy]
    if unseen and not findings:
        text = f"no reading of {', '.join(unseen)} at work while the diagnostic ran"
        hint = "`nvidia-smi dmon -s pct` beside `dcgmi diag -r 2` on the node; then run the gate again"
        return host.answer.unknown("pcie-not-seen-under-load", text, hint, evidence=proof)
    if not live:
        return host.answer.blocked(by="gpu-census", because="no GPU answers")
    mine = [reported[bus_id] for bus_id in live if bus_id in reported and reported[bus_id].busy]
    return Report(
        summary=f"{count(len(mine), 'link')} under load, generation {min(link.generation for link in mine)} or more",
        findings=tuple(findings),
        measured=(
            Measure("pcie_generation_min", min(link.generation for link in mine)),
            Measure("pcie_width_min", min(link.least_width for link in mine), "lanes"),
        ),
        expected=(
            Expectation(
                "pcie_generation_min",
                ">=",
                expected_generation(host) or min(link.able for link in mine),
                Basis.HARDWARE,
            ),
        ),
        evidence=proof,
    )


def _findings(host: NodeContext, link: LoadedLink, idle_width: int) -> list[Finding]:
    parts, wide = (host.gpu(link.bus_id),), max(link.width, idle_width)
    found: list[Finding] = []
    if link.busy and link.generation < link.able:
        observed = f"generation {link.generation} in {count(link.busy, 'reading')} under load"
        text = f"{link.bus_id}: {observed}, able to {link.able}"
        hint = "reseat the GPU or its riser, compare the slot's speed in the BIOS; `lspci -vv` shows LnkSta and LnkCap"
        found.append(Finding(cause="pcie-generation-reduced", text=text, hint=hint, subjects=parts))
    elif link.busy and link.generation < expected_generation(host):
        text = (
            f"{link.bus_id}: generation {link.generation} under load, {host.sku.name} has {expected_generation(host)}"
        )
        hint = (
            "`lspci -vv` shows LnkCap of each bridge above the GPU; compare slot, riser, switch and BIOS with the SKU"
        )
        found.append(Finding(cause="pcie-generation-low", text=text, hint=hint, subjects=parts, marginal=True))
    if link.busy and link.least_width < wide:
        text = f"{link.bus_id}: x{link.least_width} under load, x{wide} at other times"
        hint = "reseat the GPU or its riser: lanes that drop under load are a bad contact; replace the riser"
        found.append(Finding(cause="pcie-width-drops", text=text, hint=hint, subjects=parts))
    return found


CHECK = Check(SPEC, OBSERVER, judge)
