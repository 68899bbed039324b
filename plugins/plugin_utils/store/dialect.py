# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What SQLAlchemy spells differently for each database."""

from __future__ import annotations

import time
from typing import Any


def clock_s(connection: Any) -> float:
    """Return the time (seconds since the epoch) that all controllers of a history share, and no controller's own.

    All controllers of a file are on its machine; those of a server ask that, so that one whose clock is wrong neither
    takes over a lease that is alive nor holds one for ever.
    """
    from sqlalchemy import text

    if connection.dialect.name == "sqlite":
        return time.time()
    return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())


def insert_into(connection: Any, table: Any) -> Any:
    """Return an insert statement that knows ON CONFLICT, in the words of the connection's database."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
