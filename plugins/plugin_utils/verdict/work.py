# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run did whose verb has no gates: a roll, cycles of tests, a burn-in. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRow:
    """One line of the table: a node of a roll, a cycle, a host under load. `good` rows are left out first."""

    cells: tuple[str, ...]
    good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the verb did so far.

    `verb` names it for people (`roll driver-580`); `head` and `rows` are its table; `sentence` says how it ended, and
    is empty before. `passed` is the verdict, `failed` tells whether the run ends with exit code 8: work that was given
    back to users is neither. `page` is the file of the run to read first where that is not the report. `again` is the
    variable to set when it is started again, empty where none is needed, and None where starting it again is no way on;
    `next` says what to do. `counts` are what it worked on by how that ended, for the metrics.
    """

    verb: str
    head: tuple[str, ...] = ()
    rows: tuple[WorkRow, ...] = ()
    sentence: str = ""
    passed: bool = False
    failed: bool = True
    page: str = ""
    again: str | None = ""
    next: str = ""
    counts: dict[str, int] = field(default_factory=dict)


def work_summary(work: Work, *, rehearsal: bool, check_mode: bool) -> str:
    """Return the verdict in one sentence."""
    if check_mode:
        planned = f"; {work.sentence}" if work.sentence else ""
        return f"CHECK MODE: {work.verb}: nothing was changed and no test was run{planned}"
    word = "" if work.passed else "not passed: " if work.failed else "in part: "
    text = f"{'REHEARSAL ' if rehearsal else ''}{work.verb}: {word}{work.sentence or 'it did not come to its end'}"
    return f"{text}; a rehearsal is never an acceptance" if rehearsal and work.passed else text


def shown_rows(work: Work, most: int) -> tuple[tuple[WorkRow, ...], int]:
    """Return the rows that are shown, in their order, and how many are not: the good ones are left out first."""
    if len(work.rows) <= most:
        return work.rows, 0
    bad = sum(not row.good for row in work.rows)
    room = {False: most, True: max(0, most - bad)}
    shown: list[WorkRow] = []
    for row in work.rows:
        if room[row.good] > 0:
            room[row.good] -= 1
            shown.append(row)
    return tuple(shown), len(work.rows) - len(shown)
