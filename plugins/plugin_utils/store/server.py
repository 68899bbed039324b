# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The history in a PostgreSQL database: how it is reached, who may write, and its errors in words."""

from __future__ import annotations

from typing import Any

from ..outcome.errors import BringupError, NotFoundError, UnavailableError
from ..runtime.redaction import redact
from ..runtime.secret_forms import MASK
from .place import StoreUrl

# How long one controller waits for another that writes, as with a file.
LOCK_TIMEOUT_S = 30
_CONNECT_TIMEOUT_S = 10
# Any number that no other program takes in this database; all controllers have to take the same.
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
_DAMAGE = ("42P01", "42703", "XX001", "XX002")


def server_engine(url: StoreUrl) -> Any:
    """Return SQLAlchemy's engine, each of whose transactions is alone, as with a file.

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
            # What is read after the lock was waited for is what is there then.
            isolation_level="READ COMMITTED",
            connect_args=arguments,
        )
    except ImportError:
        reason = "is not installed, or lacks the client library; it is needed for a history in PostgreSQL."
        raise NotFoundError("Python package psycopg", reason, "pip install 'psycopg[binary]'") from None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # One writes at a time, and what was read under the lock still holds when it is written.
        connection.exec_driver_sql(_BEGIN)
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

    return engine


def server_problem(url: StoreUrl, error: Any) -> BringupError:
    """Return what went wrong with a server, in words and without its password."""
    cause = getattr(error, "orig", None) or error
    state = getattr(cause, "sqlstate", None) or ""
    text = " ".join(redact(_without_password(url, str(cause))).split())[:400]
    if state in _DAMAGE:
        hint = "restore its backup, or name another database: then the next gate starts a new history"
        return UnavailableError(str(url), f"is damaged or not a history: {text}.", hint)
    if state in _REASONS:
        reason, hint = _REASONS[state]
        return UnavailableError(str(url), reason, hint)
    # A connection that fails before the server knows whom it talks to has no state; its words are all there is.
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
