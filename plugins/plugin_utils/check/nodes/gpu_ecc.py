# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-ecc: ECC is on, no uncorrectable error since the driver was loaded, no repair is due."""

from __future__ import annotations

from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.nvidia_smi_xml import Gpu
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, Unreported, per_gpu, per_host
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class EccSettings:
    """Settings of check gpu-ecc."""

    # Public figures of a large operator's node checks.
    ecc_dram_correctable: int = setting(
        "Corrected errors of the memory, since the driver was loaded, from which on a person should look at the GPU.",
        default=20000000,
        unit="errors",
        minimum=1,
    )
    ecc_sram_correctable: int = setting(
        "The same for SRAM (caches and registers).", default=10000, unit="errors", minimum=1
    )


SPEC = CheckSpec(
    id="gpu-ecc",
    gate="nodes",
    title="No uncorrectable memory errors",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("ecc-uncorrectable", "ecc-unrepairable", "ecc-sram-threshold", "ecc-disabled", "ecc-repair-pending"),
    settings=EccSettings,
)
_RESET = (
    "drain the node, reset the GPU (`nvidia-smi -r -i <gpu>`) and run `dcgmi diag -r 3`; replace it if it comes back"
)


# Microsoft's rule for A100 in Azure (azurehpc-health-checks) and NVIDIA's for its RMA: more than four in a lifetime.
_SRAM_LIFE = 5


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge volatile counters. Aggregate ones are the GPU's past; of those only SRAM errors count."""
    return per_host(SPEC, observed, context, _judge, needs=("smi",))


def _judge(host: NodeContext) -> Report | Outcome:
    has_ecc = host.sku.gpu_kind.ecc
    needs = (
        Unreported("ecc-mode-not-reported", "ECC mode", lambda gpu: has_ecc and gpu.ecc_current is None),
        Unreported(
            "ecc-not-reported",
            "count of uncorrectable errors",
            lambda gpu: gpu.ecc_current == "Enabled" and not _counted(gpu),
        ),
    )
    return per_gpu(host, _gpu, lambda number: _report(host, number), needs)


def _counted(gpu: Gpu) -> bool:
    """Whether errors of both memories are counted. In MIG mode the slices count where the GPU does not."""
    slices = bool(gpu.mig_devices) and all(part.sram_uncorrectable is not None for part in gpu.mig_devices)
    sram = gpu.ecc_volatile.sram_uncorrectable is not None
    dram = gpu.ecc_volatile.dram_uncorrectable is not None
    return (sram and dram) or (gpu.mig_current == "Enabled" and (slices or sram or dram))


def _report(host: NodeContext, number: int) -> Report:
    past = sum(gpu.ecc_aggregate.uncorrectable for gpu in host.live_gpus)
    now = sum(gpu.ecc_volatile.uncorrectable for gpu in host.live_gpus)
    note = f"; {past} in their whole life" if past else ""
    return Report(
        summary=f"no uncorrectable error on {count(number, 'GPU')} since the driver was loaded{note}",
        measured=(
            Measure("uncorrectable_volatile", now, "count"),
            Measure("uncorrectable_aggregate", past, "count"),
        ),
        expected=(Expectation("uncorrectable_volatile", "==", 0, Basis.RULE, "count"),),
        evidence=host.evidence("smi"),
    )


def _gpu(host: NodeContext, gpu: Gpu) -> list[Finding]:
    parts, volatile = (host.gpu(gpu.bus_id),), gpu.ecc_volatile
    findings: list[Finding] = []
    if gpu.ecc_current == "Disabled":
        hint = "`nvidia-smi -e 1` on the node, then reboot it"
        findings.append(Finding(cause="ecc-disabled", text=f"{gpu.bus_id}: ECC is off", hint=hint, subjects=parts))
    elif gpu.ecc_pending is not None and gpu.ecc_current is not None and gpu.ecc_pending != gpu.ecc_current:
        text = f"{gpu.bus_id}: ECC is {gpu.ecc_current.lower()}, and {gpu.ecc_pending.lower()} from the next reboot on"
        hint = "`nvidia-smi -e 1` on the node, before it is rebooted"
        findings.append(Finding(cause="ecc-mode-pending", text=text, hint=hint, subjects=parts, marginal=True))
    if gpu.unrepairable_memory:
        text = f"{gpu.bus_id}: the driver reports memory that cannot be repaired"
        findings.append(Finding(cause="ecc-unrepairable", text=text, hint="replace the GPU", subjects=parts))
    if volatile.uncorrectable:
        text = (
            f"{gpu.bus_id}: {volatile.uncorrectable} uncorrectable errors "
            f"(DRAM {volatile.dram_uncorrectable or 0}, SRAM {volatile.sram_uncorrectable or 0})"
        )
        findings.append(Finding(cause="ecc-uncorrectable", text=text, hint=_RESET, subjects=parts))
    for part in gpu.mig_devices:
        if part.sram_uncorrectable:
            text = f"{gpu.bus_id}: {part.sram_uncorrectable} uncorrectable errors in MIG device {part.index}"
            findings.append(Finding(cause="ecc-uncorrectable", text=text, hint=_RESET, subjects=parts))
    if volatile.sram_threshold_exceeded or gpu.ecc_aggregate.sram_threshold_exceeded:
        text = f"{gpu.bus_id}: SRAM error threshold exceeded"
        findings.append(
            Finding(
                cause="ecc-sram-threshold", text=text, hint="replace the GPU: SRAM cannot be repaired", subjects=parts
            )
        )
    elif (past := gpu.ecc_aggregate.sram_uncorrectable or 0) >= _SRAM_LIFE and not _has_threshold(gpu):
        text = f"{gpu.bus_id}: {past} uncorrectable SRAM errors in its life, and the driver has no threshold for them"
        hint = "have the GPU replaced (SRAM cannot be repaired), or accept it with a ticket"
        findings.append(Finding(cause="ecc-sram-past", text=text, hint=hint, subjects=parts, marginal=True))
    due = [name for name, flag in (("channel", gpu.channel_repair_pending), ("TPC", gpu.tpc_repair_pending)) if flag]
    if due:
        text = f"{gpu.bus_id}: {' and '.join(due)} repair pending"
        findings.append(
            Finding(cause="ecc-repair-pending", text=text, hint="drain and reboot the node", subjects=parts)
        )
    return findings + _many_corrected(host, gpu)


def _has_threshold(gpu: Gpu) -> bool:
    return gpu.ecc_aggregate.sram_threshold_exceeded is not None or gpu.ecc_volatile.sram_threshold_exceeded is not None


def _many_corrected(host: NodeContext, gpu: Gpu) -> list[Finding]:
    settings = host.settings(EccSettings)
    counts = (
        ("DRAM", gpu.ecc_volatile.dram_correctable, settings.ecc_dram_correctable),
        ("SRAM", gpu.ecc_volatile.sram_correctable, settings.ecc_sram_correctable),
    )
    return [
        Finding(
            cause="ecc-correctable-high",
            text=f"{gpu.bus_id}: {found} corrected {memory} errors, usual are under {limit}",
            hint="run `dcgmi diag -r 3` again and compare with the other GPUs before accepting it",
            subjects=(host.gpu(gpu.bus_id),),
            marginal=True,
        )
        for memory, found, limit in counts
        if found is not None and found >= limit
    ]


CHECK = Check(SPEC, OBSERVER, judge)
