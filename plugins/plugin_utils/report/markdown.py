# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The summary of a run in Markdown, short enough for a pull request or a chat. Pure."""

from __future__ import annotations

import re

from ..runtime.clock import elapsed_text
from ..runtime.redaction import redact
from ..runtime.visible import visible
from ..verdict.gate import Blocking
from ..verdict.restart import not_looked_at, restart
from ..verdict.run import RunRecord, all_passed, run_summary
from ..verdict.work import Work, shown_rows
from .cases import EntryGroup, ReportEntry, case_groups
from .decisions import decision_lines, quarantine_lines
from .facts import RunFacts
from .gates import GateLine, gate_lines
from .looks import Looks, behind_lines, look_groups
from .scope import left_out
from .words import compressed

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
    # Neither a mention of a person nor a link to a place that nobody meant.
    return shown.replace("@", "@<!-- -->").replace("://", ":<!-- -->//")


def render_markdown(facts: RunFacts) -> str:
    """Return the summary."""
    record = facts.record
    word = "passed" if all_passed(record) and not record.problem else "not passed"
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
        *_held(case_groups(facts)),
        *_looks(facts),
        *_notes(facts),
        *_decided(facts),
    ]
    lines += [*_not_declared(facts), _origin(facts)]
    return visible("\n".join(lines).rstrip() + "\n")


def kind_of_run(record: RunRecord) -> str:
    """Return what the run is for people."""
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
    """Return the phases of a run that validates, and what holds each."""
    lines = ["| phase | status | what is told |", "| --- | --- | --- |"]
    lines += [f"| {v.gate} | {v.status.value} | {plain(redact(v.message))} |" for v in record.phases]
    held = [entry for verdict in record.phases for entry in verdict.blocking]
    lines += [
        "",
        *(f"- {e.status.value} {e.check} on {plain(e.shown)}: {plain(_told(e))}" for e in held[:_MOST_GROUPS]),
    ]
    more = len(held) - _MOST_GROUPS
    return [*lines, *([f"- and {more} more, in ctrf/"] if more > 0 else []), ""]


def _told(entry: Blocking) -> str:
    return redact(f"{entry.cause}: {entry.summary}. {entry.hint}".strip())


def _next(record: RunRecord, looks: Looks) -> list[str]:
    """Return what nobody looked at and how to start again, nothing for a run that is passed."""
    again = restart(record)
    behind = behind_lines(not_looked_at(record), looks)
    lines = [text for line in behind for text in (plain(f"{line[0].upper()}{line[1:]}"), "")]
    return [*lines, *(["Start again:", "", f"    {again}", ""] if again else [])]


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
    return [f"**Judged again: {found} recorded result(s) cannot be confirmed.**", "", *lines, ""]


def _gates(gates: tuple[GateLine, ...]) -> list[str]:
    rows = ["| # | gate | status | took | result |", "| ---: | --- | --- | ---: | --- |"]
    for gate in gates:
        took = elapsed_text(gate.duration_s) if gate.ran else "-"
        word = f"**{gate.status.value}**" if gate.status.value in ("failed", "other") else gate.status.value
        said = "; ".join(text for text in (gate.key_figure, gate.message) if text)
        rows.append(f"| {gate.number} | {plain(gate.id)} | {word} | {took} | {plain(said, 160)} |")
    return [*rows, ""]


def _resumed(facts: RunFacts) -> list[str]:
    lines = [f"- {plain(redact(line))}" for line in facts.record.resumed]
    return [f"Started at gate {plain(facts.record.from_gate)}:", "", *lines, ""] if lines else []


def _held(groups: tuple[EntryGroup, ...]) -> list[str]:
    held = [group for group in groups if any(not case.decision for case in (*group.whole, *group.short))]
    if not held:
        return []
    lines = ["### Failed and held", ""]
    for group in held[:_MOST_GROUPS]:
        cases = [case for case in (*group.whole, *group.short) if not case.decision]
        first = cases[0]
        names = compressed((case.subject for case in cases), 8) + (f" and {group.more} more" if group.more else "")
        lines.append(f"- **{group.status}** {plain(group.check)}: {plain(group.cause)} on {plain(names)}")
        lines.append(f"  - {plain(first.summary)}")
        lines += _arithmetic(first)
        lines += [f"  - do: {plain(first.hint)}"] if first.hint else []
    if len(held) > _MOST_GROUPS:
        lines.append(f"- and {len(held) - _MOST_GROUPS} more causes in the report")
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
