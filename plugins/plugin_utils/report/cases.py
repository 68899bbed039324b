# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Everything that failed, blocks, or was decided by a person, with numbers, arithmetic and evidence. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..outcome.gates import GATES
from ..outcome.model import Evidence, Expectation, Outcome, Status, Subject
from ..runtime.redaction import redact
from ..verdict.gate import AppliedDecision, Blocking, GateVerdict
from .facts import RunFacts
from .words import compressed, measure_name, with_unit

_Key = tuple[str, tuple[Subject, ...], str]
# With more entries a page becomes unreadable; the CTRF files have every one of them.
MOST_WHOLE = 120
MOST_WHOLE_ALIKE = 8
MOST_SHORT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What was read; `link` is relative to the run directory, empty where the whole text is not in there."""

    text: str
    excerpt: str
    path: str
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportEntry:
    """One result that is not a plain pass.

    `blocked_by` is the check whose result it waits for. `decision` names the person whose decision keeps it from
    blocking the gate.
    """

    subject: str
    status: str
    rating: str
    summary: str
    hint: str
    blocked_by: str = ""
    decision: str = ""
    measured: tuple[tuple[str, str], ...] = ()
    expected: tuple[tuple[str, str, str], ...] = ()
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryGroup:
    """Results of one check with one cause: `whole` with everything, `short` the others, `more` only counted."""

    gate: str
    check: str
    cause: str
    status: str
    whole: tuple[ReportEntry, ...]
    short: tuple[ReportEntry, ...] = ()
    more: int = 0

    @property
    def count(self) -> int:
        """The number of results."""
        return len(self.whole) + len(self.short) + self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do about a cause that blocks a gate, and where."""

    cause: str
    about: str
    hint: str


def next_steps(groups: tuple[EntryGroup, ...]) -> tuple[Step, ...]:
    """Return what to do next, without what a person decided or what only waits for another check."""
    steps = []
    for group in groups:
        cases = [case for case in (*group.whole, *group.short) if not (case.decision or case.blocked_by)]
        if cases and cases[0].hint:
            about = compressed((case.subject for case in cases), 3) + (f" and {group.more} more" if group.more else "")
            steps.append(Step(cause=group.cause or group.check, about=about, hint=cases[0].hint))
    return tuple(steps)


def case_groups(facts: RunFacts) -> tuple[EntryGroup, ...]:
    """Return all cases by gate, check and cause: what blocks a gate first, then what persons decided about."""
    whole, short = MOST_WHOLE, MOST_SHORT
    shown = []
    for (gate, check, cause, status), cases in _groups(facts).items():
        # A result that waits for another check has no numbers of its own.
        alike = 0 if cases[0].blocked_by else MOST_WHOLE_ALIKE
        # Every cause shows its first case, however many others there are.
        full = min(len(cases), alike, max(whole, 1))
        brief = min(len(cases) - full, max(short, 0 if full else 1))
        whole, short = whole - full, short - brief
        shown.append(
            EntryGroup(
                gate=gate,
                check=check,
                cause=cause,
                status=status,
                whole=tuple(cases[:full]),
                short=tuple(cases[full : full + brief]),
                more=len(cases) - full - brief,
            )
        )
    return tuple(shown)


def _groups(facts: RunFacts) -> dict[tuple[str, str, str, str], list[ReportEntry]]:
    groups: dict[tuple[str, str, str, str], list[ReportEntry]] = {}
    for gate in GATES:
        verdict = facts.record.gate(gate.id)
        by_key = _by_key(facts.outcomes.get(gate.id, ()))
        for check, cause, status, case in _cases(verdict, by_key):
            groups.setdefault((gate.id, check, cause, status), []).append(case)
    return groups


def _by_key(outcomes: tuple[Outcome, ...]) -> dict[_Key, list[Outcome]]:
    found: dict[_Key, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault((outcome.check, outcome.subjects, outcome.cause), []).append(outcome)
    return found


def _cases(verdict: GateVerdict, outcomes: Mapping[_Key, list[Outcome]]) -> Iterator[tuple[str, str, str, ReportEntry]]:
    for entry in verdict.blocking:
        found = outcomes.get((entry.check, entry.subjects, entry.cause), [])
        yield entry.check, entry.cause, entry.status.value, _blocking(entry, found)
    for word, decided in (("waived", verdict.waived), ("accepted", verdict.accepted)):
        for decision in decided:
            for outcome in outcomes.get((decision.check, decision.subjects, decision.cause), []):
                case = replace(_case(outcome), decision=_decision(word, decision))
                yield outcome.check, outcome.cause, outcome.status.value, case


def _blocking(entry: Blocking, outcomes: list[Outcome]) -> ReportEntry:
    bare = ReportEntry(
        subject=entry.shown,
        status=entry.status.value,
        rating="",
        summary=redact(entry.summary),
        hint=redact(entry.hint),
        blocked_by=entry.blocked_by,
    )
    if not outcomes:
        return bare
    first = _case(outcomes.pop(0) if len(outcomes) > 1 else outcomes[0])
    return replace(first, status=bare.status, summary=bare.summary, hint=bare.hint)


def _case(outcome: Outcome) -> ReportEntry:
    return ReportEntry(
        subject=outcome.about,
        status=outcome.status.value,
        rating=outcome.rating.value if outcome.status is Status.OTHER else "",
        summary=redact(outcome.summary),
        hint=redact(outcome.hint),
        blocked_by=outcome.blocked_by,
        measured=tuple((measure_name(m.name), with_unit(m.value, m.unit)) for m in outcome.measured),
        expected=tuple(_expected(e) for e in outcome.expected),
        sources=tuple(_source(e) for e in outcome.evidence),
    )


def _expected(entry: Expectation) -> tuple[str, str, str]:
    text = f"{entry.name} {entry.relation} {with_unit(entry.value, entry.unit)}"
    return text, entry.basis.value, entry.arithmetic


def _source(entry: Evidence) -> Source:
    text = f"{entry.source} on {entry.where}" if entry.where else entry.source
    return Source(text=redact(text), excerpt=redact(entry.excerpt), path=entry.path, link=safe_link(entry.path))


def safe_link(path: str) -> str:
    """Return a path as a link relative to the run directory; empty if it leads anywhere else."""
    parts = path.split("/")
    if not path or path.startswith("/") or ".." in parts or "\\" in path or ":" in path:
        return ""
    from urllib.parse import quote

    return quote(path)


def _decision(word: str, decided: AppliedDecision) -> str:
    return f"{word} by {decided.who} until {decided.until}: {redact(decided.reason)}"
