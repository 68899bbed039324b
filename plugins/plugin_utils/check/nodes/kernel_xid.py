# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check kernel-xid: the kernel log has no fatal XID, SXid or lost GPU since boot."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ...collect.host_facts import FleetFacts
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.kernel_log import KernelLog, Xid
from ...probe.kernel_repeats import seconds, worst_hour
from ...probe.nvidia_smi_xml import SmiLog
from ...runtime.clock import moment_of
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .driver_start import last_start
from .node_context import NodeContext, per_host, value_of
from .observe_hosts import OBSERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelXidSettings:
    """Settings of check kernel-xid."""

    not_before: str = setting(
        "Time in ISO 8601 with its zone, such as 2026-11-22T10:00:00+00:00. XIDs and SXids before it are told and not "
        "judged: state when GPUs were reset by hand whose driver logs no reset (no XID 154). Empty: since boot.",
        default="",
    )
    sxids_per_hour: int = setting(
        "How often an NVSwitch may report one non-fatal SXid of one link, within the hour that had most.",
        default=50,
        minimum=0,
    )


SPEC = CheckSpec(
    id="kernel-xid",
    gate="nodes",
    title="No fatal XID since boot",
    per=SubjectKind.NODE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs("host_access"),),
    causes=("xid-fatal", "sxid-fatal", "gpu-off-bus"),
    settings=KernelXidSettings,
)
_ACTION_XID = 154
_OFF_BUS_XID = 79
_LINK = re.compile(r"\bLink \d{1,3}\b")
_SWITCH_HINT = "drain the node and reset all its GPUs and NVSwitches; if it comes back, look at the NVLink it names"


