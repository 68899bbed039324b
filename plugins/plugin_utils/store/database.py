# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The database of the history: where it is, how it is opened, its schema versions, and its errors as text."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..outcome.errors import BringupError, InputError, NotFoundError, UnavailableError
from ..runtime.clock import Deadline
from ..runtime.files import PRIVATE_DIR, PRIVATE_FILE, write_problem
from ..runtime.redaction import MASK, redact
from .tables import tables

# What SQLAlchemy spells differently for each database.


def clock_s(connection: Any) -> float:
    """Return the time (seconds since the epoch) that all controllers of a history share.

    All controllers of a file are on its machine. Those of a server use the clock of the server, so that one whose clock
    is wrong neither takes over a live lease nor holds one for ever.
    """
    from sqlalchemy import text

    if connection.dialect.name == "sqlite":
        return time.time()
    return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())


def insert_into(connection: Any, table: Any) -> Any:
    """Return an insert statement that supports ON CONFLICT, in the dialect of the connection's database."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


# Whether a directory is on a network file system, where SQLite cannot keep its guarantees.

_MOUNTS = Path("/proc/self/mountinfo")
# SQLite, "Write-Ahead Logging" (sqlite.org/wal.html): all processes must be on one host, because they share memory
# through a file; "How To Corrupt An SQLite Database File", 2.1: file locks of network file systems are often broken.
_NETWORK = frozenset({
    "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "vboxsf", "vmhgfs", "wekafs",
})  # fmt: skip
# FUSE is a network file system unless it is known to keep its files on this machine.
_LOCAL_FUSE = frozenset({
    "bindfs", "cryfs", "encfs", "exfat", "ext2", "fuse-overlayfs", "fuse2fs", "gocryptfs", "lxcfs", "mergerfs",
    "ntfs", "ntfs-3g", "securefs", "squashfuse", "unionfs", "unionfs-fuse",
})  # fmt: skip


def refuse_network(path: Path) -> None:
    """Accept only a file on this machine.

    Raises:
        InputError: it is on a network file system.
    """
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        # Not Linux: its mounts are unknown.
        return
    kind, where = mount_of(path.parent.resolve(), mounts)
    if is_network(kind):
        reason = (
            f"lies on a network file system ({kind}, mounted at {where}). SQLite shares memory between its processes,"
            " which such a file system cannot do, and a history there loses what it acknowledged."
        )
        hint = (
            "set gpufleet_store to a file of a local disk, or gpufleet_store_url to a PostgreSQL database for several"
        )
        raise InputError(str(path), reason, f"{hint} controllers")


def is_network(kind: str) -> bool:
    """Return whether that type is a network file system."""
    if kind.startswith("fuse."):
        return kind.partition(".")[2] not in _LOCAL_FUSE
    return kind in _NETWORK


def mount_of(path: Path, mounts: str) -> tuple[str, str]:
    """Return the type and the place of the mount that contains a path, both empty if there is none.

    Args:
        path: resolved; it need not be there.
        mounts: the content of /proc/self/mountinfo (proc(5)).
    """
    found, depth = ("", ""), -1
    for line in mounts.splitlines():
        before, dash, after = line.partition(" - ")
        words = before.split(" ")
        if not dash or len(words) < 5:
            continue
        place = Path(_unescaped(words[4]))
        # Of two mounts at one place the later one covers the earlier.
        if path.is_relative_to(place) and len(place.parts) >= depth:
            found, depth = (after.split(" ")[0], str(place)), len(place.parts)
    return found


def _unescaped(text: str) -> str:
    for escape, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escape, sign)
    return text


# Where a history is: a file of this machine, or a database of a server. The password is never shown.

VARIABLE = "gpufleet_store_url"
_SCHEMES = ("postgresql", "postgresql+psycopg")
_FORM = "postgresql://USER:PASSWORD@HOST:5432/DATABASE"


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A database of a PostgreSQL server. As text it has no password and no options."""

    secret: str = field(repr=False)

    def __str__(self) -> str:
        parts = urlsplit(self.secret)
        user = f"{parts.username}@" if parts.username else ""
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"

    @property
    def password(self) -> str:
        """The password in the URL, empty without one."""
        return urlsplit(self.secret).password or ""


