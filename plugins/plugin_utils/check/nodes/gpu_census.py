# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check gpu-census: the driver lists every GPU of the SKU, each only once in the fleet, and can talk to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.nvidia_smi_xml import Gpu, SmiLog
from ...probe.text import pci_address
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .driver_start import NotStarted, not_started
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER
from .pci_census import nvidia_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class CensusSettings:
    """Settings of check gpu-census."""

    # Reserved memory differs by driver release; a wrong part differs by far more.
    gpu_memory_tolerance: float = setting(
        "How far the memory that the driver reports may be from the SKU's, either way, as a part of it.",
        default=0.03,
        minimum=0,
        maximum=1,
    )


SPEC = CheckSpec(
    id="gpu-census",
    gate="nodes",
    title="All GPUs listed, alive and unique",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    needs_driver=True,
    causes=(
        "gpu-missing", "gpu-extra", "gpu-lost", "gpu-wrong-product", "gpu-wrong-memory", "gpu-duplicate-uuid",
        "gpu-duplicate-serial", "gpu-inforom-corrupted", "driver-not-loaded", "driver-library-mismatch",
        "gpu-driver-unfit", "gpu-start-failed",
    ),
    settings=CensusSettings,
)  # fmt: skip
_RESET = "drain the node and reboot it; if the GPU stays away, replace it (read the kernel log for its XID first)"
_NO_DRIVER = ("couldn't communicate with the nvidia driver", "nvidia driver is not loaded", "driver not loaded")
_MISMATCH = "driver/library version mismatch"
_NO_DEVICE = "no devices were found"
# `Unable to determine the device handle for GPU5: 0000:B1:00.0: Unknown Error` is printed in place of the document, and
# by older releases `... for GPU 0000:B1:00.0: GPU is lost`.
_NO_HANDLE = re.compile(r"unable to determine the device handle for (?:gpu ?\d*:? ?)?([0-9a-f:.]{7,16}): ?([^.]{1,60})")
# RETURN VALUE of nvidia-smi(1): 14 means that an infoROM is corrupted; the document is printed nevertheless.
_INFOROM_CORRUPTED = 14


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge count, identity, memory and state of the GPUs as the driver lists them."""
    uuids, serials = _owners(observed)
    return per_host(SPEC, observed, context, lambda host: _judge(host, uuids, serials))


def _owners(observed: FleetFacts) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the hosts of every UUID (once per GPU) and of every serial (once per host)."""
    uuids: dict[str, list[str]] = {}
    serials: dict[str, list[str]] = {}
    for name, facts in observed.hosts.items():
        if not isinstance(facts.smi, SmiLog):
            continue
        for gpu in facts.smi.gpus:
            uuids.setdefault(gpu.uuid, []).append(name)
        # Two GPUs of one board share its serial, and clouds print zeros.
        for serial in {gpu.serial for gpu in facts.smi.gpus if gpu.serial and gpu.serial.strip("0")}:
            serials.setdefault(serial, []).append(name)
    return uuids, serials


def _judge(host: NodeContext, uuids: dict[str, list[str]], serials: dict[str, list[str]]) -> Report | Outcome:
    smi = host.facts.smi
    if isinstance(smi, ProbeFailure):
        return _without_list(host, smi)
    if len(smi.gpus) < host.sku.gpus:
        on_pci = nvidia_gpus(host.facts.pci) if not isinstance(host.facts.pci, ProbeFailure) else ()
        if on_pci and len(on_pci) <= len(smi.gpus):
            return host.answer.blocked(
                by="pci-census", because=f"{len(smi.gpus)} GPUs listed, and no more on the PCI bus"
            )
    elif not smi.count_agrees:
        text = f"the driver counts {smi.attached_gpus} GPUs and lists {len(smi.gpus)}"
        return host.answer.unknown("nvidia-smi-inconsistent", text, "run `nvidia-smi -q -x` on the node again")
    findings = _count_findings(host, smi)
    for gpu in smi.gpus:
        findings += _gpu_findings(host, gpu)
    findings += _duplicates(host, smi, uuids, serials)
    status = host.facts.exits.get("smi", 0)
    if status == _INFOROM_CORRUPTED:
        findings.append(_inforom(smi))
    elif warned := [line for line in smi.warnings if "inforom" in line.lower()]:
        text = f"nvidia-smi warns: {warned[0]}"
        parts = tuple(host.gpu(gpu.bus_id) for gpu in smi.gpus if gpu.bus_id in " ".join(warned).lower())
        hint = "drain the node and have the GPU replaced or its infoROM reflashed, or accept it with a ticket"
        findings.append(Finding(cause="gpu-inforom-warning", text=text, hint=hint, subjects=parts, marginal=True))
    elif status and not findings:
        text = f"`nvidia-smi -q -x` lists all GPUs and ends with {status}"
        return host.answer.unknown("nvidia-smi-exit-status", text, "run it on the node and read what it says")
    return _report(host, smi, tuple(findings))


