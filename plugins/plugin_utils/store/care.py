# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A copy of a history while it is written, and whether it is complete and consistent."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..outcome.errors import InputError, UnavailableError
from ..outcome.model import Status
from ..runtime.files import PRIVATE_FILE, file_to_write, make_dirs, writing
from .database import Place, StoreUrl, insert_into, our_errors
from .service import ServiceStore
from .tables import tables

# Retention: older results become figures of a day; the newest of each kind stays as it was written.

_AT_A_TIME = 2000
# The class that need not be kept once it is old.
_HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Thinned:
    """How many results became figures of a day, and how many classes of healthy nodes were deleted."""

    results: int
    classes: int


def thin(store: ServiceStore, site: str, *, rehearsal: bool, before_s: float, write: bool) -> Thinned:
    """Roll up the results that began before that time, except the last try, pass and failure of each node and test.

    Each part of the work is one transaction. Killed at any moment, a result is either in the figures of its day or
    still there, never both. Classes that are not `healthy`, cordons, acceptances, parts and everything of gates are
    kept.

    Raises:
        BringupError: the history cannot be read or written.
    """
    results = 0
    if not write:
        with our_errors(store.path), store.engine.begin() as connection:
            from sqlalchemy import func, select

            old = _old(site, rehearsal, before_s).subquery()
            results = int(connection.execute(select(func.count()).select_from(old)).scalar() or 0)
            return Thinned(results, _classes(connection, site, rehearsal, before_s, write=False))
    while True:
        with our_errors(store.path), store.engine.begin() as connection:
            rows = connection.execute(_old(site, rehearsal, before_s).limit(_AT_A_TIME)).mappings().all()
            if not rows:
                return Thinned(results, _classes(connection, site, rehearsal, before_s, write=True))
            whose = {"site": site, "rehearsal": rehearsal}
            _add_days(connection, [whose | row for row in _counts(rows)])
            _add_figures(connection, [whose | row for row in _figures(rows)])
            table = tables().service.node_result
            connection.execute(table.delete().where(table.c.id.in_([row["id"] for row in rows])))
            results += len(rows)


def _old(site: str, rehearsal: bool, before_s: float) -> Any:
    from sqlalchemy import select

    cycle, table, last = tables().service.cycle, tables().service.node_result, tables().service.node_last
    query = select(table).join(cycle, cycle.c.cycle_id == table.c.cycle_id)
    query = query.where(cycle.c.site == site, cycle.c.rehearsal.is_(rehearsal), table.c.started_s < before_s)
    # By the key of `node_last`: site, rehearsal, kind, node, test.
    keeps = select(last.c.result_id).where(
        last.c.site == site, last.c.rehearsal.is_(rehearsal), last.c.kind.in_(("tried", "passed", "failed")),
        last.c.node == table.c.node, last.c.test == table.c.test, last.c.result_id == table.c.id,
    )  # fmt: skip
    return query.where(~keeps.exists()).order_by(table.c.started_s, table.c.id)


def _counts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[tuple[str, ...], int] = {}
    for row in rows:
        key = (_day(row["started_s"]), row["node"], row["test"], row["status"])
        found[key] = found.get(key, 0) + 1
    names = ("day", "node", "test", "status")
    return [{**dict(zip(names, key, strict=True)), "results": number} for key, number in found.items()]


