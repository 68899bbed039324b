# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The summary of a run in Markdown, short enough for a pull request or a chat. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ..check.comparison.specs import comparisons_of
from ..check.registry import all_checks, checks_of
from ..outcome.gates import GATES
from ..outcome.model import Outcome, Status
from ..outcome.wording import count
from ..runtime.clock import elapsed_text, moment_of
from ..runtime.redaction import redact
from ..runtime.text import visible
from ..verdict.gate import Blocking, GateVerdict
from ..verdict.restart import not_looked_at, way_on
from ..verdict.run import RunRecord, Work, all_passed, run_summary, shown_rows
from .cases import EntryGroup, ReportEntry, case_groups
from .decisions import decision_lines, quarantine_lines
from .facts import RESTORE, Looks, RunFacts, behind_lines, look_groups
from .matrix import Decisions, Mark, decisions_of, mark_of
from .scope import left_out
from .words import compressed, number

# The gates one after the other: status, when, how long, and the result of each check. Pure.

_ROUTINE = "every declared check passed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLine:
    """One gate. `begin` and `share` are fractions of the whole run's time, for the bar; zero before it ran."""

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
        """Whether it was observed in this run."""
        return self.status is not Status.PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLine:
    """The results of one check: how often which letter, and the span of its first number."""

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
        begun = moment_of(verdict.started)
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
    """Return a time for the page: to the second, with the day where it is not the first one."""
    return f"{moment:%H:%M:%S}" if moment.date() == first.date() else f"{moment:%Y-%m-%d %H:%M:%S}"


def titles(facts: RunFacts) -> dict[str, str]:
    """Return the titles by id of this release's checks, for observed gates: no other gate is imported."""
    looked = [verdict.gate for verdict in facts.record.gates if verdict.status is not Status.PENDING]
    if facts.site is None:
        checks = all_checks() if looked else ()
    else:
        checks = tuple(check for gate in looked for check in checks_of(gate, facts.site))
    compared = (comparison.spec for gate in looked for comparison in comparisons_of(gate))
    return {spec.id: spec.title for spec in (*(check.spec for check in checks), *compared)}


def check_lines(facts: RunFacts) -> dict[str, tuple[CheckLine, ...]]:
    """Return the results of each check of each gate, for observed gates."""
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
    """Return the span of the first number that the check measured, over all results with it."""
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


# GitHub takes 65,536 characters in a comment.
_MOST_GROUPS = 20
_MOST_ROWS = 200
_MOST_LETTERS = 400
_SPECIAL = re.compile(r"([\\`*\[\]|~>]|(?<![^\W_])_|_(?![^\W_]))")


def plain(text: str, limit: int = _MOST_LETTERS) -> str:
    """Return text as Markdown that shows exactly it, on one line and not too long."""
    line = " ".join(text.split())
    if len(line) > limit:
        line = line[: limit - 1] + "\u2026"
    parts = line.split("`")
    if len(parts) % 2 == 0:
        return _escaped(line)
    # Commands stay commands; a bar would end a cell of a table there, too.
    return "".join(f"`{part.replace('|', chr(92) + '|')}`" if i % 2 else _escaped(part) for i, part in enumerate(parts))


def _escaped(text: str) -> str:
    shown = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))
    # Neither a mention of a person nor an unintended link.
    return shown.replace("@", "@<!-- -->").replace("://", ":<!-- -->//")


