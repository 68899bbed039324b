# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check kernel-hardware: the kernel reports no uncorrected error of CPU, memory, PCIe, adapters or drives."""

from __future__ import annotations

from collections import Counter

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.kernel_hardware import HardwareEvent, Kind
from ..kit.counting import count
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, per_host, value_of
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="kernel-hardware",
    gate="nodes",
    title="Kernel reports no broken hardware",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    requires=("host_access",),
    causes=("machine-check", "memory-uncorrected", "pcie-fatal", "transceiver-hot", "adapter-dead", "drive-dead"),
)
_PARTS = "compare the slot of the device with `lspci -D`; reseat it, then its riser; replace it if the error comes back"
_HINTS: dict[Kind, str] = {
    "machine-check": "drain the node and read the event log of its BMC (`ipmitool sel list`): CPU or board",
    "memory-uncorrected": "drain the node and replace the memory module that the BMC's event log names",
    "pcie-fatal": _PARTS,
    "pcie-uncorrected": _PARTS,
    "transceiver-hot": "look at the airflow over the port and `mlxlink -d <device> -m`; reseat or replace the module",
    "transceiver-error": "`mlxlink -d <device> -m`; clean, reseat or replace the module or cable",
    "drive-dead": "`nvme list` and `lspci -D`: reseat or replace the drive that is missing there, then reboot the node",
    "drive-error": "`nvme smart-log` of the drive; replace it if errors grow, else accept it with a ticket",
    "filesystem-read-only": "`findmnt --list --options ro`: check the file system and its drive, then mount it again",
    "adapter-dead": "power-cycle the node; if it comes back, update the adapter's firmware or replace the adapter",
}
_MARGINAL: frozenset[Kind] = frozenset(("pcie-uncorrected", "transceiver-error", "drive-error", "filesystem-read-only"))


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Uncorrected errors since boot fail; what the hardware corrected is not reported by these lines."""
    return per_host(SPEC, seen, context, _judge, needs=("kernel",))


def _judge(host: NodeContext) -> Report | Outcome:
    log = value_of(host.facts.kernel)
    times = Counter((event.kind, event.device) for event in log.hardware)
    last = {(event.kind, event.device): event for event in log.hardware}
    findings = tuple(_finding(last[key], number) for key, number in times.items())
    if not findings and "kernel_log" in host.facts.cut:
        return host.answer.blocked(by="kernel-xid", because="a part of the kernel log was not looked at")
    return Report(
        summary=f"no uncorrected error in {log.lines} lines since boot",
        findings=findings,
        measured=(Measure("hardware_errors", len(log.hardware), "count"),),
        expected=(Expectation("hardware_errors", "==", 0, Basis.RULE, "count"),),
        evidence=host.evidence("kernel", "\n".join(finding.text for finding in findings)),
    )


def _finding(event: HardwareEvent, times: int) -> Finding:
    where = f" at {event.device}" if event.device else ""
    text = f"{event.kind}{where}, {count(times, 'line')}, the last: {event.text[:200]}"
    hint = _HINTS[event.kind].replace("<device>", event.device or "<device>")
    hint += " (<device>: an adapter that `lspci -d 15b3:` lists)" if "<device>" in hint else ""
    return Finding(cause=event.kind, text=text, hint=hint, marginal=event.kind in _MARGINAL)


CHECK = Check(SPEC, OBSERVER, judge)
