# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What figures of parts began with: one row for each part and cohort, written once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from .database import our_errors
from .dialect import insert_into
from .service import ServiceStore
from .tables import tables


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFigure:
    """What one figure of one part (empty: the node) began with in a cohort: median and spread of its first `results`
    samples as speeds (more is better), and when the first of them was (seconds since the epoch)."""

    node: str
    test: str
    cohort: str
    part: str
    name: str
    middle: float
    spread: float
    results: int
    since_s: float


def first_figures(store: ServiceStore, site: str, *, rehearsal: bool) -> tuple[FirstFigure, ...]:
    """Return all of them.

    Raises:
        BringupError: the history cannot be read.
    """
    from sqlalchemy import select

    table = tables().service.node_first
    wanted = [column for column in table.c if column.name not in ("site", "rehearsal")]
    query = select(*wanted).where(table.c.site == site, table.c.rehearsal.is_(rehearsal))
    with our_errors(store.path), store.engine.begin() as connection:
        return tuple(FirstFigure(**row) for row in connection.execute(query).mappings())


def add_first_figures(store: ServiceStore, site: str, rows: Iterable[FirstFigure], *, rehearsal: bool) -> None:
    """Write those that are not there yet; what is there stays.

    Raises:
        BringupError: the history cannot be written.
    """
    values = [{"site": site, "rehearsal": rehearsal, **asdict(row)} for row in rows]
    if not values:
        return
    with our_errors(store.path), store.engine.begin() as connection:
        insert = insert_into(connection, tables().service.node_first)
        connection.execute(insert.on_conflict_do_nothing(), values)
