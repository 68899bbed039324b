# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Importing the results of another tool: they are kept as claims, and decide nothing unless a person says so."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..outcome.errors import InputError, UnavailableError
from ..outcome.model import Status
from .records import Cycle, NodeResult
from .service import ServiceStore

# Reading the results that another tool kept in a SQLite table of node, test, time and result.

# Column names, without case, spaces and signs. The first names are those of the continuous validation framework whose
# table is `Node | Test Name | Timestamp | Result`.
_COLUMNS = {
    "node": ("node", "nodename", "nodeid", "host", "hostname"),
    "test": ("testname", "test", "testtype"),
    "time": ("timestamp", "time", "ts", "epoch", "tested", "lasttested"),
    "result": ("result", "status", "outcome", "verdict"),
}
_WORDS = {
    Status.PASSED: ("pass", "passed", "success", "succeeded", "ok", "good"),
    Status.FAILED: ("fail", "failed", "failure", "bad"),
}
# Seconds since the epoch have ten digits until 2286; thirteen are milliseconds.
_MILLISECONDS_FROM = 1e11


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedResult:
    """One row: what the other tool reports about a node, in its own words, and the status in ours."""

    node: str
    test: str
    at_s: float
    word: str
    status: Status


@dataclass(frozen=True, slots=True)
class Claims:
    """All rows of a file, oldest first, and the digest of the file that they were read from."""

    rows: tuple[ClaimedResult, ...]
    digest: str


def read_claims(path: Path, now_s: float) -> Claims:
    """Read the table of a file, without changing the file.

    Raises:
        InputError: no table fits, or more than one; several columns fit one role; a row cannot be read.
        UnavailableError: the file cannot be read.
    """
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            table, columns = _table(path, connection)
            names = ", ".join(_quoted(columns[role]) for role in _COLUMNS)
            found = connection.execute(f"SELECT {names} FROM {_quoted(table)}").fetchall()
    except OSError as error:
        raise UnavailableError(str(path), f"cannot be read: {error.strerror}.", "give the path of the file") from None
    except sqlite3.Error as error:
        hint = "copy it first, with: sqlite3 validation.db '.backup copy.db'"
        raise UnavailableError(str(path), f"is no SQLite database that can be read: {error}.", hint) from None
    rows = [_claim(path, number, row, now_s) for number, row in enumerate(found, 1)]
    return Claims(tuple(sorted(rows, key=lambda row: (row.at_s, row.node, row.test))), digest)