def _inforom(smi: SmiLog) -> Finding:
    text = (
        f"nvidia-smi ends with {_INFOROM_CORRUPTED}: the infoROM of one of {count(len(smi.gpus), 'GPU')} is corrupted"
    )
    hint = "`nvidia-smi` on the node names it under its table; drain the node and have the GPU replaced or reflashed"
    return Finding(cause="gpu-inforom-corrupted", text=text, hint=hint)


def _report(host: NodeContext, smi: SmiLog, findings: tuple[Finding, ...]) -> Report:
    sku = host.sku
    return Report(
        summary=f"{count(len(smi.gpus), sku.gpu_product)} listed, all alive",
        findings=findings,
        measured=(
            Measure("gpus", len(smi.gpus), "count"),
            Measure("attached_gpus", smi.attached_gpus, "count"),
            Measure("driver_version", smi.driver_version),
        ),
        expected=(
            Expectation("gpus", "==", sku.gpus, Basis.HARDWARE, "count"),
            Expectation("product", "==", sku.gpu_product, Basis.HARDWARE),
        ),
        evidence=host.evidence("smi"),
    )


def _without_list(host: NodeContext, failure: ProbeFailure) -> Outcome:
    """Return the outcome where the driver lists nothing: a missing driver was observed, a tool without output is
    unknown."""
    reported = failure.text.lower()
    details = {"evidence": host.evidence("smi", failure.text)}
    if any(text in reported for text in _NO_DRIVER):
        if reason := not_started(host):
            return _unstarted(host, "the NVIDIA driver is not loaded", reason, details)
        hint = "`systemctl status nvidia-persistenced; dmesg | grep NVRM; modprobe nvidia` on the node"
        return host.answer.failed("driver-not-loaded", "the NVIDIA driver is not loaded", hint, **details)
    if _MISMATCH in reported:
        text = "the loaded kernel driver and the installed library differ in version"
        return host.answer.failed("driver-library-mismatch", text, "reboot the node, or reload the driver", **details)
    if _NO_DEVICE in reported:
        pci = host.facts.pci
        if not isinstance(pci, ProbeFailure) and not nvidia_gpus(pci):
            return host.answer.blocked(by="pci-census", because="no GPU listed, and none that answers on the PCI bus")
        text = f"0 of {count(host.sku.gpus, 'GPU')} listed"
        if reason := not_started(host):
            return _unstarted(host, text, reason, details)
        return host.answer.failed("gpu-missing", text, _RESET, **details)
    if handle := _NO_HANDLE.search(reported):
        address = pci_address(handle.group(1))
        text = f"{address}: the driver says {handle.group(2).strip()!r}, so that nvidia-smi lists no GPU of this host"
        return host.answer.failed("gpu-lost", text, _RESET, more_subjects=(host.gpu(address),), **details)
    return host.tool_failure("smi", failure)


def _unstarted(host: NodeContext, text: str, reason: NotStarted, details: dict[str, Any]) -> Outcome:
    """Return the outcome of GPUs for which the kernel log has the reason why the driver did not start them."""
    parts = tuple(host.gpu(address) for address in reason.addresses)
    reported = f"{text}; the driver in the kernel log: {reason.line}"
    return host.answer.failed(reason.cause, reported, reason.hint, more_subjects=parts, **details)


