# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where a history is: a file of this machine, or a database of a server whose password nobody sees."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ..outcome.errors import InputError, UnavailableError

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
        """The password as it stands in the URL, empty without one."""
        return urlsplit(self.secret).password or ""


Place = Path | StoreUrl


def place_of(store: str) -> Place:
    """Return the place that a user gave: a path, or a URL of a PostgreSQL server.

    Raises:
        InputError: it is a URL of something else, or of no database.
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


def url_from(stated: str) -> str:
    """Return the URL that was stated, read from its file where a path was stated.

    Raises:
        InputError: others may read the file, or it does not hold one line.
        UnavailableError: the file cannot be read.
    """
    if "://" in stated or not stated:
        return stated
    path = Path(stated).expanduser()
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
