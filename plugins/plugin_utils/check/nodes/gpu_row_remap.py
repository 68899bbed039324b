# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-row-remap: no failed or pending row remapping, no pending page retirement, spare rows left.

Generations before Ampere retire pages of memory in place of rows, at most 64 (NVIDIA, "GPU Memory Error Management",
which about an RMA says only that there is a threshold). The thresholds are those of NVIDIA's own DCGM, which
its settings name. Later generations report no such number.
"""

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
class RowRemapSettings:
    """Settings of check gpu-row-remap."""

    # NVIDIA/DCGM, common/DcgmGpuHardwareLimits.h (DCGM_LIMIT_MAX_RETIRED_PAGES 63, "to match the field diag"; 60
    # before), and modules/health/DcgmHealthWatch.cpp: failed from it on; above the soft limit of 15 for errors of two
    # bits, failed with more than one within a week.
    retired_pages: int = setting(
        "Retired pages of memory from which on a GPU is to be replaced, on generations that retire pages.",
        default=63,
        unit="pages",
        minimum=1,
    )
    retired_pages_double_bit: int = setting(
        "Pages that were retired for errors of two bits above which a person decides: of such a GPU NVIDIA asks "
        "whether more than one of them came within a week.",
        default=15,
        unit="pages",
        minimum=0,
    )


SPEC = CheckSpec(
    id="gpu-row-remap",
    gate="nodes",
    title="GPU memory rows in order",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=("row-remap-failure", "row-remap-pending", "page-retirement-pending", "pages-retired"),
    settings=RowRemapSettings,
)
_REBOOT = "drain the node and reset the GPU (`nvidia-smi -r -i <gpu>`) or reboot, then run the gate again"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every GPU. One of a generation without row remapping (N/A) has nothing to judge."""
    return per_host(SPEC, observed, context, _judge, needs=("smi",))


def _judge(host: NodeContext) -> Report | Outcome:
    remaps = host.sku.gpu_kind.row_remap
    # In MIG mode some drivers print N/A for the whole GPU.
    need = Unreported(
        "row-remap-not-reported",
        "row remapping",
        lambda gpu: remaps and gpu.remapped_rows is None and gpu.mig_current != "Enabled",
    )
    return per_gpu(host, _gpu, lambda number: _report(host, number), (need,))


def _report(host: NodeContext, number: int) -> Report:
    rows = [gpu.remapped_rows for gpu in host.live_gpus if gpu.remapped_rows is not None]
    remapped = sum(entry.correctable + entry.uncorrectable for entry in rows)
    note = f", {count(remapped, 'row')} remapped and in use" if remapped else ""
    return Report(
        summary=f"no remapping failed or pending on {count(number, 'GPU')}{note}",
        measured=(Measure("rows_remapped", remapped, "count"), Measure("gpus_with_remapping", len(rows), "count")),
        expected=(Expectation("remapping_failed_or_pending", "==", 0, Basis.RULE, "count"),),
        evidence=host.evidence("smi"),
    )


def _gpu(host: NodeContext, gpu: Gpu) -> list[Finding]:
    parts, rows = (host.gpu(gpu.bus_id),), gpu.remapped_rows
    findings: list[Finding] = []
    if rows is not None and rows.failure:
        text = f"{gpu.bus_id}: a row could not be remapped"
        findings.append(
            Finding(
                cause="row-remap-failure", text=text, hint="replace the GPU: it has no spare row left", subjects=parts
            )
        )
    if rows is not None and rows.pending:
        text = f"{gpu.bus_id}: row remapping pending"
        findings.append(Finding(cause="row-remap-pending", text=text, hint=_REBOOT, subjects=parts))
    if gpu.remapped_banks is not None and gpu.remapped_banks.pending:
        text = f"{gpu.bus_id}: remapping of a memory bank pending"
        findings.append(Finding(cause="row-remap-pending", text=text, hint=_REBOOT, subjects=parts))
    if gpu.retirement_pending:
        text = f"{gpu.bus_id}: page retirement pending"
        findings.append(Finding(cause="page-retirement-pending", text=text, hint=_REBOOT, subjects=parts))
    findings += _retired(host, gpu)
    if rows is not None and not rows.failure:
        scarce = rows.histogram.get("low", 0) + rows.histogram.get("none", 0)
        scarce += (gpu.remapped_banks.groups_without_spare or 0) if gpu.remapped_banks is not None else 0
        if scarce:
            text = f"{gpu.bus_id}: {count(scarce, 'memory bank')} with few or no spares"
            hint = "plan its replacement; accept it only with a ticket"
            findings.append(
                Finding(cause="row-remap-headroom-low", text=text, hint=hint, subjects=parts, marginal=True)
            )
    return findings


def _retired(host: NodeContext, gpu: Gpu) -> list[Finding]:
    limits, parts = host.settings(RowRemapSettings), (host.gpu(gpu.bus_id),)
    double = gpu.retired_pages_double_bit or 0
    retired = (gpu.retired_pages_single_bit or 0) + double
    if retired >= limits.retired_pages:
        most = limits.retired_pages
        text = f"{gpu.bus_id}: {count(retired, 'page')} of memory retired, a GPU is to be replaced from {most} on"
        hint = "save `nvidia-smi -q -d PAGE_RETIREMENT` for the vendor and have the GPU replaced"
        return [Finding(cause="pages-retired", text=text, hint=hint, subjects=parts)]
    if double > limits.retired_pages_double_bit:
        text = f"{gpu.bus_id}: {count(double, 'page')} of memory retired for errors of two bits"
        hint = (
            "compare with `nvidia-smi -q -d PAGE_RETIREMENT` of a week before: with two or more new ones have the GPU "
            "replaced, else accept it with a ticket"
        )
        return [Finding(cause="pages-retired-by-double-bit", text=text, hint=hint, subjects=parts, marginal=True)]
    return []


CHECK = Check(SPEC, OBSERVER, judge)
