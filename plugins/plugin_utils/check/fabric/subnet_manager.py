# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check subnet-manager: one master and a standby, and the fabric is settled."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.iblinkinfo import LinkEnd
from ...probe.sminfo import MASTER, STANDBY, SmInfo
from ...site.cabling import End
from ..kit.answer import Answer
from ..kit.finding import Finding, Report, conclude
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .fabric_facts import FabricFacts, SubnetFacts
from .links import REQUIRES, evidence_of, unusable
from .observe_fabric import OBSERVER
from .overlay import CableState, Overlay, ends_of, lay_over, link_subjects

SPEC = CheckSpec(
    id="subnet-manager",
    gate="fabric",
    title="One master subnet manager, a standby, fabric settled",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    requires=REQUIRES,
    causes=("no-subnet-manager", "no-standby-subnet-manager", "two-masters", "subnet-manager-stuck", "not-converged"),
)
_START = "start it (`systemctl start opensm` on its host, or on the switch); `sminfo` must name a master"


def judge(seen: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Settled: every planned port with a signal is Active, LIDs are unique, two readings are the same."""
    answer = Answer.about_site(SPEC, context)
    if not seen.subnets:
        reason = seen.reason or "no tool was run"
        hint = "restore the way to the host, or look from another one (gpufleet_fabric_host)"
        return (answer.unknown("fabric-host-unreachable", f"{seen.host}: {reason}", hint),)
    findings: list[Finding] = []
    for subnet in seen.subnets:
        for failure in (subnet.master, subnet.master_again):
            if isinstance(failure, ProbeFailure):
                return (unusable(answer, seen, failure),)
        if subnet.master_again is None:
            findings.append(_none(subnet))
            continue
        if isinstance(subnet.managers, ProbeFailure):
            return (unusable(answer, seen, subnet.managers),)
        findings += _managers(subnet, subnet.managers)
    if not findings:
        for subnet in seen.subnets:
            if isinstance(subnet.links, ProbeFailure):
                return (unusable(answer, seen, subnet.links),)
        findings = _unsettled(seen, lay_over(seen, context.site))
    masters = [subnet.master_again for subnet in seen.subnets if isinstance(subnet.master_again, SmInfo)]
    names = ", ".join(f"{sm.guid} (LID {sm.lid}, priority {sm.priority})" for sm in masters)
    report = Report(
        summary=f"master {names}, a standby, settled",
        findings=tuple(findings),
        evidence=evidence_of(seen, "sminfo; saquery -s"),
    )
    return conclude(answer, report)


def _where(subnet: SubnetFacts) -> str:
    return f" behind {subnet.port}" if subnet.port else ""


def _none(subnet: SubnetFacts) -> Finding:
    text = f"no subnet manager answers{_where(subnet)}: `sminfo` failed to query one"
    return Finding(cause="no-subnet-manager", text=text, hint=_START)


def _managers(subnet: SubnetFacts, managers: tuple[SmInfo, ...]) -> list[Finding]:
    masters = [sm for sm in managers if sm.state == MASTER]
    standby = [sm for sm in managers if sm.state == STANDBY]
    listed = "; ".join(f"LID {sm.lid} {sm.state} priority {sm.priority}" for sm in managers) or "none answered"
    measured = (
        Measure("subnet_managers_master", len(masters), "count"),
        Measure("subnet_managers_standby", len(standby), "count"),
    )
    expected = (
        Expectation("subnet_managers_master", "==", 1, Basis.RULE, "count"),
        Expectation("subnet_managers_standby", ">=", 1, Basis.RULE, "count"),
    )
    details: dict[str, Any] = {"measured": measured, "expected": expected}
    if len(masters) > 1:
        hint = "two fabrics were joined, or an SM_Key differs: stop all but one, compare their configurations"
        return [
            Finding(cause="two-masters", text=f"{len(masters)} masters{_where(subnet)}: {listed}", hint=hint, **details)
        ]
    if not masters:
        text = f"no master among the subnet managers{_where(subnet)}: {listed}"
        return [Finding(cause="no-subnet-manager", text=text, hint=_START, **details)]
    before, after = subnet.master, subnet.master_again
    if isinstance(before, SmInfo) and isinstance(after, SmInfo) and _stuck(before, after):
        text = f"the master at LID {after.lid} does not work: its activity count stays at {after.activity}"
        hint = f"restart the subnet manager at LID {after.lid}; the standby takes over"
        return [Finding(cause="subnet-manager-stuck", text=text, hint=hint, **details)]
    if not standby:
        silent = f"; LID {', '.join(map(str, subnet.silent_lids))} did not answer" if subnet.silent_lids else ""
        text = f"no standby subnet manager{_where(subnet)}: {listed}{silent}"
        hint = "start a second one with a lower priority on another host (`opensm -p 1`), or on a second switch"
        return [Finding(cause="no-standby-subnet-manager", text=text, hint=hint, **details)]
    return []


def _stuck(before: SmInfo, after: SmInfo) -> bool:
    return before.guid == after.guid and after.activity <= before.activity


def _unsettled(facts: FabricFacts, overlay: Overlay) -> list[Finding]:
    hint = "read the subnet manager's log (opensm.log: ERR, SUBNET UP); `smpquery portinfo <lid> <port>` of the port"
    findings = [
        Finding(cause="not-converged", text=f"{entry.link.name}: {text}", hint=hint, subjects=link_subjects(entry.link))
        for entry in overlay.cables
        if (text := _unsettled_text(entry))
    ]
    for subnet in facts.subnets:
        findings += [
            Finding(cause="not-converged", text=f"LID {lid} belongs to {' and '.join(owners)}", hint=hint)
            for lid, owners in _shared_lids(subnet).items()
        ]
    if not findings:
        changed = _changes(facts)
        if changed:
            text = f"{len(changed)} ports changed between two readings: {'; '.join(changed[:5])}"
            findings.append(Finding(cause="not-converged", text=text, hint=hint))
    return findings


def _unsettled_text(entry: CableState) -> str:
    """Return what is not settled about a cable with a signal, or nothing."""
    waiting = [end for end in entry.running if end.state != "Active"]
    if waiting:
        ends = ", ".join(f"{end.name}:{end.port} is {end.state}" for end in waiting)
        return f"{ends}, expected Active" + ("; nobody answers at the other end" if entry.silent else "")
    if entry.silent:
        return f"{entry.link.far} has a signal, and nobody answers at the other end"
    if entry.one_sided:
        return f"{entry.link.near} says it is connected to {entry.actual}, which does not say so"
    return ""


def _shared_lids(subnet: SubnetFacts) -> dict[int, list[str]]:
    if isinstance(subnet.links, ProbeFailure):
        return {}
    # All ports of a switch share its LID; every port of an adapter has its own.
    owners = {(end.lid, end.guid or end.name): end.name for end in subnet.links if end.lid and end.up}
    counts = Counter(lid for lid, _guid in owners)
    return {
        lid: sorted(name for (other, _guid), name in owners.items() if other == lid)
        for lid, count in counts.items()
        if count > 1
    }


def _changes(facts: FabricFacts) -> list[str]:
    before, after = ends_of(facts, before=True), ends_of(facts)
    if not before:
        return []
    return [
        f"{end}: {_settled_text(before.get(end))} -> {_settled_text(after.get(end))}"
        for end in sorted(before.keys() | after.keys())
        if _settled_text(before.get(end)) != _settled_text(after.get(end))
    ]


def _settled_text(end: LinkEnd | None) -> str:
    if end is None:
        return "not seen"
    peer = f", to {End(end.peer.name, end.peer.port)}" if end.peer is not None else ""
    return f"{end.state}, LID {end.lid}{peer}"


CHECK = Check(SPEC, OBSERVER, judge)