def render_markdown(facts: RunFacts) -> str:
    """Return the summary."""
    record = facts.record
    word = "passed" if all_passed(record) and not record.problem else "not passed"
    if record.check_mode and not record.problem:
        word = "a preview"
    label = ("WHAT IF: " if record.what_if else "") + ("CHECK MODE: " if record.check_mode else "")
    label += "REHEARSAL: " if record.rehearsal else ""
    lines = [f"## {label}{kind_of_run(record)} of {plain(record.site)}: {word}", ""]
    if record.check_mode:
        lines += ["**CHECK MODE: nothing was changed, no test was run and no gate was decided.**", ""]
    if record.rehearsal:
        lines += ["**REHEARSAL: the hardware is simulated. This is not, and can never be, an acceptance.**", ""]
    lines += [plain(redact(run_summary(record)), 1500), "", *_next(record, facts.looks)]
    lines += [
        *_differences(facts),
        *_own_limits(record),
        *_parts(facts),
        *_resumed(facts),
        *_on_hold(case_groups(facts)),
        *_looks(facts),
        *_notes(facts),
        *_decided(facts),
    ]
    lines += [*_not_declared(facts), _origin(facts)]
    return visible("\n".join(lines).rstrip() + "\n")


def kind_of_run(record: RunRecord) -> str:
    """Return the kind of the run as text."""
    if record.work is not None:
        return plain(record.work.verb)
    return "validation" if record.validates else "bring-up"


def _parts(facts: RunFacts) -> list[str]:
    record = facts.record
    if record.work is not None:
        return [*_work(record.work), *(_phases(record) if record.phases else [])]
    return _phases(record) if record.validates else _gates(gate_lines(facts))


def _work(work: Work) -> list[str]:
    rows, more = shown_rows(work, _MOST_ROWS)
    if not rows:
        return []
    lines = [f"| {' | '.join(work.head)} |", f"|{' --- |' * len(work.head)}"]
    lines += [f"| {' | '.join(plain(redact(cell)) for cell in row.cells)} |" for row in rows]
    lines += ["", f"and {more} more in the report"] if more else []
    page = [f"Read `{work.page}` in the same directory.", ""] if work.page else []
    return [*lines, "", *([f"Next: {plain(work.next)}", ""] if work.next else []), *page]


def _phases(record: RunRecord) -> list[str]:
    """Return the phases of a run that validates, and what blocks each."""
    lines = ["| phase | status | what is told |", "| --- | --- | --- |"]
    lines += [f"| {v.gate} | {v.status.value} | {plain(redact(v.message))} |" for v in record.phases]
    on_hold = [entry for verdict in record.phases for entry in verdict.blocking]
    lines += [
        "",
        *(f"- {e.status.value} {e.check} on {plain(e.shown)}: {plain(_reported(e))}" for e in on_hold[:_MOST_GROUPS]),
    ]
    more = len(on_hold) - _MOST_GROUPS
    return [*lines, *([f"- and {more} more, in ctrf/"] if more > 0 else []), ""]


def _reported(entry: Blocking) -> str:
    return redact(f"{entry.cause}: {entry.summary}. {entry.hint}".strip())


def _next(record: RunRecord, looks: Looks) -> list[str]:
    """Return what was not observed and how to start again, empty for a run that passed."""
    when, again = way_on(record)
    behind = behind_lines(not_looked_at(record), looks)
    lines = [text for line in behind for text in (plain(f"{line[0].upper()}{line[1:]}"), "")]
    return [*lines, *([f"{when}:", "", f"    {again}", ""] if again else [])]


def _own_limits(record: RunRecord) -> list[str]:
    lines = [f"- {plain(redact(line))}" for line in record.own_limits[:_MOST_GROUPS]]
    more = len(record.own_limits) - len(lines)
    lines += [f"- and {more} more, in report.json"] if more > 0 else []
    return ["**Judged by limits other than the release's:**", "", *lines, ""] if lines else []


def _notes(facts: RunFacts) -> list[str]:
    lines = [f"- {plain(redact(line))}" for line in facts.record.notes]
    return ["**Notes:**", "", *lines, ""] if lines else []


def _differences(facts: RunFacts) -> list[str]:
    if not facts.differences:
        return []
    found = len(facts.differences)
    lines = [f"- {plain(text)}" for text in facts.differences[:_MOST_GROUPS]]
    head = f"**Judged again: {count(found, 'difference')} to what was recorded, which is not confirmed.**"
    return [head, "", *lines, "", f"Do next: {RESTORE}.", ""]


