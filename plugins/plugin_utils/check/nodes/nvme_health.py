# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check nvme-health: NVMe drives report no failure, are not worn out, and are as many as on other hosts of the SKU.

Parser of `nvme smart-log <drive> -o json` of every drive, each below a line with its name (nvme-cli 1 and 2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.errors import InputError
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.blocks import blocks
from ...probe.json_output import amount, an_object, read_json
from ...probe.text import unreadable
from ...verdict.majority import more_than_half
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

_TOOL = "nvme smart-log"
_END = "end"
_KELVIN = 273
# 2 ** 128 has 39.
_DIGITS = 40
_ENDURANCE = "endurance_grp_critical_warning_summary"


@dataclass(frozen=True, slots=True)
class NvmeDrive:
    """One drive. `warning` are the bits of its critical warning (NVM Express Base Specification, SMART log): 1 spare
    too low, 2 temperature, 4 not reliable, 8 read only, 16 backup of its memory failed, 32 memory region. `complaint`
    is what the tool said in place of a log; then nothing else is known. `media_errors` counts reads and writes that the
    drive could not repair, `endurance_warning` are the bits of its endurance groups, where the tool prints them."""

    name: str
    warning: int = 0
    used_percent: float = 0.0
    spare_percent: float = 0.0
    temperature_c: float = 0.0
    spare_threshold_percent: float = 0.0
    media_errors: int = 0
    endurance_warning: int = 0
    complaint: str = ""


def parse(text: str) -> tuple[NvmeDrive, ...]:
    """Return the drives in the tool's order; none on a host without.

    Raises:
        InputError: the end is missing, so drives may be, too.
    """
    parts = blocks(text, _TOOL)
    if _END not in parts or any(line.strip() for line in parts[_END]):
        raise unreadable(_TOOL, text[-80:], f"`===== {_END} =====` after the last drive")
    return tuple(_nvme_health_drive(name, "\n".join(lines)) for name, lines in parts.items() if name != _END)


def _nvme_health_drive(name: str, reported: str) -> NvmeDrive:
    start = reported.find("{")
    try:
        entry = an_object(read_json(reported[start:], _TOOL) if start >= 0 else None, _TOOL, name)
        return NvmeDrive(
            name=name,
            warning=int(_warning(entry)),
            used_percent=amount(entry, "percent_used", _TOOL),
            spare_percent=amount(entry, "avail_spare", _TOOL),
            temperature_c=amount(entry, "temperature", _TOOL) - _KELVIN,
            spare_threshold_percent=amount(entry, "spare_thresh", _TOOL),
            media_errors=_large(entry, "media_errors"),
            endurance_warning=_large({_ENDURANCE: 0} | entry, _ENDURANCE),
        )
    except InputError:
        return NvmeDrive(name=name, complaint=" ".join(reported.split())[:200] or "nothing")


def _warning(entry: dict[str, Any]) -> float:
    """Return the bits: a number, or with `-v` of version 2 an object that has it as `value`."""
    if isinstance(entry.get("critical_warning"), dict):
        return amount(entry["critical_warning"], "value", _TOOL)
    return amount(entry, "critical_warning", _TOOL)


def _large(entry: dict[str, Any], name: str) -> int:
    """Return a counter of 128 bits: a number, or in some releases of version 2 a text of digits."""
    value = entry.get(name)
    if isinstance(value, str) and value.isdecimal() and len(value) < _DIGITS:
        return int(value)
    return int(amount(entry, name, _TOOL))


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


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every drive: a critical warning fails; heat, wear, media errors and a missing drive are for a person to
    decide."""
    usual = _usual(observed, context)
    return per_host(SPEC, observed, context, lambda host: _judge(host, usual.get(host.entry.sku, 0)))


def _usual(observed: FleetFacts, context: JudgeContext) -> Mapping[str, int]:
    """Return, by SKU, the number of drives that more than half of its hosts have."""
    counts: dict[str, Counter[int]] = {}
    for entry in context.site.in_scope:
        drives = observed.hosts[entry.name].read(_FACT, tuple) if entry.name in observed.hosts else ()
        if entry.name in observed.hosts and not isinstance(drives, ProbeFailure):
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
    not_reporting = [drive for drive in drives if drive.complaint]
    if not_reporting and not findings:
        text = f"no SMART log of {', '.join(drive.name for drive in not_reporting)}: {not_reporting[0].complaint}"
        hint = f"`nvme smart-log /dev/{not_reporting[0].name}` on the node"
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
        reported = "; ".join(text for bit, text in _BITS.items() if drive.warning & bit) or "a bit that has no name"
        hot = drive.warning == _HOT
        text = f"{drive.name}: critical warning 0x{drive.warning:02x}: {reported}"
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