Place = Path | StoreUrl


def place_of(store: str) -> Place:
    """Return the place that a user gave: a path, or a URL of a PostgreSQL server.

    Raises:
        InputError: it is another kind of URL, or names no database.
    """
    if "://" not in store:
        return Path(store).expanduser().absolute()
    try:
        parts = urlsplit(store)
        port = parts.port
    except ValueError:
        raise InputError(VARIABLE, "is no URL that can be read (host or port).", f"write it as {_FORM}") from None
    if parts.scheme not in _SCHEMES:
        text = f"is a URL of {parts.scheme}; a history is a file or in PostgreSQL."
        raise InputError(VARIABLE, text, f"write it as {_FORM}, or set gpufleet_store to a file")
    if port == 0 or not parts.path.strip("/"):
        raise InputError(VARIABLE, f"names no database: found {StoreUrl(store)}.", f"write it as {_FORM}")
    return StoreUrl(store)


def url_from(configured: str) -> str:
    """Return the configured URL, read from a file where a path is configured.

    Raises:
        InputError: others may read the file, or it does not have exactly one line.
        UnavailableError: the file cannot be read.
    """
    if "://" in configured or not configured:
        return configured
    path = Path(configured).expanduser()
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = f"names a file that cannot be read: {getattr(error, 'strerror', None) or 'not text'} ({path})."
        raise UnavailableError(VARIABLE, reason, f"write the URL itself ({_FORM}), or the path of its file") from None
    if stat.S_IMODE(mode) & 0o077:
        reason = f"names a file with a password that others may read: mode {stat.S_IMODE(mode):04o} ({path})."
        raise InputError(VARIABLE, reason, f"chmod 0600 '{path}'")
    if "://" not in text or len(text.splitlines()) != 1:
        raise InputError(VARIABLE, f"names a file that does not hold one URL ({path}).", f"write one line: {_FORM}")
    return text


# The history in a PostgreSQL database: how it is reached, who may write, and its errors as text.

# How long one controller waits for another that writes, as with a file.
LOCK_TIMEOUT_S = 30
_CONNECT_TIMEOUT_S = 10
# Any number that no other program uses in this database; all controllers have to use the same.
_LOCK = 7103150015
_BEGIN = (
    f"SELECT set_config('lock_timeout', '{LOCK_TIMEOUT_S}s', true), set_config('synchronous_commit', CASE"
    " current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)"
)

# PostgreSQL, Appendix A "Error Codes".
_REASONS = {
    "28P01": ("does not take the password of that user.", "see the password in gpufleet_store_url"),
    "28000": ("does not let that user in.", "see pg_hba.conf of the server, and the user in gpufleet_store_url"),
    "3D000": ("has no such database.", "make it: createdb --owner=USER DATABASE"),
    "42501": ("does not let that user make or change tables.", "give it rights: GRANT ALL ON SCHEMA public TO USER"),
    "53100": ("has no room left on its disk.", "make room on the server, and run the gate again"),
    "53300": ("has no connection free.", "wait, or raise max_connections of the server"),
    "25006": ("takes no writes: it is a standby, or read only.", "name the primary in gpufleet_store_url"),
    "55P03": (
        f"another controller kept it locked for {LOCK_TIMEOUT_S} s.",
        "see who holds it (SELECT * FROM pg_stat_activity), wait for it, and run the gate again",
    ),
}
_SERVER_DAMAGE = ("42P01", "42703", "XX001", "XX002")


