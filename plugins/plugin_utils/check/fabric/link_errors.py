# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check link-errors: the error counters of no port in the fabric grow between two readings.

Errors counted before the gate are reported, but prove nothing about the present.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, Subject, SubjectKind
from ...outcome.wording import count, first_of
from ...probe.iblinkinfo import LinkEnd
from ...probe.ibqueryerrors import ErrorReport, PortErrors
from ...probe.text import guid_text
from ...site.cabling import End
from ..kit.answer import Answer
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .fabric_facts import FabricFacts
from .links import CABLE, REQUIRES, evidence_of, judge_links, unusable
from .observe_fabric import OBSERVER
from .overlay import CableState, Overlay, lay_over, link_subjects
from .view import FabricView, PortId, port_id


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkErrorSettings:
    """Settings of check link-errors."""

    # Counters that are not listed are read and not judged: PortXmitWait is congestion, and PortRcvSwitchRelayErrors and
    # VL15Dropped come with every sweep of a healthy fabric.
    growth_per_hour: dict[str, int] = setting(
        "By how much a counter of one port may grow in an hour; in the seconds between the two readings by that share, "
        "rounded up. Counters that are not listed are read and not judged.",
        default={
            "SymbolErrorCounter": 10,
            "LinkErrorRecoveryCounter": 0,
            "LinkDownedCounter": 0,
            "PortRcvErrors": 10,
            "PortRcvRemotePhysicalErrors": 10,
            "LocalLinkIntegrityErrors": 0,
            "ExcessiveBufferOverrunErrors": 0,
        },
        unit="count by counter",
        minimum=0,
    )
    # LinkDownedCounter at 255 is history of years on healthy links; that the link went down now, both sweeps would
    # show.
    saturates_at: dict[str, int] = setting(
        "The value at which a counter ends: one that has reached it cannot tell whether it grows.",
        default={
            "SymbolErrorCounter": 65535,
            "LinkErrorRecoveryCounter": 255,
            "PortRcvErrors": 65535,
            "PortRcvRemotePhysicalErrors": 65535,
            "LocalLinkIntegrityErrors": 15,
            "ExcessiveBufferOverrunErrors": 15,
        },
        unit="count by counter",
        minimum=1,
    )


SPEC = CheckSpec(
    id="link-errors",
    gate="fabric",
    title="Error counters do not grow",
    per=SubjectKind.SITE,
    disturbs=Disturbance.HOST_COMMAND,
    duration_s=10.0,
    applies=(needs(*REQUIRES),),
    causes=("link-errors-growing",),
    settings=LinkErrorSettings,
)
# Counters of how often a link was ever lost.
_LOST = "LinkDownedCounter"


@dataclass(frozen=True, slots=True)
class _Change:
    """One counter of one port at both readings.

    `wide`: it has 64 bits, so in practice it never saturates. `guid` is the port's as the report has it; for a switch,
    that of the whole device.
    """

    end: End
    guid: int
    counter: str
    before: int
    after: int
    wide: bool = False

    @property
    def growth(self) -> int:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class _Cable:
    """The name and subjects under which the counters of a cable, or of a switch's own port, are reported."""

    name: str
    subjects: tuple[Subject, ...]
    host: str = ""


