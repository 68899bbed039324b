# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check nvme-health: NVMe drives report no failure, are not worn out, and are as many as on other hosts of the SKU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.nvme_health import NvmeDrive
from ...verdict.majority import more_than_half
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmeHealthSettings:
    """Settings of check nvme-health."""

    used_percent: float = setting(
        "Part of a drive's rated writes (percent_used of its SMART log) from which on a person decides.",
        default=100,
        unit="%",
        above=0,
    )
    required: bool = setting(
        "Whether a host that has drives and no nvme-cli is held; false: it passes with the note that none was read.",
        default=True,
    )


SPEC = CheckSpec(
    id="nvme-health",
    gate="nodes",
    title="NVMe drives without failure, as many as on the other hosts",
    per=SubjectKind.NODE,
    compares=True,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("nvme-failing",),
    settings=NvmeHealthSettings,
)
_FACT = "drives"
_BITS = {
    1: "spare blocks below their limit", 2: "temperature beyond its limit", 4: "no longer reliable", 8: "read only",
    16: "its backup of volatile memory failed", 32: "its persistent memory is read only or not reliable",
}  # fmt: skip
_HOT, _SPARE = 2, 1


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every drive: a critical warning fails; heat, wear, media errors and a missing drive are for a person to
    decide."""
    usual = _usual(seen, context)
    return per_host(SPEC, seen, context, lambda host: _judge(host, usual.get(host.entry.sku, 0)))


def _usual(seen: FleetFacts, context: JudgeContext) -> Mapping[str, int]:
    """Return, by SKU, the number of drives that more than half of its hosts have."""
    counts: dict[str, Counter[int]] = {}
    for entry in context.site.in_scope:
        drives = seen.hosts[entry.name].read(_FACT, tuple) if entry.name in seen.hosts else ()
        if entry.name in seen.hosts and not isinstance(drives, ProbeFailure):
            counts.setdefault(entry.sku, Counter())[len(drives)] += 1
    return {sku: number for sku, found in counts.items() if (number := more_than_half(found)) is not None}


def _judge(host: NodeContext, usual: int) -> Report | Outcome:
    drives, settings = host.facts.read(_FACT, tuple), host.settings(NvmeHealthSettings)
    proof = host.evidence(_FACT)
    if isinstance(drives, ProbeFailure):
        if drives.kind == "missing" and not settings.required:
            return Report(summary="nvme-cli is not installed, so that no drive was read", evidence=proof)
        return host.tool_failure(_FACT, drives)
    findings = [finding for drive in drives for finding in _drive(drive, settings)]
    if len(drives) < usual:
        text = f"{count(len(drives), 'NVMe drive')}, most hosts of the SKU have {usual}"
        hint = "`lspci -d ::0108` and `nvme list` on the node: a drive that is gone, or a slot that was left empty"
        findings.append(Finding(cause="nvme-missing", text=text, hint=hint, marginal=True))
    silent = [drive for drive in drives if drive.complaint]
    if silent and not findings:
        text = f"no SMART log of {', '.join(drive.name for drive in silent)}: {silent[0].complaint}"
        hint = f"`nvme smart-log /dev/{silent[0].name}` on the node"
        return host.answer.unknown("nvme-not-reported", text, hint, evidence=proof)
    worn = max((drive.used_percent for drive in drives), default=0.0)
    return Report(
        summary=f"{count(len(drives), 'NVMe drive')} without a warning, worn to {worn:g} % at most",
        findings=tuple(findings),
        measured=(Measure("used_max", worn, "%"), Measure("drives", len(drives), "count")),
        expected=(Expectation("used_max", "<", settings.used_percent, Basis.RULE, "%"),),
        evidence=proof,
    )


def _drive(drive: NvmeDrive, settings: NvmeHealthSettings) -> list[Finding]:
    hint = f"`nvme smart-log /dev/{drive.name}` on the node; save what is on it and replace it"
    found: list[Finding] = []
    if drive.warning:
        said = "; ".join(text for bit, text in _BITS.items() if drive.warning & bit) or "a bit that has no name"
        hot = drive.warning == _HOT
        text = f"{drive.name}: critical warning 0x{drive.warning:02x}: {said}"
        if hot:
            hint = f"look at fans and airflow; then `nvme smart-log /dev/{drive.name}` on the node"
        found.append(Finding(cause="nvme-hot" if hot else "nvme-failing", text=text, hint=hint, marginal=hot))
    elif drive.used_percent >= settings.used_percent:
        text = f"{drive.name}: worn to {drive.used_percent:g} %, a person decides from {settings.used_percent:g} % on"
        found.append(Finding(cause="nvme-worn", text=text, hint=hint, marginal=True))
    if drive.media_errors:
        text = f"{drive.name}: {count(drive.media_errors, 'media error')}, data that the drive could not give back"
        found.append(Finding(cause="nvme-media-errors", text=text, hint=hint, marginal=True))
    if drive.endurance_warning and not drive.warning:
        text = f"{drive.name}: warning 0x{drive.endurance_warning:02x} of an endurance group"
        found.append(Finding(cause="nvme-endurance-group", text=text, hint=hint, marginal=True))
    if drive.spare_percent < drive.spare_threshold_percent and not drive.warning & _SPARE:
        text = f"{drive.name}: {drive.spare_percent:g} % of its spare left, under {drive.spare_threshold_percent:g} %"
        found.append(Finding(cause="nvme-spare-low", text=text, hint=hint, marginal=True))
    return found


CHECK = Check(SPEC, OBSERVER, judge)
