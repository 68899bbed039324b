# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Retention: older results become figures of a day; the newest of each kind stays as it was written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..outcome.model import Status
from .database import our_errors
from .dialect import insert_into
from .service import ServiceStore
from .tables import tables

_AT_A_TIME = 2000
# What a class says that need not be kept once it is old.
_HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Thinned:
    """How many results became figures of a day, and how many classes of healthy nodes were let go."""

    results: int
    classes: int


def thin(store: ServiceStore, site: str, *, rehearsal: bool, before_s: float, write: bool) -> Thinned:
    """Roll up the results that began before that time, but for the last try, pass and failure of a node and test.

    Each part of the work is one transaction: killed at any moment, a result is counted in its day or there, never both.
    Kept are classes that are not `healthy`, cordons, acceptances, parts and everything of gates.

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
    # Asked by the key of `node_last`: site, rehearsal, kind, node, test.
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
    """Return the figures of what passed: those of a failure say nothing of how fast a node is."""
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
