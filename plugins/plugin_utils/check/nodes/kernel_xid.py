# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check kernel-xid: the kernel log has no fatal XID, SXid or lost GPU since boot."""

from __future__ import annotations

import re
from collections import Counter

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.kernel_log import KernelLog, Xid
from ..kit.finding import Finding, Report
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .node_context import NodeContext, per_host, value_of
from .observe_hosts import OBSERVER

SPEC = CheckSpec(
    id="kernel-xid",
    gate="nodes",
    title="No fatal XID since boot",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    requires=("host_access",),
    causes=("xid-fatal", "sxid-fatal", "gpu-off-bus"),
)
_ACTION_XID = 154
_OFF_BUS_XID = 79
_FATAL = re.compile(r"\bFatal\b")


def judge(seen: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Numbers judge by the catalogue (recipes/xid.yaml), the last XID 154 of a GPU by the action that it names."""
    return per_host(SPEC, seen, context, _judge, needs=("kernel",))


def _judge(host: NodeContext) -> Report | Outcome:
    log = value_of(host.facts.kernel)
    notes: list[str] = []
    findings = _xids(host, log, notes) + _sxids(log, notes) + _off_bus(host, log)
    if not findings and "kernel_log" in host.facts.cut:
        text = "the log is too long to be kept whole, so a part of it was not looked at"
        return host.answer.unknown("kernel-log-cut", text, "raise nodes_max_output_bytes, or reboot the node")
    note = f"; noted: {', '.join(notes)}" if notes else ""
    return Report(
        summary=f"no fatal XID in {log.lines} lines since boot{note}",
        findings=tuple(findings),
        measured=(Measure("xids", len(log.xids), "count"), Measure("sxids", len(log.sxids), "count")),
        expected=(Expectation("fatal_xids", "==", 0, Basis.RULE, "count"),),
        evidence=host.evidence("kernel", "\n".join(finding.text for finding in findings)),
    )


def _xids(host: NodeContext, log: KernelLog, notes: list[str]) -> list[Finding]:
    findings: list[Finding] = []
    counts = Counter((xid.address, xid.number) for xid in log.xids if xid.number != _ACTION_XID)
    first = {(xid.address, xid.number): xid for xid in reversed(log.xids)}
    for (address, number), times in counts.items():
        rule = host.seen.xids.rule(number)
        name = rule.name if rule else "not in the catalogue"
        text = f"XID {number} on {address}, {times} times: {name} ({first[(address, number)].text[:120]})"
        if rule is not None and rule.meaning == "note":
            notes.append(f"XID {number} on {address} ({times} times)")
            continue
        fatal = rule is not None and rule.meaning == "fatal" and (not rule.by_text or _says_fatal(log, address, number))
        cause = "xid-fatal" if fatal else "xid-marginal" if rule else "xid-unknown"
        hint = rule.action if rule else f"look up XID {number} in NVIDIA's catalogue; add it to recipes/xid.yaml"
        findings.append(Finding(cause=cause, text=text, hint=hint, subjects=(host.gpu(address),), marginal=not fatal))
    return findings + _actions(host, log, notes)


def _says_fatal(log: KernelLog, address: str, number: int) -> bool:
    """Tell whether a line of that XID calls itself fatal."""
    same = [xid.text for xid in log.xids if (xid.address, xid.number) == (address, number)]
    return any(_FATAL.search(text) for text in same)


def _actions(host: NodeContext, log: KernelLog, notes: list[str]) -> list[Finding]:
    """Judge the last XID 154 of every GPU: its text names what the driver asks for."""
    last: dict[str, Xid] = {xid.address: xid for xid in log.xids if xid.number == _ACTION_XID}
    findings: list[Finding] = []
    for address, xid in last.items():
        if xid.action.lower() == "none":
            notes.append(f"XID {_ACTION_XID} on {address}: no action any more")
            continue
        action = xid.action or "an action that the text does not name"
        text = f"XID {_ACTION_XID} on {address}: the driver asks for {action}"
        hint = f"drain {host.name} and do it ({action}), then run the gate again"
        findings.append(Finding(cause="xid-fatal", text=text, hint=hint, subjects=(host.gpu(address),)))
    return findings


def _sxids(log: KernelLog, notes: list[str]) -> list[Finding]:
    findings: list[Finding] = []
    counts = Counter((xid.address, xid.number, xid.text) for xid in log.sxids)
    for (address, number, text), times in counts.items():
        said = f"SXid {number} on NVSwitch {address}, {times} times: {text[:120]}"
        if text.lower().startswith(("non-fatal", "non fatal")):
            notes.append(f"SXid {number} on {address} (non-fatal)")
            continue
        fatal = text.lower().startswith("fatal")
        hint = "drain the node and reset all its GPUs and NVSwitches; if it comes back, look at the NVLink it names"
        findings.append(
            Finding(cause="sxid-fatal" if fatal else "sxid-unknown", text=said, hint=hint, marginal=not fatal)
        )
    return findings


def _off_bus(host: NodeContext, log: KernelLog) -> list[Finding]:
    """Return the GPUs that fell off the bus without an XID that says so."""
    reported = {xid.address for xid in log.xids if xid.number == _OFF_BUS_XID}
    rule = host.seen.xids.rule(_OFF_BUS_XID)
    hint = rule.action if rule else "reboot the node"
    return [
        Finding(cause="gpu-off-bus", text=f"{address} has fallen off the bus", hint=hint, subjects=(host.gpu(address),))
        for address in log.off_bus
        if address not in reported
    ]


CHECK = Check(SPEC, OBSERVER, judge)