def judge(observed: FleetFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge XIDs by the catalogue (recipes/xid.yaml), and the last XID 154 of a GPU by the action that it names.

    A repair ends an XID: after a reset the driver logs an XID 154 that withdraws the action.
    """
    affected = _affected(observed, context)
    return per_host(SPEC, observed, context, lambda host: _judge(host, affected), needs=("kernel",))


def _affected(observed: FleetFacts, context: JudgeContext) -> dict[int, list[str]]:
    """Return, by XID, the hosts whose log has it."""
    found: dict[int, list[str]] = {}
    for host in context.site.in_scope:
        log = observed.hosts[host.name].kernel if host.name in observed.hosts else None
        for number in {xid.number for xid in log.xids} if isinstance(log, KernelLog) else ():
            found.setdefault(number, []).append(host.name)
    return found


def _judge(host: NodeContext, affected: dict[int, list[str]]) -> Report | Outcome:
    notes: list[str] = []
    since = _stated_start(host)
    if isinstance(since, Outcome):
        return since
    log = _after_repairs(value_of(host.facts.kernel), since, notes)
    findings = _xids(host, log, notes, affected) + _sxids(host, log, notes) + _off_bus(host, log)
    findings += _quoted(host, log)
    findings = findings or _refused(log)
    starts = dict.fromkeys(failure.address for failure in last_start(host) if failure.address)
    notes += [f"the driver did not start {address} at once (check gpu-census)" for address in starts]
    if not findings and "kernel_log" in host.facts.cut:
        text = "the log is too long to be kept whole, so a part of it was not looked at"
        return host.answer.unknown("kernel-log-cut", text, "raise gpufleet_nodes_max_output_bytes, or reboot the node")
    note = f"; noted: {', '.join(notes)}" if notes else ""
    return Report(
        summary=f"no fatal XID in {log.lines} lines since boot{note}",
        findings=tuple(findings),
        measured=(Measure("xids", len(log.xids), "count"), Measure("sxids", len(log.sxids), "count")),
        expected=(Expectation("fatal_xids", "==", 0, Basis.RULE, "count"),),
        evidence=host.evidence("kernel", "\n".join(finding.text for finding in findings)),
    )


def _stated_start(host: NodeContext) -> datetime | Outcome | None:
    configured = host.settings(KernelXidSettings).not_before
    if not configured:
        return None
    when, read = _time(configured), _time(host.facts.started)
    ahead = when is not None and (when > read if read else when.astimezone(UTC).date() > host.context.today)
    if ahead:
        text = f"setting not_before is {configured}, later than this host was read, so it hides every XID"
        return host.answer.unknown(
            "xid-start-in-future",
            text,
            "state the time of the reset in gpufleet_settings: {kernel-xid: {not_before: ...}}",
        )
    if when is not None:
        return when
    text = f"setting not_before is {configured!r}, expected a time with its zone such as 2026-11-22T10:00:00+00:00"
    return host.answer.unknown(
        "xid-start-unreadable", text, "correct gpufleet_settings: {kernel-xid: {not_before: ...}}"
    )


def _time(text: str) -> datetime | None:
    """Return a time that has its zone; None for any other text."""
    try:
        when = moment_of(text.replace(",", "."))
    except ValueError:
        return None
    return when if when.tzinfo is not None else None


def _after_repairs(log: KernelLog, since: datetime | None, notes: list[str]) -> KernelLog:
    """Return the log without XIDs that were repaired; `notes` gets how many they were."""
    repaired = {
        xid.address: xid.line
        for xid in log.xids
        if xid.number == _ACTION_XID and xid.action.lower() == "none" and xid.before.lower() not in ("", "none")
    }

    def open_still(xid: Xid) -> bool:
        when = _time(xid.time) if since is not None else None
        if since is not None and when is not None and when < since:
            return False
        return xid.number == _ACTION_XID or xid.line > repaired.get(xid.address, -1)

    left, sxids = tuple(filter(open_still, log.xids)), tuple(filter(open_still, log.sxids))
    ended = Counter((xid.address, xid.number) for xid in log.xids if xid not in left)
    notes += [
        f"XID {number} on {address} before its reset ({times} times)" for (address, number), times in ended.items()
    ]
    if len(sxids) < len(log.sxids):
        notes.append(f"{len(log.sxids) - len(sxids)} SXids before {since}")
    return replace(log, xids=left, sxids=sxids, quoted=tuple(filter(open_still, log.quoted)))


def _xids(host: NodeContext, log: KernelLog, notes: list[str], affected: dict[int, list[str]]) -> list[Finding]:
    findings: list[Finding] = []
    counts = Counter((xid.address, xid.number) for xid in log.xids if xid.number != _ACTION_XID)
    first = {(xid.address, xid.number): xid for xid in reversed(log.xids)}
    for (address, number), times in counts.items():
        rule = host.seen.xids.rule(number)
        name = rule.name if rule else "not in the catalogue"
        text = f"XID {number} on {address}, {times} times: {name} ({first[(address, number)].text[:120]})"
        same = [xid.text for xid in log.xids if (xid.address, xid.number) == (address, number)]
        meaning = "marginal" if rule is None else rule.meaning_of(same)
        if rule is not None and rule.in_service and host.context.in_service:
            meaning = rule.in_service
        if meaning == "note":
            notes.append(f"XID {number} on {address} ({times} times)")
            continue
        fatal = meaning == "fatal"
        cause = "xid-fatal" if fatal else "xid-marginal" if rule else "xid-unknown"
        hint = rule.action if rule else f"look up XID {number} in NVIDIA's catalogue; add it to recipes/xid.yaml"
        if rule is not None and rule.software and len(affected[number]) > 1:
            hint = f"{_several(host, affected[number])} report it: look for a fixed driver release first; else {hint}"
        findings.append(Finding(cause=cause, text=text, hint=hint, subjects=(host.gpu(address),), marginal=not fatal))
    return findings + _actions(host, log, notes)


def _several(host: NodeContext, names: list[str]) -> str:
    """Return the text of how many hosts report it, with their drivers."""
    found = (host.seen.hosts[name].smi for name in names)
    drivers = sorted({smi.driver_version if isinstance(smi, SmiLog) else "unknown" for smi in found})
    return f"{len(names)} of {len(host.context.site.in_scope)} hosts (driver {', '.join(drivers)})"


def _actions(host: NodeContext, log: KernelLog, notes: list[str]) -> list[Finding]:
    """Judge the last XID 154 of every GPU: its text names the action that the driver requests."""
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


def _sxids(host: NodeContext, log: KernelLog, notes: list[str]) -> list[Finding]:
    findings: list[Finding] = []
    mild = [xid for xid in log.sxids if xid.text.lower().startswith(("non-fatal", "non fatal"))]
    counts = Counter((xid.address, xid.number, xid.text) for xid in log.sxids if xid not in mild)
    for (address, number, text), times in counts.items():
        reported = f"SXid {number} on NVSwitch {address}, {times} times: {text[:120]}"
        fatal = text.lower().startswith("fatal")
        cause = "sxid-fatal" if fatal else "sxid-unknown"
        findings.append(Finding(cause=cause, text=reported, hint=_SWITCH_HINT, marginal=not fatal))
    return findings + _mild_sxids(host, mild, notes)


def _mild_sxids(host: NodeContext, mild: list[Xid], notes: list[str]) -> list[Finding]:
    """Judge non-fatal SXids: one is ordinary, many within an hour are from a failing link."""
    limit = host.settings(KernelXidSettings).sxids_per_hour
    links: dict[tuple[str, str], list[Xid]] = {}
    for xid in mild:
        match = _LINK.search(xid.text)
        links.setdefault((xid.address, match[0] if match else f"SXid {xid.number}"), []).append(xid)
    findings: list[Finding] = []
    for (address, link), same in links.items():
        numbers = ", ".join(map(str, dict.fromkeys(xid.number for xid in same)))
        most = worst_hour((seconds(xid.time), 1) for xid in same)
        if most <= limit:
            notes.append(f"SXid {numbers} on {address} (non-fatal, {len(same)} times)")
            continue
        reported = f"non-fatal SXid {numbers} on NVSwitch {address}, {link}: {most} within one hour, allowed {limit}"
        text = f"{reported}; the last: {same[-1].text[:120]}"
        hint = f"`nvidia-smi nvlink -e` shows the link; {_SWITCH_HINT}"
        findings.append(Finding(cause="sxid-often", text=text, hint=hint, marginal=True))
    return findings


def _off_bus(host: NodeContext, log: KernelLog) -> list[Finding]:
    """Return the GPUs that fell off the bus without an XID that reports it."""
    reported = {xid.address for xid in log.xids if xid.number == _OFF_BUS_XID}
    rule = host.seen.xids.rule(_OFF_BUS_XID)
    hint = rule.action if rule else "reboot the node"
    return [
        Finding(cause="gpu-off-bus", text=f"{address} has fallen off the bus", hint=hint, subjects=(host.gpu(address),))
        for address in log.off_bus
        if address not in reported
    ]


def _quoted(host: NodeContext, log: KernelLog) -> list[Finding]:
    """Return XIDs that the log names only as the cause of others: it begins later, was rotated or rate limited."""
    own = {(xid.address, xid.number) for xid in log.xids}
    counts = Counter((xid.address, xid.number) for xid in log.quoted if (xid.address, xid.number) not in own)
    findings: list[Finding] = []
    for (address, number), times in counts.items():
        rule = host.seen.xids.rule(number)
        if rule is not None and "note" in (rule.meaning, rule.in_service if host.context.in_service else None):
            continue
        text = (
            f"XID {number} on {address} is named {times} times as the cause of others; its own line is not in the log"
        )
        hint = rule.action if rule else f"look up XID {number} in NVIDIA's catalogue; add it to recipes/xid.yaml"
        parts = (host.gpu(address),)
        findings.append(Finding(cause="xid-quoted", text=text, hint=hint, subjects=parts, marginal=True))
    return findings


def _refused(log: KernelLog) -> list[Finding]:
    """Return what the driver refused since it was last loaded."""
    since = log.driver_loaded[-1] if log.driver_loaded else -1
    words = Counter(word for word, line in log.refused if line > since)
    if not words:
        return []
    text = f"the driver reports {', '.join(f'{word} ({times} times)' for word, times in words.items())}, without an XID"
    hint = "drain the node, reset its GPUs (`nvidia-smi --gpu-reset`) or reboot it, then run the gate again"
    return [Finding(cause="gpu-reset-required", text=text, hint=hint, marginal=True)]


CHECK = Check(SPEC, OBSERVER, judge)
