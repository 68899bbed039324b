# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check efa-devices: libfabric reaches every EFA device that the host should have.

fi_info lists one device several times (fabrics efa and efa-direct), so its domains are counted.

Parser of `fi_info`: what libfabric offers, by provider, fabric and domain. One device is several entries.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from ...collect.host_facts import FleetFacts
from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...outcome.wording import count
from ...probe.kernel_log import KernelLog
from ...probe.rdma_link import RdmaLink
from ...probe.text import plain, unreadable
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .node_context import NodeContext, per_host
from .observe_hosts import OBSERVER

_TOOL = "fi_info"
_FI_INFO_PROVIDER = re.compile(r"provider: (\S{1,80})")
_FIELD = re.compile(r"\s+(\w{1,40}): (\S.{0,200})")
_NEEDED = ("fabric", "domain", "version", "type", "protocol")


@dataclass(frozen=True, slots=True)
class FabricEntry:
    """One entry; entries of the same `domain` are ways to use one device."""

    provider: str
    fabric: str
    domain: str
    version: str
    kind: str
    protocol: str


def parse(text: str) -> tuple[FabricEntry, ...]:
    """Return the entries in the tool's order.

    Raises:
        InputError: no entry, one that lacks a field or has one twice, or a line of another kind.
    """
    blocks: list[tuple[str, dict[str, str]]] = []
    for line in plain(text).splitlines():
        if match := _FI_INFO_PROVIDER.fullmatch(line.rstrip()):
            blocks.append((match.group(1), {}))
        elif line.strip():
            field = _FIELD.fullmatch(line.rstrip())
            if field is None or not blocks or field.group(1) in blocks[-1][1]:
                raise unreadable(_TOOL, line, "`provider: efa`, and below it each field once")
            blocks[-1][1][field.group(1)] = field.group(2)
    if not blocks:
        raise unreadable(_TOOL, text[:80], "at least one provider")
    return tuple(_entry(provider, fields) for provider, fields in blocks)


def _entry(provider: str, fields: dict[str, str]) -> FabricEntry:
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        raise unreadable(_TOOL, f"provider {provider} without {', '.join(missing)}", "every field of an entry")
    return FabricEntry(provider, *(fields[name] for name in _NEEDED))


SPEC = CheckSpec(
    id="efa-devices",
    gate="nodes",
    title="libfabric reaches every EFA device",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access", "efa"),),
    causes=("efa-device-missing", "efa-device-down"),
)
_PROVIDER, _RELIABLE = "efa", "FI_EP_RDM"
# fi_info(1): -FI_ENODATA, no provider offers what was requested.
_NOTHING = "-61"
_HINT = (
    "`fi_info -p efa -t FI_EP_RDM` and `lspci -d 1d0f:` on the node; attach the missing interfaces and start it anew"
)


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge that there are as many devices as the SKU has. Without libfabric on the host, those with a kernel driver
    count."""
    return per_host(SPEC, observed, context, _judge)


def _judge(host: NodeContext) -> Report | Outcome:
    sku = host.sku
    if sku.fabric != "efa":
        return Report(summary=f"{sku.name} has no EFA", evidence=host.evidence("libfabric"))
    if sku.compute_hcas == 0:
        text = f"no source says how many EFA devices {sku.name} has"
        hint = "count them (`fi_info -p efa -t FI_EP_RDM`) and give the site an SKU of its own with compute_hcas"
        return host.answer.unknown("fact-not-known", text, hint)
    entries, links = host.facts.read("libfabric", tuple), host.facts.read("rdma_links", tuple)
    if isinstance(entries, ProbeFailure):
        if entries.kind == "failed" and _NOTHING in entries.text:
            return _report(host, set(), "libfabric", links)
        if entries.kind != "missing" or isinstance(links, ProbeFailure):
            return host.tool_failure("libfabric", entries)
        return _report(host, {link.device for link in links}, "the kernel", links)
    return _report(host, _domains(entries), "libfabric", links)


def lacks_devices(host: NodeContext) -> bool:
    """Whether libfabric reaches fewer EFA devices than the host must have, which this check reports."""
    entries = host.facts.read("libfabric", tuple)
    if isinstance(entries, ProbeFailure):
        return entries.kind == "failed" and _NOTHING in entries.text
    return len(_domains(entries)) < host.sku.compute_hcas


def _domains(entries: tuple[FabricEntry, ...]) -> set[str]:
    return {entry.domain for entry in entries if entry.provider == _PROVIDER and entry.kind == _RELIABLE}


def _report(host: NodeContext, devices: set[str], by: str, links: tuple[RdmaLink, ...] | ProbeFailure) -> Report:
    wanted, findings = host.sku.compute_hcas, []
    if len(devices) < wanted:
        text = f"{by} finds {count(len(devices), 'EFA device')} of {wanted}"
        findings.append(Finding(cause="efa-device-missing", text=text, hint=_HINT))
    down = [] if isinstance(links, ProbeFailure) else [link for link in links if not link.up]
    if down and len(down) < len(devices):
        text = f"{', '.join(link.device for link in down)}: {down[0].state}, {down[0].physical_state}"
        subjects = tuple(host.part(SubjectKind.HCA, link.device) for link in down)
        hint = "`rdma link` on the node; reload the driver (`modprobe -r efa && modprobe efa`), else replace the host"
        findings.append(Finding(cause="efa-device-down", text=text, hint=hint, subjects=subjects))
    return Report(
        summary=f"{count(len(devices), 'EFA device')} by {by}{_refused(host)}",
        findings=tuple(findings),
        measured=(Measure("efa_devices", len(devices), "count"),),
        expected=(Expectation("efa_devices", ">=", wanted, Basis.HARDWARE, "count"),),
        evidence=_evidence(host, by),
    )


def _refused(host: NodeContext) -> str:
    """Return, as a note, the commands that devices refused according to the kernel log; often a program's limit is the
    reason."""
    log = host.facts.kernel
    refused = Counter(log.efa_refused) if isinstance(log, KernelLog) else Counter[tuple[str, str]]()
    words = [f"{device} refused {command} {count(times, 'time')}" for (device, command), times in refused.items()]
    return f"; noted: {', '.join(words[:4])}" if words else ""


def _evidence(host: NodeContext, by: str) -> tuple[Evidence, ...]:
    return host.evidence("libfabric" if by == "libfabric" else "rdma_links")


CHECK = Check(SPEC, OBSERVER, judge)
