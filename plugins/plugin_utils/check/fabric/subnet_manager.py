# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check subnet-manager: one master, a standby where the site's policy requires one, and a settled fabric."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.sminfo import MASTER, STANDBY, SmInfo
from ...probe.text import guid_text
from ..kit.answer import Answer
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .fabric_facts import FabricFacts, SubnetFacts
from .links import REQUIRES, conclude_parts, evidence_of, unusable
from .observe_fabric import OBSERVER
from .overlay import CableState, Overlay, lay_over, link_subjects
from .view import FabricView, PortId, fabric_view

STANDBY_POLICY, EXTERNAL_POLICY = "standby", "external"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetManagerSettings:
    """Settings of check subnet-manager."""

    policy: Literal["standby", "external"] = setting(
        "What stands in for the master. standby: another subnet manager must answer. external: whoever runs it does, "
        "as UFM in management or high availability mode, where every other subnet manager must be off.",
        default="standby",
    )


SPEC = CheckSpec(
    id="subnet-manager",
    gate="fabric",
    title="One master subnet manager, redundant as stated, fabric settled",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    applies=(needs(*REQUIRES),),
    causes=("no-subnet-manager", "no-standby-subnet-manager", "two-masters", "subnet-manager-stuck", "not-converged"),
    settings=SubnetManagerSettings,
)
_START = "start it (`systemctl start opensm` on its host, or on the switch); `sminfo` must name a master"


