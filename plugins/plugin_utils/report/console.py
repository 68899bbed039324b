# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The last lines of a run on a terminal: the table of its gates, its phases or its work, and the verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..outcome.gates import GATES, gate_spec
from ..outcome.model import Status
from ..outcome.wording import first_of
from ..runtime.clock import elapsed_text
from ..runtime.redaction import redact
from ..verdict.gate import Blocking, GateVerdict
from ..verdict.restart import not_looked_at, restart
from ..verdict.run import RunRecord, Work, run_summary, running_since, shown_rows
from .facts import Looks, behind_lines, look_lines, read_looks

_HEAD = ("#", "gate", "status", "checks", "duration", "key figure")
_PHASES_HEAD = ("phase", "status", "checks", "duration", "result")
# Nodes of a roll on a screen; the report has all of them.
_MOST_ROWS = 40
_REHEARSED = "rehearsal: "
# A figure for which the release has no value (run/own_limits.py writes it).
_OWN_FIGURE = re.compile(r"hardware ([^. ]+)\..* \(release: none\)")
_MOST_NAMES = 3


def gates_table(record: RunRecord) -> list[str]:
    """Return the table as lines: number, gate, status, checks, duration, key figure."""
    return table(_HEAD, [(str(gate.number), *_row(record.gate(gate.id))) for gate in GATES])


def phases_table(record: RunRecord) -> list[str]:
    """Return the requested phases as lines: phase, status, checks, duration, result."""
    return table(_PHASES_HEAD, [(*_row(verdict)[:-1], verdict.message or "-") for verdict in record.phases])


def work_table(work: Work) -> list[str]:
    """Return what a verb without gates did, as lines; empty before it did anything."""
    rows, more = shown_rows(work, _MOST_ROWS)
    lines = table(work.head, [row.cells for row in rows]) if rows else []
    return [*lines, *([f"and {more} more in the report"] if more else [])]