def _gates(gates: tuple[GateLine, ...]) -> list[str]:
    rows = ["| # | gate | status | took | result |", "| ---: | --- | --- | ---: | --- |"]
    for gate in gates:
        took = elapsed_text(gate.duration_s) if gate.ran else "-"
        word = f"**{gate.status.value}**" if gate.status.value in ("failed", "other") else gate.status.value
        reported = "; ".join(text for text in (gate.key_figure, gate.message) if text)
        rows.append(f"| {gate.number} | {plain(gate.id)} | {word} | {took} | {plain(reported, 160)} |")
    return [*rows, ""]


def _resumed(facts: RunFacts) -> list[str]:
    lines = [f"- {plain(redact(line))}" for line in facts.record.resumed]
    return [f"Started at gate {plain(facts.record.from_gate)}:", "", *lines, ""] if lines else []


def _on_hold(groups: tuple[EntryGroup, ...]) -> list[str]:
    on_hold = [group for group in groups if any(not case.decision for case in (*group.whole, *group.short))]
    if not on_hold:
        return []
    lines = ["### Failed and held", ""]
    for group in on_hold[:_MOST_GROUPS]:
        cases = [case for case in (*group.whole, *group.short) if not case.decision]
        first = cases[0]
        names = compressed((case.subject for case in cases), 8) + (f" and {group.more} more" if group.more else "")
        lines.append(f"- **{group.status}** {plain(group.check)}: {plain(group.cause)} on {plain(names)}")
        lines.append(f"  - {plain(first.summary)}")
        lines += _arithmetic(first)
        lines += [f"  - do: {plain(first.hint)}"] if first.hint else []
    if len(on_hold) > _MOST_GROUPS:
        lines.append(f"- and {len(on_hold) - _MOST_GROUPS} more causes in the report")
    return [*lines, ""]


def _looks(facts: RunFacts) -> list[str]:
    if not facts.looks:
        return []
    lines = [
        "### Observed, not proven",
        "",
        f"Read without tests: {plain(', '.join(facts.looks))}. This opens no gate.",
        "",
    ]
    groups = look_groups(facts.looks)
    for look in groups[:_MOST_GROUPS]:
        lines += [f"- {plain(look.check)}: {plain(look.cause)} on {plain(look.about)}", f"  - {plain(look.found)}"]
        lines += [f"  - do: {plain(look.hint)}"] if look.hint else []
    lines += [f"- and {len(groups) - _MOST_GROUPS} more in the report"] if len(groups) > _MOST_GROUPS else []
    return [*lines, *([] if groups else ["Nothing is wrong there, as far as it can be read without a test."]), ""]


def _arithmetic(entry: ReportEntry) -> list[str]:
    return [
        f"  - expected {plain(text)} ({plain(basis)}{f': {plain(how)}' if how else ''})"
        for text, basis, how in entry.expected[:3]
    ]


def _decided(facts: RunFacts) -> list[str]:
    aside = [
        f"- quarantined {plain(q.node)}: {plain(q.reason)} ({plain(q.ticket)}, {plain(q.who)})"
        for q in quarantine_lines(facts)
    ]
    decided = [
        f"- {d.kind} of {plain(d.check)} on {plain(d.subject)} by {plain(d.who)} until {plain(d.until)}: "
        f"{plain(d.reason)}; {plain(d.effect)}"
        for d in decision_lines(facts)
    ]
    lines = [*aside, *decided]
    return ["### Decisions of people", "", *lines[:100], ""] if lines else []


def _not_declared(facts: RunFacts) -> list[str]:
    entries = left_out(facts)
    if not entries:
        return []
    lines = [f"- {plain(entry.gate)}: {plain(', '.join(entry.checks))}: {plain(entry.reason)}" for entry in entries]
    return ["### Not declared here", "", *lines, ""]


def _origin(facts: RunFacts) -> str:
    record = facts.record
    made = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    return plain(f"Run {record.run_id}, started {record.started}, {record.nodes} nodes{', ' if made else ''}{made}.")