def judge(observed: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge subnet managers and whether the fabric is settled.

    Settled means: every planned port with a signal is Active, LIDs are unique, two readings are the same.
    """
    answer = Answer.about_site(SPEC, context)
    if not observed.subnets:
        reason = observed.reason or "no tool was run"
        hint = "restore the way to the host, or look from another one (gpufleet_fabric_host)"
        return (answer.unknown("fabric-host-unreachable", f"{observed.host}: {reason}", hint),)
    findings: list[Finding] = []
    policy = context.settings_of(SPEC.id, SubnetManagerSettings).policy
    for subnet in observed.subnets:
        for failure in (subnet.master, subnet.master_again):
            if isinstance(failure, ProbeFailure):
                return (unusable(answer, observed, failure),)
        if subnet.master_again is None:
            findings.append(_none(subnet))
            continue
        if isinstance(subnet.managers, ProbeFailure):
            return (unusable(answer, observed, subnet.managers),)
        findings += _managers(subnet, subnet.managers, policy)
    if not findings:
        for subnet in observed.subnets:
            if isinstance(subnet.links, ProbeFailure):
                return (unusable(answer, observed, subnet.links),)
        findings = _unsettled(observed, lay_over(observed, context.site))
    masters = [subnet.master_again for subnet in observed.subnets if isinstance(subnet.master_again, SmInfo)]
    names = ", ".join(f"{guid_text(sm.guid)} (LID {sm.lid}, priority {sm.priority})" for sm in masters)
    behind = "a standby" if policy == STANDBY_POLICY else "redundant by itself as stated"
    report = Report(
        summary=f"master {names}, {behind}, settled",
        findings=tuple(findings),
        evidence=evidence_of(observed, "sminfo; saquery -s"),
    )
    return conclude_parts(answer, report)


def _where(subnet: SubnetFacts) -> str:
    return f" behind {subnet.port}" if subnet.port else ""


def _none(subnet: SubnetFacts) -> Finding:
    text = f"no subnet manager answers{_where(subnet)}: `sminfo` failed to query one"
    return Finding(cause="no-subnet-manager", text=text, hint=_START)


def _managers(subnet: SubnetFacts, managers: tuple[SmInfo, ...], policy: str) -> list[Finding]:
    masters = [sm for sm in managers if sm.state == MASTER]
    standby = [sm for sm in managers if sm.state == STANDBY]
    listed = "; ".join(f"LID {sm.lid} {sm.state} priority {sm.priority}" for sm in managers) or "none answered"
    measured = (
        Measure("subnet_managers_master", len(masters), "count"),
        Measure("subnet_managers_standby", len(standby), "count"),
    )
    redundant = (">=", 1) if policy == STANDBY_POLICY else ("==", 0)
    expected = (
        Expectation("subnet_managers_master", "==", 1, Basis.RULE, "count"),
        Expectation("subnet_managers_standby", *redundant, Basis.INVENTORY, "count"),
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
    if policy == EXTERNAL_POLICY:
        return _beside_external(subnet, standby, listed, details)
    if not standby:
        not_reporting = f"; LID {', '.join(map(str, subnet.silent_lids))} did not answer" if subnet.silent_lids else ""
        text = f"no standby subnet manager{_where(subnet)}: {listed}{not_reporting}"
        hint = (
            "start a second one with a lower priority on another host (`opensm -p 1`), or on a second switch; where "
            "UFM runs it in high availability: gpufleet_settings: {subnet-manager: {policy: external}}"
        )
        return [Finding(cause="no-standby-subnet-manager", text=text, hint=hint, **details)]
    return []


def _beside_external(subnet: SubnetFacts, others: list[SmInfo], listed: str, details: dict[str, Any]) -> list[Finding]:
    if not others and not subnet.silent_lids:
        return []
    not_reporting = f"; LID {', '.join(map(str, subnet.silent_lids))} did not answer" if subnet.silent_lids else ""
    text = f"beside the master others are registered{_where(subnet)}, the policy allows none: {listed}{not_reporting}"
    hint = (
        "stop them (`systemctl disable --now opensm`, on a switch `no ib smnode NAME enable`), or state policy standby"
    )
    return [Finding(cause="subnet-manager-beside-external", text=text, hint=hint, marginal=True, **details)]


def _stuck(before: SmInfo, after: SmInfo) -> bool:
    return before.guid == after.guid and after.activity <= before.activity


def _unsettled(facts: FabricFacts, overlay: Overlay) -> list[Finding]:
    hint = "read the subnet manager's log (opensm.log: ERR, SUBNET UP)"
    findings = [
        Finding(
            cause="not-converged", text=f"{entry.link.name}: {text}", hint=f"{hint}{_asking(entry)}",
            subjects=link_subjects(entry.link),
        )
        for entry in overlay.cables
        if (text := _unsettled_text(overlay, entry))
    ]  # fmt: skip
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


def _unsettled_text(overlay: Overlay, entry: CableState) -> str:
    """Return what is not settled about a cable with a signal, empty if all is."""
    waiting = [end for end in entry.running if end.state != "Active"]
    if waiting:
        ends = ", ".join(f"{overlay.view.end(end)} is {end.state}" for end in waiting)
        return f"{ends}, expected Active" + ("; nobody answers at the other end" if entry.silent else "")
    if entry.silent:
        return f"{entry.link.far} has a signal, and nobody answers at the other end"
    if entry.one_sided:
        return f"{entry.link.near} says it is connected to {entry.actual}, which does not say so"
    return ""


def _asking(entry: CableState) -> str:
    """Return the commands that query the ends of a cable. An end without LID is left out: no subnet manager reached
    it."""
    ends = dict.fromkeys((end.lid, end.port) for end in entry.running if end.lid)
    requested = " and ".join(f"`smpquery portinfo {lid} {port}`" for lid, port in ends)
    return f"; ask the port: {requested}" if requested else ""


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
    before, after = fabric_view(facts, before=True), fabric_view(facts)
    if not before.ends:
        return []
    changed = [
        (place, _settled_text(before, place), _settled_text(after, place))
        for place in sorted(before.ends.keys() | after.ends.keys())
        if _peer_text(before, place) != _peer_text(after, place)
    ]
    named = {place: view.end(view.ends[place]) for view in (before, after) for place in view.ends}
    return [f"{named[place]}: {first} -> {second}" for place, first, second in changed]


def _peer_text(view: FabricView, place: PortId) -> tuple[object, ...]:
    """Return what must not change: state, LID and peer, by GUID."""
    end = view.ends.get(place)
    return (end.state, end.lid, view.peer_id(end)) if end is not None else ()


def _settled_text(view: FabricView, place: PortId) -> str:
    end = view.ends.get(place)
    if end is None:
        return "not seen"
    peer = view.peer_end(end)
    return f"{end.state}, LID {end.lid}{f', to {peer}' if peer is not None else ''}"


CHECK = Check(SPEC, OBSERVER, judge)
