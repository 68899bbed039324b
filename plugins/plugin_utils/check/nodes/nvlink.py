# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check nvlink: every link of every GPU carries data, and the GPUs are registered with their NVLink fabric."""

from __future__ import annotations

from ...collect.host_facts import FleetFacts, ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.nvidia_smi_model import Gpu
from ...probe.nvidia_smi_nvlink import NvlinkGpu
from ..spec import CheckSpec, Disturbance, JudgeContext
from .case import Case, Finding, Report, per_host, tool_failure
from .mig_mode import expected_mode
from .nvlink_domain import Domains, domain_findings, rack_domains

SPEC = CheckSpec(
    id="nvlink",
    gate="nodes",
    title="All NVLinks active, fabric registered",
    observation="hosts",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=(
        "nvlink-inactive", "nvlink-fabric-not-ready", "nvlink-fabric-unhealthy", "nvlink-domain-not-joined",
        "nvlink-domain-split",
    ),
)  # fmt: skip
_LINKS = "reset the GPU; if the link stays down, look at the kernel log (XID 74, SXid) and the NVSwitch"
_FABRIC = "`nvidia-smi -q | grep -A4 Fabric`; restart nvidia-fabricmanager, then reset the GPU"


def judge(value: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Links against the SKU; fabric state where GPUs of that generation hang on NVSwitches."""
    domains = rack_domains(value, context)
    return per_host(SPEC, value, context, lambda case: _host(case, domains), needs=("smi",))


def _host(case: Case, domains: Domains) -> Report | Outcome:
    if case.sku.nvlink_links == 0:
        return Report(summary=f"{case.sku.name} has no NVLink")
    if isinstance(case.facts.nvlink, ProbeFailure):
        return tool_failure(case, "nvlink", case.facts.nvlink)
    status = case.facts.nvlink
    mig = [entry for entry in status.gpus if entry.mig]
    if mig and expected_mode(case.context) != "Enabled":
        return case.answer.blocked(by="mig-mode", because="the driver tells nothing about NVLinks of a GPU in MIG mode")
    if mig:
        return Report(
            summary="MIG is wanted here, and a GPU in MIG mode uses no NVLink", evidence=case.evidence("nvlink")
        )
    return _links(case, status.gpus, domains)


def _links(case: Case, entries: tuple[NvlinkGpu, ...], domains: Domains) -> Report | Outcome:
    expected, live = case.sku.nvlink_links, case.live_gpus
    if len(entries) < len(live):
        text = f"`nvidia-smi nvlink -s` names {len(entries)} GPUs, `nvidia-smi -q` {len(live)}"
        return case.answer.unknown("nvidia-smi-inconsistent", text, "run both on the node again")
    lost = {case.gpu(gpu.bus_id) for gpu in case.smi.gpus if gpu.trouble}
    few = [entry for entry in entries if entry.active < expected]
    short = tuple(_short(case, entry) for entry in few if case.gpu_named(entry.index, entry.uuid) not in lost)
    if short and not case.sku.nvswitches and len(live) < case.sku.gpus:
        return case.answer.blocked(
            by="gpu-census", because="GPUs are wired to each other, and one that is gone takes links with it"
        )
    fabric = tuple(finding for gpu in live for finding in _fabric(case, gpu))
    if fabric and case.facts.fabric_manager not in ("active",) and isinstance(case.facts.fabric_manager, str):
        if not short:
            return case.answer.blocked(
                by="fabric-manager", because=f"nvidia-fabricmanager is {case.facts.fabric_manager}"
            )
        fabric = ()
    findings = short + fabric + (() if fabric else domain_findings(case, domains))
    if not findings and lost:
        return case.answer.blocked(by="gpu-census", because=f"{len(lost)} of {len(case.smi.gpus)} GPUs do not answer")
    return _report(case, entries, findings)


def _report(case: Case, entries: tuple[NvlinkGpu, ...], findings: tuple[Finding, ...]) -> Report:
    expected = case.sku.nvlink_links
    return Report(
        summary=f"{expected} links active on each of {len(entries)} GPUs",
        findings=findings,
        measured=(Measure("nvlinks_active_min", min((entry.active for entry in entries), default=0), "count"),),
        expected=(Expectation("nvlinks_active_min", ">=", expected, Basis.HARDWARE, "count"),),
        evidence=case.evidence("nvlink"),
    )


def _short(case: Case, entry: NvlinkGpu) -> Finding:
    off = [str(number) for number, speed in entry.links if speed <= 0]
    which = f", inactive: {', '.join(off)}" if off else ""
    said = f" ({entry.notes[0]})" if entry.notes else ""
    text = f"GPU {entry.index}: {entry.active} of {case.sku.nvlink_links} links active{which}{said}"
    return Finding(cause="nvlink-inactive", text=text, hint=_LINKS, parts=(case.gpu_named(entry.index, entry.uuid),))


def _fabric(case: Case, gpu: Gpu) -> list[Finding]:
    """Judge the registration; N/A is an answer only where the GPU or the machine has no such fabric."""
    first = int(case.limit("fabric_state_from_nvlink_generation"))
    switched = bool(case.sku.nvswitches) or case.sku.nvlink_domain == "rack"
    parts = (case.gpu(gpu.bus_id),)
    state = (gpu.fabric.state or "N/A", gpu.fabric.status or "N/A")
    judged = state != ("N/A", "N/A") or (switched and (case.sku.nvlink_generation or 0) >= first)
    if judged and state != ("Completed", "Success"):
        text = f"{gpu.bus_id}: fabric state {state[0]}, status {state[1]}, expected Completed and Success"
        return [Finding(cause="nvlink-fabric-not-ready", text=text, hint=_FABRIC, parts=parts)]
    if gpu.fabric.health not in (None, "Healthy"):
        text = f"{gpu.bus_id}: fabric health {gpu.fabric.health}"
        return [Finding(cause="nvlink-fabric-unhealthy", text=text, hint=_FABRIC, parts=parts)]
    return []