def _figures(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures of passes: those of a failure say nothing about the speed of a node."""
    found: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        if row["status"] == Status.PASSED.value:
            for name, number, unit, part in json.loads(row["figures"]):
                key = (_day(row["started_s"]), row["node"], row["test"], row["cohort"], part, name, unit)
                found.setdefault(key, []).append(number)
    names = ("day", "node", "test", "cohort", "part", "name", "unit")
    return [
        {
            **dict(zip(names, key, strict=True)),
            "results": len(numbers), "lowest": min(numbers), "highest": max(numbers), "total": sum(numbers),
        }
        for key, numbers in found.items()
    ]  # fmt: skip


def _add_days(connection: Any, rows: list[dict[str, Any]]) -> None:
    table = tables().service.node_day
    insert = insert_into(connection, table)
    more = {"results": table.c.results + insert.excluded.results}
    connection.execute(insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=more), rows)


def _add_figures(connection: Any, rows: list[dict[str, Any]]) -> None:
    from sqlalchemy import case

    if not rows:
        return
    table = tables().service.node_day_figure
    insert = insert_into(connection, table)
    new = insert.excluded
    more = {
        "results": table.c.results + new.results,
        "total": table.c.total + new.total,
        "lowest": case((new.lowest < table.c.lowest, new.lowest), else_=table.c.lowest),
        "highest": case((new.highest > table.c.highest, new.highest), else_=table.c.highest),
    }
    connection.execute(insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=more), rows)


def _classes(connection: Any, site: str, rehearsal: bool, before_s: float, *, write: bool) -> int:
    from sqlalchemy import func, select

    cycle, table = tables().service.cycle, tables().service.node_class
    before = datetime.fromtimestamp(before_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    old = select(cycle.c.cycle_id).where(
        cycle.c.site == site, cycle.c.rehearsal.is_(rehearsal), cycle.c.started < before
    )  # fmt: skip
    which = (table.c.word == _HEALTHY, table.c.cycle_id.in_(old))
    number = int(connection.execute(select(func.count()).select_from(table).where(*which)).scalar() or 0)
    if write and number:
        connection.execute(table.delete().where(*which))
    return number


def _day(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()


_SHOWN = 5


def back_up(place: Place, dest: Path) -> int:
    """Copy a history file as of one moment, verify the copy, and return its size in bytes.

    A file at `dest` is replaced only when the new copy is whole.

    Raises:
        InputError: the history is in a server, whose own tool makes its backups, or is itself the destination.
        BringupError: it cannot be read, the copy is not whole, or it cannot be written.
    """
    if isinstance(place, StoreUrl):
        hint = f"pg_dump --format=custom --file='{dest}' '{place}'"
        raise InputError(str(place), "is in a PostgreSQL server, whose own tool makes its backups.", hint)
    if dest.exists() and place.samefile(dest):
        raise InputError(str(dest), "is the history itself.", "name another file")
    meant = file_to_write(dest)
    part = meant.with_name(f".{meant.name}.part")
    with writing(dest):
        make_dirs(meant.parent)
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
        try:
            with our_errors(place), closing(sqlite3.connect(place)) as source, closing(sqlite3.connect(part)) as copy:
                source.backup(copy)
                # One file, that can be moved and read anywhere.
                copy.execute("PRAGMA journal_mode = DELETE")
                reported = [row[0] for row in copy.execute("PRAGMA integrity_check(5)")]
            if reported != ["ok"]:
                raise UnavailableError(str(place), f"cannot be copied whole: {'; '.join(reported)}.", "see `checked`")
            with part.open("rb") as handle:
                os.fsync(handle.fileno())
            part.replace(meant)
        finally:
            part.unlink(missing_ok=True)
    return dest.stat().st_size


def problems_of(store: ServiceStore) -> tuple[str, ...]:
    """Return what is wrong with a history, empty if it is consistent.

    Raises:
        BringupError: it cannot be read at all.
    """
    found: list[str] = []
    with our_errors(store.path), store.engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            reported = [row[0] for row in connection.exec_driver_sql(f"PRAGMA integrity_check({_SHOWN})")]
            found += [text for text in reported if text != "ok"]
            lost = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_SHOWN)
            found += [f"table {row[0]}, row {row[1]}: refers to a row of {row[2]} that is not there" for row in lost]
        found += _wrong_pointers(connection)
        found += _unseen_results(connection)
    return tuple(found)


def _wrong_pointers(connection: Any) -> list[str]:
    """Return entries of `node_last` that point at another node's or test's result, which would make a node look
    fresh."""
    from sqlalchemy import or_, select

    last, table = tables().service.node_last, tables().service.node_result
    query = select(last.c.node, last.c.test, last.c.kind).join(table, table.c.id == last.c.result_id)
    wrong = or_(
        table.c.node != last.c.node,
        table.c.test != last.c.test,
        table.c.started_s != last.c.started_s,
        table.c.status == "pending",
        (last.c.kind != "tried") & (table.c.status != last.c.kind),
    )
    rows = connection.execute(query.where(wrong).limit(_SHOWN)).all()
    return [f"the last result of kind {row.kind} of {row.node}, test {row.test}, is another's" for row in rows]


def _unseen_results(connection: Any) -> list[str]:
    """Return nodes with a newer result than the one that is read as the newest."""
    from sqlalchemy import and_, select

    cycle, last, table = tables().service.cycle, tables().service.node_last, tables().service.node_result
    same = and_(
        last.c.site == cycle.c.site, last.c.rehearsal == cycle.c.rehearsal, last.c.kind == "tried",
        last.c.node == table.c.node, last.c.test == table.c.test,
    )  # fmt: skip
    query = select(table.c.node, table.c.test).join(cycle, cycle.c.cycle_id == table.c.cycle_id)
    query = query.join(last, same, isouter=True).where(table.c.status != "pending")
    missed = last.c.started_s.is_(None) | (last.c.started_s < table.c.started_s)
    rows = connection.execute(query.where(missed).distinct().limit(_SHOWN)).all()
    return [f"node {row.node}, test {row.test}: a newer result is there than the one that is read" for row in rows]