def _count_findings(host: NodeContext, smi: SmiLog) -> list[Finding]:
    listed, expected = len(smi.gpus), host.sku.gpus
    if listed > expected:
        text = f"{count(listed, 'GPU')} listed, the SKU has {expected}"
        return [Finding(cause="gpu-extra", text=text, hint="correct gpufleet_sku of the host")]
    if listed == expected:
        return []
    own = {gpu.bus_id for gpu in smi.gpus}
    common = host.seen.slots.get(host.entry.sku, ())
    gone = [a for a in common if a not in own] if len(common) == expected and own <= set(common) else []
    if not gone and not isinstance(host.facts.pci, ProbeFailure):
        gone = [device.address for device in nvidia_gpus(host.facts.pci) if device.address not in own]
    where = f" (not {', '.join(gone)})" if gone else ""
    counted = "" if smi.count_agrees else f", while the driver counts {smi.attached_gpus}"
    reason = not_started(host, gone) if gone else None
    reported = f"; the driver in the kernel log: {reason.line}" if reason else ""
    return [
        Finding(
            cause=reason.cause if reason else "gpu-missing",
            text=f"{listed} of {count(expected, 'GPU')} listed{where}{counted}{reported}",
            hint=reason.hint if reason else _RESET,
            subjects=tuple(host.gpu(address) for address in gone),
        )
    ]


def _gpu_findings(host: NodeContext, gpu: Gpu) -> list[Finding]:
    parts, sku = (host.gpu(gpu.bus_id),), host.sku
    if gpu.trouble:
        text = f"{gpu.bus_id}: the driver says {gpu.trouble!r}"
        return [Finding(cause="gpu-lost", text=text, hint=_RESET, subjects=parts)]
    findings: list[Finding] = []
    if gpu.product != sku.gpu_product:
        text = f"{gpu.bus_id} is {gpu.product}, the SKU has {sku.gpu_product}"
        findings.append(
            Finding(cause="gpu-wrong-product", text=text, hint="correct gpufleet_sku of the host", subjects=parts)
        )
        return findings
    tolerance = sku.gpu_memory_mib * host.settings(CensusSettings).gpu_memory_tolerance
    if gpu.memory_total_mib is not None and abs(gpu.memory_total_mib - sku.gpu_memory_mib) > tolerance:
        text = f"{gpu.bus_id} has {gpu.memory_total_mib} MiB, the SKU {sku.gpu_memory_mib} MiB"
        hint = "reset the GPU; if the size stays, replace it"
        findings.append(Finding(cause="gpu-wrong-memory", text=text, hint=hint, subjects=parts))
    return findings


def _duplicates(
    host: NodeContext, smi: SmiLog, uuids: dict[str, list[str]], serials: dict[str, list[str]]
) -> list[Finding]:
    findings: list[Finding] = []
    for gpu in smi.gpus:
        parts, me = (host.gpu(gpu.bus_id),), host.name
        elsewhere = sorted(set(uuids[gpu.uuid]) - {me})
        if len(uuids[gpu.uuid]) > 1:
            where = f"on {', '.join(elsewhere)}" if elsewhere else "twice on this host"
            text = f"UUID {gpu.uuid} is also {where}"
            hint = "look for two inventory names of one machine, or cloned evidence"
            findings.append(Finding(cause="gpu-duplicate-uuid", text=text, hint=hint, subjects=parts))
        elif gpu.serial and len(serials.get(gpu.serial, [])) > 1:
            others = sorted(set(serials[gpu.serial]) - {me})
            text = f"serial {gpu.serial} is also on {', '.join(others)}"
            hint = "read the serials on the boards; a serial names one board"
            findings.append(Finding(cause="gpu-duplicate-serial", text=text, hint=hint, subjects=parts))
    return findings


CHECK = Check(SPEC, OBSERVER, judge)