def judge(observed: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judge every observed port, planned or not, by growth between two readings. Counters are never cleared."""
    return judge_links(
        SPEC, observed, context, lambda answer, facts: growth_report(answer, facts, "link-errors-growing")
    )


def growth_report(
    answer: Answer,
    observed: FabricFacts,
    cause: str,
    counted: Callable[[FabricView, PortErrors], bool] = lambda *_: True,
) -> Report | Outcome:
    """Return the counters that grew between both readings, or why that cannot be judged.

    Args:
        answer: that of the check, whose site is judged.
        observed: both readings; `interval_s` lies between them.
        cause: the cause of a counter that grew.
        counted: whether the counters of a port are judged by this check.
    """
    for subnet in observed.subnets:
        for report in (subnet.errors_before, subnet.errors):
            if isinstance(report, ProbeFailure):
                return unusable(answer, observed, report)
    overlay, context = lay_over(observed, answer.context.site), answer.context
    evidence = evidence_of(observed, "ibqueryerrors, twice")
    changes, strangers = _changes(observed, overlay, counted)
    findings = [
        finding
        for cable, own in changes.items()
        if cable.host not in context.site.quarantined
        and (finding := _finding(cable, own, observed, context, cause)) is not None
    ]
    unseen = [*_uncovered(observed), *strangers]
    if unseen and not findings:
        hint = "run `ibqueryerrors` and `iblinkinfo -l` there again; a port that answers one must answer the other"
        return answer.unknown("counters-not-complete", "; ".join(unseen[:5]), hint, evidence=evidence)
    ports = sum(end.up for end in overlay.view.ends.values())
    summary = (
        f"no counter of {count(ports, 'port')} with a signal grew in {observed.interval_s:g} s ({_history(changes)})"
    )
    return Report(summary=summary, findings=tuple(findings), evidence=evidence)


def _uncovered(facts: FabricFacts) -> list[str]:
    """Return what the reports do not cover.

    These are ports that did not respond, fewer ports than have a signal, or more devices than the list of links has. In
    the last case one of the two tools does not reach the whole fabric.
    """
    found: list[str] = []
    for subnet in facts.subnets:
        links = subnet.links if not isinstance(subnet.links, ProbeFailure) else ()
        up = sum(end.up for end in links)
        # Every port of an adapter has a GUID of its own, so there are never fewer GUIDs than devices.
        devices = len({end.guid or end.name for end in links})
        for report in (subnet.errors_before, subnet.errors):
            if isinstance(report, ProbeFailure):
                continue
            if report.failures:
                found.append(f"{report.failures} queries of counters failed (PMA query failures)")
            if report.ports_checked < up:
                found.append(f"counters of {report.ports_checked} ports were read, {up} have a signal")
            if report.nodes_checked > devices:
                found.append(f"`iblinkinfo` lists {devices} devices, `ibqueryerrors` found {report.nodes_checked}")
    return list(dict.fromkeys(found))


def _changes(
    facts: FabricFacts, overlay: Overlay, counted: Callable[[FabricView, PortErrors], bool]
) -> tuple[dict[_Cable, list[_Change]], list[str]]:
    """Return every counter by its cable, and the ports that are missing in the list of links."""
    planned = {name: entry for entry in overlay.cables for name in _names(overlay, entry)}
    found: dict[_Cable, list[_Change]] = {}
    strangers: list[str] = []
    for subnet in facts.subnets:
        before, after = _ports(subnet.errors_before), _ports(subnet.errors)
        for place in before.keys() | after.keys():
            first, second = before.get(place), after.get(place)
            port = second or first
            if port is None or not counted(overlay.view, port):
                continue
            end, cable = _place(port, overlay, facts, planned)
            if cable is None:
                strangers.append(f"`iblinkinfo` does not list {end} ({guid_text(port.guid)}), `ibqueryerrors` does")
                continue
            old, new = (entry.counters if entry is not None else {} for entry in (first, second))
            found.setdefault(cable, []).extend(
                _Change(end, port.guid, name, old.get(name, 0), new.get(name, 0), name in port.wide)
                for name in sorted(old.keys() | new.keys())
            )
    return found, strangers


def _ports(report: ErrorReport | ProbeFailure) -> dict[tuple[int, int], PortErrors]:
    return {} if isinstance(report, ProbeFailure) else {(port.guid, port.port): port for port in report.ports}


def _names(overlay: Overlay, entry: CableState) -> list[PortId]:
    """Return the ports of a planned cable: those that it really connects."""
    ends = (entry.near, entry.other if entry.near is not None and entry.near.up else entry.far)
    return [port_id(end) for end in ends if end is not None]


def _place(
    port: PortErrors, overlay: Overlay, facts: FabricFacts, planned: Mapping[PortId, CableState]
) -> tuple[End, _Cable | None]:
    view = overlay.view
    place: PortId = (port.guid, "", port.port)
    observed = view.ends.get(place)
    if observed is None and port.guid not in view.names:
        # Old releases print the GUID of the device in place of the port's, where the two differ.
        observed = view.find(End(port.node.strip(), port.port))
    if observed is None:
        name = view.names.get(port.guid)
        end = End(name or port.node, port.port)
        if name is None or port.guid not in view.switches:
            return end, None
        # A switch's own port, which has no cable.
        return end, _Cable(str(end), (Subject(SubjectKind.SWITCH, name),))
    entry = planned.get(port_id(observed))
    if entry is not None:
        return view.end(observed), _Cable(entry.link.name, link_subjects(entry.link), entry.link.host)
    return view.end(observed), _unplanned_cable(view, observed, facts)


def _unplanned_cable(view: FabricView, observed: LinkEnd, facts: FabricFacts) -> _Cable:
    """Return a cable that is not in the plan: between switches, of storage, of a host outside the inventory."""
    other, far = view.peer(observed), view.peer_end(observed)
    ends = sorted(
        {view.end(observed), *([far] if far is not None else [])}, key=lambda end: (end != view.end(observed), end)
    )
    both = [entry for entry in (observed, other) if entry is not None]
    adapters = [facts.plan.adapters.get(guid_text(entry.guid), "") for entry in both]
    adapter = next((name for name in adapters if name), "")
    host = adapter.partition("/")[0]
    # The adapter's end comes first, as in a planned link; between switches the lower name.
    ends.sort(key=lambda end: (any(view.is_switch(entry) and view.end(entry) == end for entry in both), end))
    name = " - ".join(map(str, ends))
    subjects = [Subject(SubjectKind.LINK, name, host)]
    subjects += [Subject(SubjectKind.HCA, adapter, host)] if adapter else []
    return _Cable(name, tuple(subjects), host)


def _history(changes: Mapping[_Cable, list[_Change]]) -> str:
    """Return the text of what was counted before the gate."""
    every = [change for own in changes.values() for change in own]
    lost = [change for change in every if change.counter == _LOST and change.after]
    text = f"{sum(change.after for change in every if change.counter != _LOST)} older errors"
    if lost:
        most = max(lost, key=lambda change: change.after)
        text += f"; {count(len(lost), 'port')} lost its link before, most often {most.end}: {most.after} times"
    return text


def _finding(
    cable: _Cable, changes: list[_Change], facts: FabricFacts, context: JudgeContext, cause: str
) -> Finding | None:
    limits = context.settings_of(SPEC.id, LinkErrorSettings)
    per_hour, ends_at = limits.growth_per_hour, limits.saturates_at
    judged = [change for change in changes if change.counter in per_hour]
    growing = [c for c in judged if c.growth > _allowed(per_hour[c.counter], facts.interval_s)]
    if growing:
        return _growing(cable, growing, per_hour, facts.interval_s, cause)
    cleared = [change for change in judged if change.growth < 0]
    full = [change for change in judged if not change.wide and change.after >= ends_at.get(change.counter, 1 << 63)]
    if cleared:
        text = f"{cable.name}: {_listed(cleared)}: somebody cleared it between the readings"
        hint = "keep others from clearing counters while the gate looks, and run it again"
        return Finding(cause="counters-cleared", text=text, hint=hint, subjects=cable.subjects, marginal=True)
    if full:
        text = f"{cable.name}: {_listed(full)}: the counter is at its end and cannot tell whether it grows"
        commands = first_of(_clearing(full, facts), 4)
        hint = f"clear it as root ({commands}) and run the gate again, or accept it (gpufleet_acceptances)"
        return Finding(cause="counter-saturated", text=text, hint=hint, subjects=cable.subjects, marginal=True)
    return None


def _clearing(full: Sequence[_Change], facts: FabricFacts) -> list[str]:
    """Return the commands that clear the counters of these ports; by GUID (perfquery -G) where no LID is known."""
    links = (subnet.links for subnet in facts.subnets if not isinstance(subnet.links, ProbeFailure))
    lids = {end.guid: end.lid for ends in links for end in ends if end.guid and end.lid}
    ports = dict.fromkeys((lids.get(change.guid) or f"-G {guid_text(change.guid)}", change.end.port) for change in full)
    return [f"`perfquery -R {address} {port}`" for address, port in ports]


def _allowed(per_hour: int, interval_s: float) -> int:
    return ceil(per_hour * interval_s / 3600)


def _growing(
    cable: _Cable, growing: list[_Change], per_hour: Mapping[str, int], interval_s: float, cause: str
) -> Finding:
    return Finding(
        cause=cause,
        text=f"{cable.name}: {_listed(growing)} within {interval_s:g} s",
        hint=CABLE,
        subjects=cable.subjects,
        measured=tuple(Measure(change.counter, change.growth, "count") for change in growing),
        expected=tuple(
            Expectation(
                change.counter, "<=", _allowed(per_hour[change.counter], interval_s), Basis.RULE, "count",
                f"{per_hour[change.counter]} an hour x {interval_s:g} s / 3600 s, rounded up",
            )
            for change in growing
        ),
    )  # fmt: skip


def _listed(changes: list[_Change]) -> str:
    return ", ".join(f"{c.counter} of {c.end} {c.before} -> {c.after}" for c in changes)


CHECK = Check(SPEC, OBSERVER, judge)
