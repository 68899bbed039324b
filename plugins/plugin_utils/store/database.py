# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The database of the history: opening, schema versions, and its errors in words."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ..outcome.errors import BringupError, InputError, NotFoundError, UnavailableError
from ..runtime.clock import Deadline
from ..runtime.files import PRIVATE_DIR, PRIVATE_FILE, write_problem
from .file_system import refuse_network
from .place import Place, StoreUrl
from .server import server_engine, server_problem
from .tables import tables

# How long one run waits for another that writes; a gate is recorded in well under a second.
BUSY_TIMEOUT_S = 30.0
_RETRY_S = 0.05
_DAMAGE = ("malformed", "not a database", "disk image", "no such table", "no such column")


def open_database(place: Place) -> Any:
    """Return SQLAlchemy's engine for the history, made or brought to this release's schema if need be.

    Raises:
        BringupError: SQLAlchemy or a driver is missing, the file lies on the network, or the history is damaged,
            foreign, too new or cannot be written.
    """
    with our_errors(place):
        engine = server_engine(place) if isinstance(place, StoreUrl) else _file_engine(place)
        with engine.begin() as connection:
            _migrate(connection, place)
        return engine


def _file_engine(path: Path) -> Any:
    refuse_network(path)
    _make_private(path)
    _use_write_ahead_log(path)
    return _engine(path)


def _make_private(path: Path) -> None:
    """Make the directory and an empty file that only its owner may read; SQLite gives its journals the same mode."""
    if not path.parent.is_dir():
        path.parent.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE))


def _engine(path: Path) -> Any:
    from sqlalchemy import URL, create_engine, event
    from sqlalchemy.pool import NullPool

    url = URL.create("sqlite", database=str(path))
    # No pool: Ansible forks, and a SQLite connection must not cross a fork.
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": BUSY_TIMEOUT_S})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # Python's sqlite3 begins transactions late; here SQLAlchemy's event below begins them.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # The write lock is taken before reading, else two writers that read first cannot both go on.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _use_write_ahead_log(path: Path) -> None:
    """Let readers go on beside a writer. The switch ignores the busy timeout, so it is tried again until it works."""
    deadline = Deadline.after(BUSY_TIMEOUT_S)
    while True:
        try:
            with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)) as connection:
                if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    connection.execute("PRAGMA journal_mode = WAL")
                return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or not deadline.left_s:
                raise
            time.sleep(_RETRY_S)


def _create(connection: Any) -> None:
    tables().metadata.create_all(connection)
    connection.execute(tables().schema_version.insert().values(version=0))


def _add_fingerprints(connection: Any) -> None:
    tables().fingerprint.create(connection, checkfirst=True)


def _list_subjects(connection: Any) -> None:
    """Write further subjects as a JSON list; they were names with commas between them."""
    table = tables().outcome
    rows = connection.execute(table.select().with_only_columns(table.c.id, table.c.more_subjects)).all()
    lists = [
        {"row": number, "names": json.dumps(text.split(",") if text else [], ensure_ascii=False)}
        for number, text in rows
        if not text.startswith("[")
    ]
    if lists:
        from sqlalchemy import bindparam

        update = table.update().where(table.c.id == bindparam("row")).values(more_subjects=bindparam("names"))
        connection.execute(update, lists)


def _number_gates(connection: Any) -> None:
    """Give gates their places in the order of the history; of older ones the clocks of their runs are all there is."""
    from sqlalchemy import bindparam, inspect, select

    # A file of this release has the columns from the beginning.
    if "begun" not in {column["name"] for column in inspect(connection).get_columns("gate")}:
        connection.exec_driver_sql("ALTER TABLE gate ADD COLUMN begun INTEGER NOT NULL DEFAULT 0")
        connection.exec_driver_sql("ALTER TABLE gate ADD COLUMN decided INTEGER")
    gate, run = tables().gate, tables().run
    query = select(gate.c.run_id, gate.c.gate, gate.c.started, run.c.started.label("run_started"))
    rows = connection.execute(query.join(run, run.c.run_id == gate.c.run_id)).mappings().all()
    ordered = sorted(rows, key=lambda row: (row["started"] or row["run_started"], row["run_id"], row["gate"]))
    places = [
        {"of_run": row["run_id"], "of_gate": row["gate"], "first": 2 * n + 1, "last": 2 * n + 2}
        for n, row in enumerate(ordered)
    ]
    if places:
        update = gate.update().where(gate.c.run_id == bindparam("of_run"), gate.c.gate == bindparam("of_gate"))
        connection.execute(update.values(begun=bindparam("first"), decided=bindparam("last")), places)


