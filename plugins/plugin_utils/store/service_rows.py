# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rows of a cluster in service, written and read inside a transaction of somebody else's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..fingerprint.dependencies import digest
from ..outcome.errors import InputError, NotFoundError
from ..outcome.model import Rating, Status
from .dialect import insert_into
from .fact_rows import fact_text, keep_facts
from .service_model import Cycle, Figure, Lease, NodeClass, NodeResult, OurCordon, PartPeriod
from .tables import tables

# Kinds of `node_last`: the newest that was tried (not given back), the newest pass, the newest failure.
TRIED, PASSED, FAILED = "tried", "passed", "failed"
_PLAIN = ("cycle_id", "node", "test", "started_s", "duration_s", "cause", "summary", "cohort", "log")
_KINDS = {Status.PASSED: (TRIED, PASSED), Status.FAILED: (TRIED, FAILED), Status.PENDING: ()}


def cycle_of(connection: Any, cycle_id: str) -> Cycle:
    """Return the cycle.

    Raises:
        NotFoundError: it never began here.
    """
    from sqlalchemy import select

    table = tables().service.cycle
    row = connection.execute(select(table).where(table.c.cycle_id == cycle_id)).mappings().one_or_none()
    if row is None:
        raise NotFoundError(f"cycle {cycle_id}", "is not in the history; it has to begin before it records.")
    return Cycle(**row)


def add_results(connection: Any, cycle: Cycle, results: Iterable[NodeResult]) -> int:
    """Write results of one cycle and return how many were not there yet; see `ServiceStore.add_result`."""
    from sqlalchemy import func, select

    table = tables().service.node_result
    written = 0
    for result in results:
        same = (table.c.cycle_id == cycle.cycle_id, table.c.node == result.node, table.c.test == result.test)
        query = select(table.c.attempt, table.c.status, table.c.started_s).where(*same).order_by(table.c.attempt)
        before = connection.execute(query).all()
        if before and (before[-1].status != Status.PENDING.value or before[-1].started_s == result.started_s):
            continue
        number = (connection.execute(select(func.max(table.c.id))).scalar() or 0) + 1
        facts = {digest(dict(shared)): dict(shared) for shared in (result.parts, result.digests)}
        keep_facts(connection, facts)
        row = _result_row(result) | {"id": number, "attempt": len(before)}
        connection.execute(table.insert().values(row))
        _point_at(connection, cycle, result, number)
        _see_parts(connection, cycle, result)
        written += 1
    return written


def _point_at(connection: Any, cycle: Cycle, result: NodeResult, number: int) -> None:
    table = tables().service.node_last
    key = {"site": cycle.site, "rehearsal": cycle.rehearsal, "node": result.node, "test": result.test}
    for kind in _KINDS.get(result.status, (TRIED,)):
        newest = {"result_id": number, "started_s": result.started_s}
        insert = insert_into(connection, table).values(key | {"kind": kind} | newest)
        newer = table.c.started_s <= insert.excluded.started_s
        connection.execute(
            insert.on_conflict_do_update(index_elements=[*key, "kind"], set_=newest, where=newer)
        )  # fmt: skip


def _see_parts(connection: Any, cycle: Cycle, result: NodeResult) -> None:
    """Write which parts were seen, so that it is known since when each is there."""
    if not result.parts or result.status is Status.PENDING:
        return
    table = tables().service.node_part
    whose = {"site": cycle.site, "rehearsal": cycle.rehearsal, "node": result.node}
    known: dict[str, list[PartPeriod]] = {}
    for period in part_periods(connection, cycle.site, cycle.rehearsal, result.node):
        known.setdefault(period.slot, []).append(period)
    rows = []
    for slot, part in result.parts.items():
        if part:
            changed = _periods_with(known.get(slot, []), PartPeriod(result.node, slot, part, result.started_s))
            rows += [whose | {"slot": slot} | row for row in changed]
    if rows:
        insert = insert_into(connection, table)
        new = {"part": insert.excluded.part, "seen_s": insert.excluded.seen_s}
        connection.execute(insert.on_conflict_do_update(index_elements=[*whose, "slot", "since_s"], set_=new), rows)


def _periods_with(periods: list[PartPeriod], seen: PartPeriod) -> list[dict[str, Any]]:
    """Return the rows that change when a part is seen in a slot at a time; results may come late."""
    at = seen.since_s
    before = [period for period in periods if period.since_s <= at]
    last = before[-1] if before else None
    if last is not None and last.part == seen.part:
        return [_period_row(last.part, last.since_s, at)] if at > last.seen_s else []
    rows = [_period_row(seen.part, at, at)]
    if last is not None and at < last.seen_s:
        # Two parts at once in one slot: the one that was seen last began, for all that is known, only then.
        rows += [_period_row(last.part, last.since_s, last.since_s), _period_row(last.part, last.seen_s, last.seen_s)]
        if at == last.since_s:
            rows.pop(1)
    return rows


def _period_row(part: str, since_s: float, seen_s: float) -> dict[str, Any]:
    return {"part": part, "since_s": since_s, "seen_s": seen_s}