def table(head: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table: head, rule, rows."""
    rows = [head, *body]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [lines[0], "-" * min(100, max(map(len, lines))), *lines[1:]]


def _row(verdict: GateVerdict) -> tuple[str, ...]:
    ran = verdict.status is not Status.PENDING
    key_figure = verdict.key_figure if verdict.opens_next else verdict.message
    duration = elapsed_text(verdict.duration_s) if ran else "-"
    return (
        verdict.gate,
        verdict.status.value,
        str(verdict.checks) if ran else "-",
        duration,
        key_figure or "-",
    )


def closing_lines(record: RunRecord, run_dir: Path, *, at_work: bool = False) -> list[str]:
    """Return the whole closing text: table, what blocks each gate or phase, verdict, paths, and how to go on.

    A validation has the requested phases in it, and no gate. Of a run `at_work` what it decided so far is no verdict,
    and to start it again would be a second one: it says since when it runs.
    """
    banner = ["REHEARSAL: the hardware is simulated; this can never be an acceptance", ""] if record.rehearsal else []
    if record.check_mode:
        banner = ["CHECK MODE: nothing was changed, no test was run and no gate was decided", "", *banner]
    decided = record.gates if record.work is None and not record.validates else record.phases
    if record.work is not None:
        decided = _of_cycles(decided)
    stuck = [line for verdict in decided for line in _reasons(verdict)]
    page = record.work.page if record.work is not None else ""
    paths = ["", f"report   {run_dir / (page or 'report.html')}", f"summary  {run_dir / 'report.md'}"]
    # A refused run has no observations; its problem is the only thing to read.
    looked = any(verdict.status is not Status.PENDING for verdict in (*record.gates, *record.phases))
    refused = record.problem and not looked and not (record.work is not None and record.work.rows)
    decided_lines = [*lines, ""] if (lines := [] if refused else decided_table(record)) else []
    if record.check_mode:
        again = _next(record, read_looks(run_dir, [])) if record.problem else []
        return [*banner, *decided_lines, f"verdict  {run_summary(record)}", *paths, *again]
    paths += [f"results  {run_dir / 'ctrf'}/  {run_dir / 'junit'}/", f"metrics  {run_dir / 'metrics.prom'}"]
    looks = read_looks(run_dir, [])
    limits = [] if refused else _limits(record.own_limits, run_dir)[:20]
    reported = [f"limit    {line}" for line in limits]
    reported += [f"note     {line}" for line in _notes(record, run_dir)]
    reported += [f"resumed  {line}" for line in record.resumed]
    return [
        *banner,
        *decided_lines,
        *reported,
        *stuck,
        *look_lines(looks),
        *([] if at_work else [f"verdict  {run_summary(record)}"]),
        *paths,
        *(["", f"running: {running_since(record)}"] if at_work else _next(record, looks)),
    ]


def decided_table(record: RunRecord) -> list[str]:
    """Return the table of the run: phases, gates, or the items of its verb."""
    if record.work is not None:
        return work_table(record.work)
    return phases_table(record) if record.validates else gates_table(record)


def _limits(own: Sequence[str], run_dir: Path) -> list[str]:
    """Return the limits that differ from the release's; figures of a SKU that the release does not have are one
    line."""
    of_sku = [match[1] if (match := _OWN_FIGURE.fullmatch(line)) else "" for line in own]
    counts, lines = Counter(of_sku), dict[str, None]()
    for line, sku in zip(own, of_sku, strict=True):
        shown = line
        if sku and counts[sku] > 1:
            shown = f"{counts[sku]} figures of SKU {sku} are the site's own; {run_dir / 'report.json'} lists them"
        lines[shown] = None
    return list(lines)


def _notes(record: RunRecord, run_dir: Path) -> list[str]:
    """Return the notes of a run; what a rehearsal replaces was listed at its start, and is one line here."""
    notes = [redact(note) for note in record.notes]
    replaced = [note for note in notes if note.startswith(_REHEARSED)]
    others = [note for note in notes if note not in replaced]
    if len(replaced) < 2:
        return [*replaced, *others]
    line = f"{_REHEARSED}{len(replaced)} things are simulated or replaced; {run_dir / 'report.md'} lists them"
    return [line, *others]


def _next(record: RunRecord, looks: Looks) -> list[str]:
    again = restart(record)
    unseen = not_looked_at(record)
    lines = behind_lines(unseen, looks)
    if not looks and not record.problem and any(gate_spec(gate).reads_on_failure for gate in unseen):
        lines.append("         do: -e gpufleet_look_on=true reads on without tests, so that one visit mends all of it")
    lines += [f"do: {record.work.next}"] if record.work is not None and record.work.next else []
    lines += [f"again: {again}"] if again else []
    return ["", *lines] if lines else []


def _alike(blocking: Iterable[Blocking]) -> list[list[Blocking]]:
    found: dict[tuple[str, ...], list[Blocking]] = {}
    for entry in blocking:
        found.setdefault((entry.status.value, entry.cause, entry.summary, entry.hint), []).append(entry)
    return list(found.values())


def _reported(entries: list[Blocking]) -> list[str]:
    first = entries[0]
    checks = first_of(list(dict.fromkeys(entry.check for entry in entries)), _MOST_NAMES)
    shown = first_of(list(dict.fromkeys(entry.shown for entry in entries)), _MOST_NAMES)
    lines = [f"{first.status.value:8} {checks} on {shown}: {first.cause}", f"         {first.summary}"]
    return [*lines, f"         do: {first.hint}"] if first.hint else lines


def _of_cycles(phases: tuple[GateVerdict, ...]) -> tuple[GateVerdict, ...]:
    """Return the cycles of a run as one: a finding of several cycles on a node is shown once, from the newest."""
    newest = {(e.check, e.shown, e.cause): e for verdict in phases for e in verdict.blocking}
    return tuple(replace(phases[-1], blocking=tuple(newest.values())) for _one in phases[-1:])


def _reasons(verdict: GateVerdict, limit: int = 20) -> list[str]:
    groups = _alike(verdict.blocking)
    lines = [line for entries in groups[:limit] for line in _reported(entries)]
    if len(groups) > limit:
        lines.append(f"         and {sum(map(len, groups[limit:]))} more in the report")
    lines.extend(
        f"waived   {d.check} on {d.subject}: {d.cause}, by {d.who} until {d.until}: {d.reason}" for d in verdict.waived
    )
    lines.extend(
        f"accepted {d.check} on {d.subject}: {d.cause}, by {d.who} until {d.until}: {d.reason}"
        for d in verdict.accepted
    )
    lines.extend(f"expired  {d.check} on {d.subject}: decision of {d.who} ended {d.until}" for d in verdict.expired)
    return [*lines, ""] if lines else []
