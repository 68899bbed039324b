# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A copy of a history while it is written, and whether all of it is there and fits together."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from ..outcome.errors import InputError, UnavailableError
from ..runtime.files import PRIVATE_FILE, file_to_write, make_dirs, writing
from .database import our_errors
from .place import Place, StoreUrl
from .service import ServiceStore
from .tables import tables

_SHOWN = 5


def back_up(place: Place, dest: Path) -> int:
    """Copy a history file as it is at one moment, prove the copy, and return its size in bytes.

    What lay at `dest` before is replaced when the new copy is whole, never earlier.

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
                # One file, that can be moved and read wherever it lies.
                copy.execute("PRAGMA journal_mode = DELETE")
                said = [row[0] for row in copy.execute("PRAGMA integrity_check(5)")]
            if said != ["ok"]:
                raise UnavailableError(str(place), f"cannot be copied whole: {'; '.join(said)}.", "see `checked`")
            with part.open("rb") as handle:
                os.fsync(handle.fileno())
            part.replace(meant)
        finally:
            part.unlink(missing_ok=True)
    return dest.stat().st_size


def problems_of(store: ServiceStore) -> tuple[str, ...]:
    """Return what is wrong with a history, nothing if all of it fits together.

    Raises:
        BringupError: it cannot be read at all.
    """
    found: list[str] = []
    with our_errors(store.path), store.engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            said = [row[0] for row in connection.exec_driver_sql(f"PRAGMA integrity_check({_SHOWN})")]
            found += [text for text in said if text != "ok"]
            lost = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_SHOWN)
            found += [f"table {row[0]}, row {row[1]}: refers to a row of {row[2]} that is not there" for row in lost]
        found += _wrong_pointers(connection)
        found += _unseen_results(connection)
    return tuple(found)


def _wrong_pointers(connection: Any) -> list[str]:
    """Return entries of `node_last` that point at a result of something else, which would make a node look fresh."""
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
    """Return nodes of which a newer result is there than the one that is read as the newest."""
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