def part_periods(connection: Any, site: str, rehearsal: bool, node: str = "") -> tuple[PartPeriod, ...]:
    """Return since when which part is in each slot, the oldest first; of one node or of all."""
    from sqlalchemy import select

    table = tables().service.node_part
    query = select(table).where(table.c.site == site, table.c.rehearsal.is_(rehearsal))
    if node:
        query = query.where(table.c.node == node)
    rows = connection.execute(query.order_by(table.c.node, table.c.slot, table.c.since_s)).mappings()
    found: list[PartPeriod] = []
    for row in rows:
        period = PartPeriod(row["node"], row["slot"], row["part"], row["since_s"], row["seen_s"])
        if found and (found[-1].node, found[-1].slot, found[-1].part) == (period.node, period.slot, period.part):
            last = found.pop()
            seen_s = max(last.seen_s, period.seen_s)
            period = PartPeriod(period.node, period.slot, period.part, last.since_s, seen_s)
        found.append(period)
    return tuple(found)


def _result_row(result: NodeResult) -> dict[str, Any]:
    figures = [[figure.name, figure.number, figure.unit, figure.part] for figure in result.figures]
    return {name: getattr(result, name) for name in _PLAIN} | {
        "status": result.status.value,
        "rating": result.rating.value,
        "parts": digest(dict(result.parts)),
        "digests": digest(dict(result.digests)),
        "figures": fact_text(figures),
    }


def result_query(*, whole: bool = True) -> Any:
    """Return the query for results with what they refer to, and their cycle beside them to ask for.

    Not whole, they come without figures and digests, of which there are many.
    """
    from sqlalchemy import literal, select

    cycle, table = tables().service.cycle, tables().service.node_result
    parts, digests = tables().fingerprint.alias(), tables().fingerprint.alias()
    columns = [table.c[name] for name in (*_PLAIN, "status", "rating")]
    many = (table.c.figures, digests.c.facts.label("digests"))
    if not whole:
        many = (literal("[]").label("figures"), literal("{}").label("digests"))
    query = select(*columns, parts.c.facts.label("parts"), *many).join(cycle, cycle.c.cycle_id == table.c.cycle_id)
    query = query.join(parts, parts.c.digest == table.c.parts)
    return query.join(digests, digests.c.digest == table.c.digests) if whole else query


def results_of(rows: Iterable[Sequence[Any]]) -> Iterator[NodeResult]:
    """Return the results that rows of `result_query` keep, in its order; what several share is read once.

    By place and not by name: a row looks a name up in its query every time, which was most of the reading.
    """
    read: dict[str, dict[str, str]] = {}
    statuses, ratings = {word.value: word for word in Status}, {word.value: word for word in Rating}
    for *plain, status, rating, parts, figures, digests in rows:
        for text in (parts, digests):
            if text not in read:
                read[text] = json.loads(text)
        yield NodeResult(
            **dict(zip(_PLAIN, plain, strict=True)),
            status=statuses.get(status) or Status(status),
            rating=ratings.get(rating) or Rating(rating),
            parts=dict(read[parts]),
            digests=dict(read[digests]),
            figures=() if figures == "[]" else _figures(figures),
        )


def _figures(text: str) -> tuple[Figure, ...]:
    return tuple(Figure(name=n, number=x, unit=u, part=p) for n, x, u, p in json.loads(text))


def class_row(entry: NodeClass) -> dict[str, Any]:
    """Return the row that keeps a class."""
    return {
        "cycle_id": entry.cycle_id, "node": entry.node, "word": entry.word, "reasons": fact_text(list(entry.reasons)),
        "action": entry.action,
    }  # fmt: skip


def class_of(row: Mapping[str, Any]) -> NodeClass:
    """Return the class that a row keeps."""
    names = ("cycle_id", "node", "word", "action")
    return NodeClass(**{name: row[name] for name in names}, reasons=tuple(json.loads(row["reasons"])))


def same_cycle(found: Cycle, begun: Cycle) -> None:
    """Hold a cycle that begins again against the one that is remembered.

    Raises:
        InputError: it is another one of the same name.
    """
    if (found.site, found.rehearsal) != (begun.site, begun.rehearsal):
        text = f"is remembered of site {found.site} (rehearsal {found.rehearsal}), not of {begun.site}."
        raise InputError(f"cycle {begun.cycle_id}", text, "give the cycle a name of its own")


def going_on(connection: Any, cycle_id: str) -> Cycle:
    """Return a cycle that goes on.

    Raises:
        InputError: it has ended.
        NotFoundError: it never began here.
    """
    cycle = cycle_of(connection, cycle_id)
    if cycle.ended:
        raise InputError(f"cycle {cycle_id}", f"ended at {cycle.ended} and takes no lease.", "begin another cycle")
    return cycle


def is_recorded(connection: Any, lease: Lease) -> bool:
    """Tell whether the cycle has a result of that node and test that was not given back."""
    from sqlalchemy import select

    table = tables().service.node_result
    same = (table.c.cycle_id == lease.cycle_id, table.c.node == lease.node, table.c.test == lease.test)
    query = select(table.c.id).where(*same, table.c.status != Status.PENDING.value).limit(1)
    return connection.execute(query).scalar() is not None


def lease_of(row: Mapping[str, Any]) -> Lease:
    """Return the lease that a row keeps."""
    return Lease(node=row["node"], test=row["test"], cycle_id=row["cycle_id"], until_s=row["until_s"])


def cordons_of(connection: Any, site: str, rehearsal: bool, **wanted: str) -> tuple[OurCordon, ...]:
    """Return the cordons of ours with those values, the oldest first."""
    from sqlalchemy import select

    table = tables().service.cordon
    query = select(table).where(table.c.site == site, table.c.rehearsal.is_(rehearsal))
    query = query.where(*(table.c[name] == value for name, value in wanted.items())).order_by(table.c.id)
    names = ("node", "by", "reason", "since", "lifted")
    return tuple(OurCordon(**{name: row[name] for name in names}) for row in connection.execute(query).mappings())