def _table(path: Path, connection: sqlite3.Connection) -> tuple[str, dict[str, str]]:
    """Return the table that has one column for each role, and these columns."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    tables = [name for (name,) in connection.execute(query)]
    fitting: dict[str, dict[str, list[str]]] = {}
    for table in tables:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({_quoted(table)})")]
        roles = {role: [name for name in names if _plain(name) in known] for role, known in _COLUMNS.items()}
        if all(roles.values()):
            fitting[table] = roles
    hint = "give a file with one table of node, test name, timestamp and result"
    if len(fitting) != 1:
        reported = f"{len(fitting)} tables have them ({', '.join(fitting)})" if fitting else "no table has them"
        wanted = "expected one table with columns for node, test, time and result"
        reason = f"{wanted}: {reported}; tables: {', '.join(tables) or 'none'}."
        raise InputError(str(path), reason, hint)
    table, roles = next(iter(fitting.items()))
    twice = [f"{role} ({' or '.join(names)})" for role, names in roles.items() if len(names) > 1]
    if twice:
        raise InputError(str(path), f"table {table} has more than one column for {', '.join(twice)}.", hint)
    return table, {role: names[0] for role, names in roles.items()}


def _claim(path: Path, number: int, row: Sequence[Any], now_s: float) -> ClaimedResult:
    node, test, time, result = ("" if value is None else str(value).strip() for value in row)
    where = f"{path}, row {number}"
    if not node or not test or not result:
        raise InputError(where, f"lacks a node, a test or a result: found {row!r}.", "correct or delete the row")
    at_s = _seconds(time)
    if at_s is None:
        hint = "expected seconds since the epoch, or a time as 2026-01-08T19:16:40Z"
        raise InputError(where, f"has a time that cannot be read: {time!r}.", hint)
    if at_s > now_s:
        raise InputError(where, f"is of the future: {time}.", "see the clock of the machine that wrote it")
    status = next((status for status, words in _WORDS.items() if result.lower() in words), Status.OTHER)
    return ClaimedResult(node=node, test=test, at_s=at_s, word=result, status=status)


def _seconds(text: str) -> float | None:
    if re.fullmatch(r"\d{9,13}(\.\d+)?", text):
        number = float(text)
        return number / 1000 if number >= _MILLISECONDS_FROM else number
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    # SQLite's own times (CURRENT_TIMESTAMP) are UTC and have no zone.
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Importing the results of another tool: they are kept as claims, and decide nothing unless a person says so.

PREFIX = "imported/"
_CYCLE = "import-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """How another tool's results are imported.

    `tests` maps their test names to ours: only then do their results count for our test. Any other test keeps its name
    after `imported/`, which no test of ours has. `nodes` maps their node names to names of the inventory.
    """

    site: str
    rehearsal: bool
    source: str
    tests: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)


def import_claims(store: ServiceStore, claims: Claims, plan: ImportPlan, now: str, *, write: bool) -> int:
    """Write what is not there yet, and return the number of new results; imported again, nothing changes.

    Raises:
        BringupError: the history cannot be read or written.
    """
    known = _known(store, plan)
    rounds: list[list[NodeResult]] = []
    count: dict[tuple[str, str], int] = {}
    for row in claims.rows:
        node, test = plan.nodes.get(row.node, row.node), plan.tests.get(row.test, f"{PREFIX}{row.test}")
        if (node, test, row.at_s) in known or (node, test, _day(row.at_s)) in known:
            continue
        known.add((node, test, row.at_s))
        # A cycle has one result of a node and test: the n-th of one goes into the n-th cycle.
        number = count[node, test] = count.get((node, test), -1) + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(_result(row, node, test, f"{_CYCLE}{claims.digest[:16]}-{number}", plan))
    if not write:
        return sum(map(len, rounds))
    written = 0
    for results in rounds:
        started = datetime.fromtimestamp(min(result.started_s for result in results), UTC)
        cycle = Cycle(
            cycle_id=results[0].cycle_id, site=plan.site, rehearsal=plan.rehearsal, controller="imported",
            started=started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )  # fmt: skip
        store.begin_cycle(cycle)
        written += store.add_results(cycle.cycle_id, results)
        store.end_cycle(cycle.cycle_id, now, f"imported from {plan.source} (SHA-256 {claims.digest})")
    return written


def _known(store: ServiceStore, plan: ImportPlan) -> set[tuple[str, str, float | str]]:
    """Return what was imported before, also what retention rolled up into days."""
    found: set[tuple[str, str, float | str]] = set()
    for result in store.results(plan.site, rehearsal=plan.rehearsal, since_s=0):
        if result.cycle_id.startswith(_CYCLE):
            found.add((result.node, result.test, result.started_s))
    for row in store.days(plan.site, rehearsal=plan.rehearsal):
        found.add((row.node, row.test, row.day))
    return found


def _result(row: ClaimedResult, node: str, test: str, cycle_id: str, plan: ImportPlan) -> NodeResult:
    return NodeResult(
        cycle_id=cycle_id, node=node, test=test, started_s=row.at_s, duration_s=0.0, status=row.status,
        cohort="imported", cause="" if row.status.value == "passed" else "imported-claim",
        summary=f"imported from {plan.source}: {row.test} of node {row.node}: {row.word}",
    )  # fmt: skip


def _day(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()
