# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The gates one after the other: status, when, how long, and what each check answered. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ..check.comparison.specs import comparisons_of
from ..check.registry import all_checks, checks_of
from ..outcome.gates import GATES
from ..outcome.model import Outcome, Status
from ..runtime.redaction import redact
from ..verdict.gate import GateVerdict
from .facts import RunFacts
from .matrix import Decisions, Mark, decisions_of, mark_of
from .words import number

_ROUTINE = "every declared check passed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """One gate. `begin` and `share` are parts of the whole run's time, for the bar; zero before it ran."""

    number: int
    id: str
    title: str
    status: Status
    in_scope: bool
    key_figure: str
    message: str
    checks: int
    counts: Mapping[str, int]
    began: str = ""
    ended: str = ""
    duration_s: float = 0.0
    begin: float = 0.0
    share: float = 0.0

    @property
    def ran(self) -> bool:
        """Whether it was looked at in this run."""
        return self.status is not Status.PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLine:
    """What one check answered: how often which letter, and the span of its first number."""

    id: str
    title: str
    marks: tuple[tuple[Mark, int], ...]
    span: str


def gate_lines(facts: RunFacts) -> tuple[GateLine, ...]:
    """Return the eight gates in order."""
    verdicts = [facts.record.gate(gate.id) for gate in GATES]
    spans = {verdict.gate: span for verdict in verdicts if (span := _span(verdict))}
    first = min((begin for begin, _end in spans.values()), default=None)
    last = max((end for _begin, end in spans.values()), default=None)
    lines: list[GateLine] = []
    for gate, verdict in zip(GATES, verdicts, strict=True):
        line = GateLine(
            number=gate.number,
            id=gate.id,
            title=gate.title,
            status=verdict.status,
            in_scope=gate.id in facts.record.scope,
            key_figure=verdict.key_figure if verdict.opens_next and verdict.key_figure != verdict.message else "",
            message="" if verdict.key_figure and verdict.message == _ROUTINE else redact(verdict.message),
            checks=verdict.checks,
            counts=verdict.counts,
        )
        span = spans.get(gate.id)
        lines.append(_timed(line, verdict, span, first, last) if span and first and last else line)
    return tuple(lines)


def _span(verdict: GateVerdict) -> tuple[datetime, datetime] | None:
    if verdict.status is Status.PENDING or not verdict.started:
        return None
    try:
        begun = datetime.fromisoformat(verdict.started.replace("Z", "+00:00"))
    except ValueError:
        return None
    return begun, begun + timedelta(seconds=verdict.duration_s)


def _timed(
    line: GateLine, verdict: GateVerdict, span: tuple[datetime, datetime], first: datetime, last: datetime
) -> GateLine:
    whole = max((last - first).total_seconds(), 1e-9)
    begin, end = span
    return replace(
        line,
        began=clock_text(begin, first),
        ended=clock_text(end, first),
        duration_s=verdict.duration_s,
        begin=(begin - first).total_seconds() / whole,
        share=(end - begin).total_seconds() / whole,
    )


def clock_text(moment: datetime, first: datetime) -> str:
    """Return a moment as it is written in the page: to the second, with the day where it is not the first one."""
    return f"{moment:%H:%M:%S}" if moment.date() == first.date() else f"{moment:%Y-%m-%d %H:%M:%S}"


def titles(facts: RunFacts) -> dict[str, str]:
    """Return the titles by id of this release's checks, for gates that were looked at: no other gate is imported."""
    looked = [verdict.gate for verdict in facts.record.gates if verdict.status is not Status.PENDING]
    if facts.site is None:
        checks = all_checks() if looked else ()
    else:
        checks = tuple(check for gate in looked for check in checks_of(gate, facts.site))
    compared = (comparison.spec for gate in looked for comparison in comparisons_of(gate))
    return {spec.id: spec.title for spec in (*(check.spec for check in checks), *compared)}


def check_lines(facts: RunFacts) -> dict[str, tuple[CheckLine, ...]]:
    """Return what each check of each gate answered, for gates that were looked at."""
    known, decided = titles(facts), decisions_of(facts.record)
    found: dict[str, tuple[CheckLine, ...]] = {}
    for gate in GATES:
        by_check: dict[str, list[Outcome]] = {}
        looked = facts.record.gate(gate.id).status is not Status.PENDING
        for outcome in facts.outcomes.get(gate.id, ()) if looked else ():
            by_check.setdefault(outcome.check, []).append(outcome)
        if by_check:
            found[gate.id] = tuple(_check_line(name, known, all_, decided) for name, all_ in by_check.items())
    return found


def waiting_checks(facts: RunFacts) -> dict[str, tuple[str, ...]]:
    """Return the checks of each gate in scope that was not reached."""
    waiting = [g.id for g in GATES if g.id in facts.record.scope and facts.record.gate(g.id).status is Status.PENDING]
    found = {gate: tuple(dict.fromkeys(o.check for o in facts.outcomes.get(gate, ()))) for gate in waiting}
    return {gate: checks for gate, checks in found.items() if checks}


def _check_line(name: str, known: Mapping[str, str], outcomes: list[Outcome], decided: Decisions) -> CheckLine:
    counts: dict[Mark, int] = {}
    for outcome in outcomes:
        mark = mark_of(outcome, decided)
        counts[mark] = counts.get(mark, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[0].weight)
    return CheckLine(id=name, title=known.get(name, ""), marks=tuple(ordered), span=_measured(outcomes))


def _measured(outcomes: list[Outcome]) -> str:
    """Return the span of the first number that the check measured, over all that have it."""
    first = next((m for o in outcomes for m in o.measured if _is_number(m.value)), None)
    if first is None:
        return ""
    values = [
        float(m.value)
        for o in outcomes
        for m in o.measured
        if (m.name, m.unit) == (first.name, first.unit) and _is_number(m.value) and m.value is not None
    ]
    low, high = number(min(values)), number(max(values))
    unit = "" if first.unit == "count" else f" {first.unit}"
    return f"{first.name} {low}{unit}" if low == high else f"{first.name} {low} to {high}{unit}"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
