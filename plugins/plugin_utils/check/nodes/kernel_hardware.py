# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check kernel-hardware: the kernel reports no uncorrected error of CPU, memory, PCIe, adapters or drives, and few
corrected ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count, first_of
from ...probe.kernel_hardware import HardwareEvent, Kind
from ...probe.kernel_log import KernelLog
from ...probe.kernel_repeats import Repeated, RepeatKind
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host, value_of
from .observe_hosts import OBSERVER

_REPEATED: dict[RepeatKind, tuple[str, str]] = {
    "memory-corrected": (
        "memory-corrected-often",
        "read the event log of its BMC (`ipmitool sel list`), reseat the memory module that it names; replace it "
        "if the errors go on",
    ),
    "machine-check-corrected": (
        "machine-check-corrected-often",
        "`journalctl -k -b | grep -A8 'Hardware Error'` and the event log of its BMC name the part: memory, processor "
        "or board",
    ),
    "pcie-corrected": (
        "pcie-corrected-often",
        "`lspci -D -vvv -s <device>`: reseat the card or its riser; replace it if the errors go on",
    ),
    "processor-throttled": (
        "processor-throttled",
        "look at fans, airflow, heat sinks or coolant of the processors, then reboot the node",
    ),
    "driver-task-blocked": (
        "driver-task-blocked",
        "`journalctl -k -b | grep -A30 'blocked for more'` shows where it waits; reboot the node, and update the "
        "driver if it comes back",
    ),
    "adapter-warm": ("adapter-hot-often", "look at the airflow over the adapter, and its heat sink"),
    "drive-timeout": ("drive-timeout-often", "`nvme smart-log` of the drive; reseat it, replace it if timeouts go on"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelHardwareSettings:
    """Settings of check kernel-hardware."""

    # rasdaemon takes a page out after 50 corrected errors in a day, mcelog calls 10 of a module and 100 of a socket in
    # a day trouble (mcelog.conf). Linux prints heat of a processor and a blocked task once in minutes.
    per_hour: dict[str, int] = setting(
        "How often the kernel may report of one part, within the hour that had most, what was corrected or ended "
        "without damage. Of processors that heat clocks down its own number of events counts, of tasks of a driver "
        "that wait each two minutes.",
        default={
            "memory-corrected": 50,
            "machine-check-corrected": 50,
            "pcie-corrected": 50,
            "processor-throttled": 10,
            "driver-task-blocked": 1,
            "adapter-warm": 10,
            "drive-timeout": 10,
        },
        minimum=0,
        keys=tuple(_REPEATED),
    )


SPEC = CheckSpec(
    id="kernel-hardware",
    gate="nodes",
    title="Kernel reports no broken hardware",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("machine-check", "memory-uncorrected", "pcie-fatal", "transceiver-hot", "adapter-dead", "drive-dead"),
    settings=KernelHardwareSettings,
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
    "clock-lost": "`cat /sys/devices/system/clocksource/clocksource0/current_clocksource` is the clock that took its "
    "place; update the BIOS, and look for system management interrupts if it comes back after a reboot",
    "adapter-dead": "power-cycle the node; if it comes back, update the adapter's firmware or replace the adapter",
}
# Programs that serve GPUs, fabric and pods of a host must not crash; a user's program may.
_SERVICES = (
    "nvidia-persiste", "nv-fabricmanage", "nvidia-imex", "nv-hostengine", "nvidia-smi", "dcgm", "opensm", "kubelet",
    "containerd", "crio",
)  # fmt: skip
# How many parts a text names.
_NAMED = 3
_MARGINAL: frozenset[Kind] = frozenset(
    ("pcie-uncorrected", "transceiver-error", "drive-error", "filesystem-read-only", "clock-lost")
)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every host. Uncorrected errors since boot fail; many corrected ones of one part are for a person to
    decide."""
    return per_host(SPEC, observed, context, _judge, needs=("kernel",))


def _judge(host: NodeContext) -> Report | Outcome:
    log = value_of(host.facts.kernel)
    times = Counter((event.kind, event.device) for event in log.hardware)
    last = {(event.kind, event.device): event for event in log.hardware}
    findings = tuple(_finding(last[key], number) for key, number in times.items()) + _repeated(host, log.repeated)
    findings += _crashed(host, log)
    if not findings and "kernel_log" in host.facts.cut:
        return host.answer.blocked(by="kernel-xid", because="a part of the kernel log was not looked at")
    return Report(
        summary=f"no uncorrected error in {log.lines} lines since boot{_few(log.repeated)}{_others(log)}",
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


def _crashed(host: NodeContext, log: KernelLog) -> tuple[Finding, ...]:
    """Return the services of the GPU stack that ended with a segmentation fault; the kernel cuts names at 15
    letters."""
    times = Counter((program, library) for program, library in log.segfaults if program.startswith(_SERVICES))
    return tuple(
        Finding(
            cause="service-crashed",
            text=f"{program} ended by a segmentation fault in {library}, {count(number, 'time')} since boot",
            hint=f"`coredumpctl info {program}` and `journalctl -b -t {program}` on {host.name}; update its package",
            marginal=True,
        )
        for (program, library), number in times.items()
    )


def _others(log: KernelLog) -> str:
    """Return which other programs crashed, as a note: users' programs may."""
    names = sorted({program for program, _library in log.segfaults if not program.startswith(_SERVICES)})
    return f"; segmentation faults of {first_of(names, _NAMED)}" if names else ""


def _few(repeated: tuple[Repeated, ...]) -> str:
    """Return the errors below the limits, as a note: kinds with the number of their reports."""
    numbers = Counter[str]()
    for entry in repeated:
        numbers[entry.kind] += entry.times
    return f"; noted: {', '.join(f'{kind} {number}' for kind, number in sorted(numbers.items()))}" if numbers else ""


def _repeated(host: NodeContext, repeated: tuple[Repeated, ...]) -> tuple[Finding, ...]:
    limits = host.settings(KernelHardwareSettings).per_hour
    findings: list[Finding] = []
    for kind, (cause, hint) in _REPEATED.items():
        limit = limits[kind]
        often = sorted(
            (entry for entry in repeated if entry.kind == kind and entry.worst_hour > limit),
            key=lambda entry: (-entry.worst_hour, entry.part),
        )
        if often:
            parts = first_of([f"{entry.part} {entry.worst_hour}" for entry in often], _NAMED)
            text = f"{kind} within one hour: {parts}, allowed {limit}; the last: {often[0].text[:200]}"
            filled = hint.replace("<device>", often[0].part)
            findings.append(Finding(cause=cause, text=text, hint=filled, marginal=True))
    return tuple(findings)


CHECK = Check(SPEC, OBSERVER, judge)
