# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes against checks: one letter for each result, equal rows merged where the fleet is large. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..outcome.gates import GATES
from ..outcome.model import Outcome, Rating, Status, Subject, SubjectKind
from ..verdict.gate import AppliedDecision, GateVerdict
from ..verdict.run import RunRecord
from .facts import RunFacts
from .words import compressed

# By gate, check and subjects.
Decisions = dict[tuple[str, str, tuple[Subject, ...]], str]
# A table of more rows is not read; above it, nodes with the same letters share a row.
MOST_ROWS = 64
# What fits on the width of A4 beside the name of a node.
MOST_COLUMNS = 36
# Runs of names in a row: `gpu001 to gpu400` is one.
_MOST_RUNS = 60
Columns = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A letter, the word that it stands for, and its weight when several results meet in one cell."""

    letter: str
    word: str
    weight: int

    @property
    def calm(self) -> bool:
        """Whether no one needs to look."""
        return self.weight <= 1


PASSED = Mark("\u00b7", "passed", 1)
TAKEN_OVER = Mark("T", "passed in an earlier run and taken over", 1)
WAIVED = Mark("W", "waived", 3)
ACCEPTED = Mark("A", "accepted as marginal", 2)
MARGINAL = Mark("M", "marginal, to be accepted", 5)
SKIPPED = Mark("S", "skipped", 4)
PENDING = Mark("P", "pending", 4)
BLOCKED = Mark("B", "not known because of what another check reports", 6)
UNKNOWN = Mark("?", "tried and not known", 7)
FAILED = Mark("F", "failed", 8)
ASIDE = Mark("Q", "quarantined", 0)
ABSENT = Mark("", "not asked", 0)
MARKS = (PASSED, FAILED, UNKNOWN, BLOCKED, MARGINAL, SKIPPED, PENDING, WAIVED, ACCEPTED, TAKEN_OVER, ASIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Nodes with the same letters."""

    label: str
    nodes: int
    marks: tuple[Mark, ...]

    @property
    def weight(self) -> tuple[int, int]:
        """How urgently it needs a look: the heaviest letter, then how many are not calm."""
        return max((m.weight for m in self.marks), default=0), sum(not m.calm for m in self.marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of the table that fits on the width of a page: checks by gate, and in `note` what is left out."""

    columns: Columns
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The table, in blocks of columns. `note` says which rows are merged."""

    blocks: tuple[Block, ...]
    legend: tuple[Mark, ...]
    note: str = ""


def mark_of(outcome: Outcome, decided: Decisions) -> Mark:
    """Return the letter of an outcome; `decided` is what decisions_of returns."""
    if outcome.status is Status.PASSED:
        return PASSED
    word = decided.get((outcome.gate, outcome.check, outcome.subjects))
    if word:
        return ACCEPTED if word == "accepted" else WAIVED
    if outcome.status is Status.SKIPPED and (outcome.gate, "", ()) in decided:
        return TAKEN_OVER
    if outcome.status is Status.OTHER:
        if outcome.rating is Rating.MARGINAL:
            return MARGINAL
        return BLOCKED if outcome.blocked_by else UNKNOWN
    return {Status.FAILED: FAILED, Status.SKIPPED: SKIPPED}.get(outcome.status, PENDING)


def decisions_of(record: RunRecord) -> Decisions:
    """Return gate, check and subjects of every outcome that a person decided about: `waived` or `accepted`.

    A gate without check and subjects was `taken over` as a whole.
    """
    found: Decisions = {}
    for verdict in record.gates:
        found |= {(verdict.gate, "", ()): "taken over"} if verdict.taken_over is not None else {}
        for word, entries in _decided(verdict):
            found |= {(verdict.gate, entry.check, entry.subjects): word for entry in entries}
    return found


def _decided(verdict: GateVerdict) -> Iterable[tuple[str, tuple[AppliedDecision, ...]]]:
    return ("waived", verdict.waived), ("accepted", verdict.accepted)


def matrix(facts: RunFacts) -> Matrix:
    """Return the matrix of all observed gates, empty if none has a result about a node."""
    marks = _marks(facts)
    columns = [(gate.id, tuple(dict.fromkeys(c for g, c in marks if g == gate.id))) for gate in GATES]
    aside = facts.site.quarantined if facts.site else frozenset()
    names = _nodes(facts, marks)
    blocks = []
    for part in _parts(columns):
        keys = [(gate, check) for gate, checks in part for check in checks]
        rows = [_row(name, keys, marks, quarantined=name in aside) for name in names]
        drawn, note = (rows, "") if len(rows) <= MOST_ROWS else _grouped(rows)
        blocks.append(Block(columns=part, rows=tuple(drawn), note=note))
    used = {mark for block in blocks for row in block.rows for mark in row.marks}
    many = f"{len(names)} nodes; those with the same letters share a row, the worst come first."
    return Matrix(
        blocks=tuple(blocks),
        legend=tuple(mark for mark in MARKS if mark in used),
        note=many if blocks and len(names) > MOST_ROWS else "",
    )


def _parts(columns: Iterable[tuple[str, tuple[str, ...]]]) -> list[Columns]:
    """Return the columns in parts that fit on a page: a larger gate is cut evenly, neighbours that fit are joined."""
    parts: list[Columns] = []
    for gate, checks in columns:
        pieces = -(-len(checks) // MOST_COLUMNS)
        for piece in range(pieces):
            begin, end = piece * len(checks) // pieces, (piece + 1) * len(checks) // pieces
            mine: Columns = ((gate, checks[begin:end]),)
            joined = (*parts[-1], *mine) if parts and piece == 0 else ()
            if joined and sum(len(names) for _gate, names in joined) <= MOST_COLUMNS:
                parts[-1] = joined
            else:
                parts.append(mine)
    return parts


def _marks(facts: RunFacts) -> dict[tuple[str, str], dict[str, Mark]]:
    decided = decisions_of(facts.record)
    found: dict[tuple[str, str], dict[str, Mark]] = {}
    for outcomes in facts.outcomes.values():
        for outcome in outcomes:
            nodes = {s.node or (s.name if s.kind is SubjectKind.NODE else "") for s in outcome.subjects} - {""}
            if not nodes:
                continue
            mark = mark_of(outcome, decided)
            answers = found.setdefault((outcome.gate, outcome.check), {})
            for node in nodes:
                before = answers.get(node)
                if before is None or before.weight < mark.weight:
                    answers[node] = mark
    return found


def _nodes(facts: RunFacts, marks: Mapping[tuple[str, str], Mapping[str, Mark]]) -> list[str]:
    listed = [host.name for host in facts.site.hosts] if facts.site else []
    observed = {node for answers in marks.values() for node in answers}
    return [*listed, *sorted(observed - set(listed))]


def _row(
    name: str, keys: list[tuple[str, str]], marks: Mapping[tuple[str, str], Mapping[str, Mark]], *, quarantined: bool
) -> Row:
    found = tuple(ASIDE if quarantined else marks[key].get(name, ABSENT) for key in keys)
    return Row(label=name, nodes=1, marks=found)


def _grouped(rows: list[Row]) -> tuple[list[Row], str]:
    alike: dict[tuple[Mark, ...], list[str]] = {}
    for row in rows:
        alike.setdefault(row.marks, []).append(row.label)
    groups = [Row(label=compressed(names, _MOST_RUNS), nodes=len(names), marks=key) for key, names in alike.items()]
    groups.sort(key=lambda row: row.weight, reverse=True)
    if len(groups) > MOST_ROWS:
        # The calm rows stay visible: the largest group is the last row.
        largest = max(groups, key=lambda row: row.nodes)
        kept = [row for row in groups if row is not largest][: MOST_ROWS - 1]
        left = sum(row.nodes for row in groups) - sum(row.nodes for row in kept) - largest.nodes
        note = f"{left} nodes in {len(groups) - MOST_ROWS} more rows are not drawn; they are in the CTRF files."
        return [*kept, largest], note
    return groups, ""
