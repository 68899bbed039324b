# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check link-errors: error counters do not grow. What was counted before the gate looked says nothing about today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from ...collect.tool_reading import ProbeFailure
from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...probe.ibqueryerrors import ErrorReport
from ...site.cabling import End, PlannedLink
from ..kit.answer import Answer
from ..kit.finding import Finding, Report
from ..kit.settings import setting
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .fabric_facts import FabricFacts
from .links import CABLE, REQUIRES, evidence_of, judge_links, unusable
from .observe_fabric import OBSERVER
from .overlay import link_subjects


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkErrorSettings:
    """Settings of check link-errors."""

    growth_per_hour: dict[str, int] = setting(
        "By how much a counter of one port may grow in an hour; in the seconds between the two readings by that share, "
        "rounded up. Counters that are not listed are read and not judged.",
        unit="count by counter",
        minimum=0,
    )
    saturates_at: dict[str, int] = setting(
        "The value at which a counter ends: one that has reached it cannot tell whether it grows.",
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
    requires=REQUIRES,
    causes=("link-errors-growing",),
    settings=LinkErrorSettings,
)
_Counts = dict[tuple[str, int], dict[str, int]]


@dataclass(frozen=True, slots=True)
class _Change:
    """One counter of one port at both readings."""

    end: End
    counter: str
    before: int
    after: int

    @property
    def growth(self) -> int:
        return self.after - self.before


def judge(seen: FabricFacts, context: JudgeContext) -> tuple[Outcome, ...]:
    """Judged by growth between two readings; counters are never cleared."""
    return judge_links(SPEC, seen, context, _judge)


def _judge(answer: Answer, seen: FabricFacts) -> Report | Outcome:
    for subnet in seen.subnets:
        for report in (subnet.errors_before, subnet.errors):
            if isinstance(report, ProbeFailure):
                return unusable(answer, seen, report)
    changes, context = _changes(seen), answer.context
    links = _links(seen, context)
    findings = [
        finding
        for link, ends in links.items()
        if (finding := _finding(link, [c for end in ends for c in changes.get(end, [])], seen, context)) is not None
    ]
    old = sum(change.after for ends in links.values() for end in ends for change in changes.get(end, []))
    summary = f"no counter of {len(links)} links grew in {seen.interval_s:g} s ({old} older errors)"
    evidence = evidence_of(seen, "ibqueryerrors, twice")
    return Report(summary=summary, findings=tuple(findings), evidence=evidence)


def _links(facts: FabricFacts, context: JudgeContext) -> dict[PlannedLink, tuple[End, ...]]:
    """Return the planned links in scope with both their ends, where the cable really goes."""
    ends = {
        End(end.name, end.port): end
        for subnet in facts.subnets
        if not isinstance(subnet.links, ProbeFailure)
        for end in subnet.links
    }
    found: dict[PlannedLink, tuple[End, ...]] = {}
    for link in facts.plan.links:
        if link.host not in context.site.quarantined:
            near = ends.get(link.near)
            peer = near.peer if near is not None else None
            other = End(peer.name, peer.port) if peer is not None else link.far
            found[link] = (link.near, other) if other is not None else (link.near,)
    return found


def _changes(facts: FabricFacts) -> dict[End, list[_Change]]:
    names = {
        (end.guid, end.port): End(end.name, end.port)
        for subnet in facts.subnets
        if not isinstance(subnet.links, ProbeFailure)
        for end in subnet.links
    }
    found: dict[End, list[_Change]] = {}
    for subnet in facts.subnets:
        before, after = _counts(subnet.errors_before), _counts(subnet.errors)
        for place in before.keys() | after.keys():
            end = names.get(place)
            if end is None:
                continue
            first, second = before.get(place, {}), after.get(place, {})
            counters = sorted(first.keys() | second.keys())
            found[end] = [_Change(end, name, first.get(name, 0), second.get(name, 0)) for name in counters]
    return found


def _counts(report: ErrorReport | ProbeFailure) -> _Counts:
    if isinstance(report, ProbeFailure):
        return {}
    return {(port.guid, port.port): port.counters for port in report.ports}


def _finding(link: PlannedLink, changes: list[_Change], facts: FabricFacts, context: JudgeContext) -> Finding | None:
    limits = context.settings_of(SPEC.id, LinkErrorSettings)
    per_hour, ends_at = limits.growth_per_hour, limits.saturates_at
    judged = [change for change in changes if change.counter in per_hour]
    growing = [c for c in judged if c.growth > _allowed(per_hour[c.counter], facts.interval_s)]
    if growing:
        return _growing(link, growing, per_hour, facts.interval_s)
    cleared = [change for change in judged if change.growth < 0]
    full = [change for change in judged if change.after >= ends_at.get(change.counter, 1 << 63)]
    if cleared:
        text = f"{link.name}: {_listed(cleared)}: somebody cleared it between the readings"
        hint = "keep others from clearing counters while the gate looks, and run it again"
        return Finding(cause="counters-cleared", text=text, hint=hint, subjects=link_subjects(link), marginal=True)
    if full:
        text = f"{link.name}: {_listed(full)}: the counter is at its end and cannot tell whether it grows"
        hint = "clear it (`perfquery -R <lid> <port>`) and run the gate again, or accept it (gpufleet_acceptances)"
        return Finding(cause="counter-saturated", text=text, hint=hint, subjects=link_subjects(link), marginal=True)
    return None


def _allowed(per_hour: int, interval_s: float) -> int:
    return ceil(per_hour * interval_s / 3600)


def _growing(link: PlannedLink, growing: list[_Change], per_hour: Mapping[str, int], interval_s: float) -> Finding:
    return Finding(
        cause="link-errors-growing",
        text=f"{link.name}: {_listed(growing)} within {interval_s:g} s",
        hint=CABLE,
        subjects=link_subjects(link),
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