def server_engine(url: StoreUrl) -> Any:
    """Return SQLAlchemy's engine, with one transaction at a time, as with a file.

    Raises:
        NotFoundError: the driver is not installed.
    """
    from sqlalchemy import create_engine, event, make_url
    from sqlalchemy.pool import NullPool

    arguments: dict[str, Any] = {
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "application_name": "gpufleet.bringup",
        "prepare_threshold": None,
    }
    try:
        engine = create_engine(
            make_url(url.secret).set(drivername="postgresql+psycopg"),
            # No pool: Ansible forks, and a connection must not cross a fork.
            poolclass=NullPool,
            # What is read after the wait for the lock is the state at that time.
            isolation_level="READ COMMITTED",
            connect_args=arguments,
        )
    except ImportError:
        reason = "is not installed, or lacks the client library; it is needed for a history in PostgreSQL."
        raise NotFoundError("Python package psycopg", reason, "pip install 'psycopg[binary]'") from None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # One controller writes at a time, and what was read under the lock is still valid when it is written.
        connection.exec_driver_sql(_BEGIN)
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

    return engine


def server_problem(url: StoreUrl, error: Any) -> BringupError:
    """Return the error of a server as text, without its password."""
    cause = getattr(error, "orig", None) or error
    state = getattr(cause, "sqlstate", None) or ""
    text = " ".join(redact(_without_password(url, str(cause))).split())[:400]
    if state in _SERVER_DAMAGE:
        hint = "restore its backup, or name another database: then the next gate starts a new history"
        return UnavailableError(str(url), f"is damaged or not a history: {text}.", hint)
    if state in _REASONS:
        reason, hint = _REASONS[state]
        return UnavailableError(str(url), reason, hint)
    # A connection that fails before authentication has no state; its text is all there is.
    for word, known in (("password authentication failed", "28P01"), ("no pg_hba.conf entry", "28000")):
        if word in text:
            return UnavailableError(str(url), *_REASONS[known])
    if 'database "' in text and "does not exist" in text:
        return UnavailableError(str(url), *_REASONS["3D000"])
    return UnavailableError(
        str(url), f"cannot be used: {text}.", "see that the server runs and can be reached from here"
    )


def _without_password(url: StoreUrl, text: str) -> str:
    from urllib.parse import unquote

    for word in {url.password, unquote(url.password)} - {""}:
        text = text.replace(word, MASK)
    return text


# The database of the history: opening, schema versions, and its errors as text.

# How long one run waits for another that writes; a gate is recorded in well under a second.
BUSY_TIMEOUT_S = 30.0
_RETRY_S = 0.05
_DAMAGE = ("malformed", "not a database", "disk image", "no such table", "no such column")


def open_database(place: Place) -> Any:
    """Return SQLAlchemy's engine for the history, created or migrated to this release's schema if necessary.

    Raises:
        BringupError: SQLAlchemy or a driver is missing, the file is on a network file system, or the history is
            damaged, not ours, too new or cannot be written.
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
    """Create the directory and an empty file that only its owner may read; SQLite gives its journals the same mode."""
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
    """Let readers go on beside a writer. The switch ignores the busy timeout, so it is retried until it works."""
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
    """Give gates their places in the order of the history; for older ones only the clocks of their runs are known."""
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
    """Add the tables of a cluster in service; existing data does not change."""
    tables().metadata.create_all(connection, tables=tables().service.every)


def _keep_accepted_figures(connection: Any) -> None:
    """Add the tables of accepted figures.

    The rows of table baseline were never accepted or read; the same figures are among the measurements of their runs.
    """
    connection.exec_driver_sql("DROP TABLE IF EXISTS baseline")
    tables().metadata.create_all(connection, tables=[tables().accepted_figure, tables().withdrawal])


def _keep_first_figures(connection: Any) -> None:
    """Add the table of the first figures of parts."""
    tables().metadata.create_all(connection, tables=[tables().service.node_first])


# The n-th migrates a file from version n to n + 1; a released one never changes.
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
    """Return the schema version of the history, 0 for an empty one.

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
        BringupError: the problem of that history.
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


@contextmanager
def rows_as_written(place: Place) -> Iterator[None]:
    """Turn the error of a row that no release wrote into ours: anyone can edit a file.

    Raises:
        BringupError: there is such a row.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        text = f"has a row that no release wrote ({type(error).__name__}: {error})"[:300]
        hint = "put a backup back (gpufleet_history=backed_up), or move it away"
        raise UnavailableError(str(place), f"{text}.", hint) from None


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