def _add_service(connection: Any) -> None:
    """Make room for what is found of a cluster in service; nothing that was there changes."""
    tables().metadata.create_all(connection, tables=tables().service.every)


def _keep_accepted_figures(connection: Any) -> None:
    """Make room for the figures that people accept. What was in table baseline nobody had accepted or read; the same
    figures are among the measurements of their runs."""
    connection.exec_driver_sql("DROP TABLE IF EXISTS baseline")
    tables().metadata.create_all(connection, tables=[tables().accepted_figure, tables().withdrawal])


def _keep_first_figures(connection: Any) -> None:
    """Make room for what the figures of parts began with."""
    tables().metadata.create_all(connection, tables=[tables().service.node_first])


# The n-th takes a file from version n to n + 1; one that was released never changes.
MIGRATIONS: tuple[Callable[[Any], None], ...] = (
    _create,
    _add_fingerprints,
    _list_subjects,
    _number_gates,
    _add_service,
    _keep_accepted_figures,
    _keep_first_figures,
)


def _migrate(connection: Any, place: Place) -> None:
    found = _version(connection, place)
    for migration in MIGRATIONS[found:]:
        migration(connection)
    if found < len(MIGRATIONS):
        connection.execute(tables().schema_version.update().values(version=len(MIGRATIONS)))


def _version(connection: Any, place: Place) -> int:
    """Return the schema version of the history, 0 for one that is empty.

    Raises:
        InputError: it is not a history of this or an older release.
    """
    from sqlalchemy import inspect, select

    names = inspect(connection).get_table_names()
    if not names:
        return 0
    hint = "set gpufleet_store to another file"
    if isinstance(place, StoreUrl):
        hint = "name a database of its own in gpufleet_store_url"
    if "schema_version" not in names:
        raise InputError(str(place), f"is another program's database (tables {', '.join(names[:5])}).", hint)
    versions = connection.execute(select(tables().schema_version.c.version)).scalars().all()
    if len(versions) != 1 or not isinstance(versions[0], int) or versions[0] < 1:
        raise InputError(str(place), f"has no schema version that can be read: found {versions[:3]}.", hint)
    if versions[0] > len(MIGRATIONS):
        text = f"has schema version {versions[0]}, this release knows versions up to {len(MIGRATIONS)}."
        raise InputError(str(place), text, f"update gpufleet.bringup, or {hint}")
    return versions[0]


@contextmanager
def our_errors(place: Place) -> Iterator[None]:
    """Turn errors of the database and of SQLAlchemy into ours, with the fix.

    Raises:
        BringupError: what went wrong with that history.
    """
    try:
        from sqlalchemy.exc import SQLAlchemyError
    except ModuleNotFoundError:
        raise NotFoundError(
            "Python package sqlalchemy", "is not installed; it is needed for the history.", "pip install sqlalchemy"
        ) from None
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        if isinstance(place, StoreUrl):
            raise server_problem(place, error) from None
        raise _problem(place, str(getattr(error, "orig", None) or error)) from None
    except OSError as error:
        raise UnavailableError(
            str(place), f"cannot be made: {error.strerror}.", "set gpufleet_store to a file that can be written"
        ) from None


def _problem(path: Path, text: str) -> BringupError:
    if any(word in text for word in _DAMAGE):
        hint = f"move it away, then the next gate starts a new history: mv '{path}' '{path}.damaged'"
        return UnavailableError(str(path), f"is damaged or not a history file: {text}.", hint)
    if "locked" in text:
        hint = "see which process holds it (fuser), wait for it, and run the gate again"
        return UnavailableError(str(path), f"another process kept it locked for {BUSY_TIMEOUT_S:g} s.", hint)
    if "disk is full" in text:
        return write_problem(path, OSError(errno.ENOSPC, text))
    return UnavailableError(
        str(path), f"cannot be used: {text}.", "make it writable, or set gpufleet_store to a file that is"
    )
