# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The history of a cluster in service: cycles, results of nodes, leases, classes, our cordons, acceptances."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..fingerprint.dependencies import digest
from ..outcome.errors import InputError, NotFoundError
from ..outcome.model import Rating, Status
from .database import Place, clock_s, insert_into, open_database, our_errors
from .records import Claim, Cycle, DayCount, DayFigure, Figure, Lease, NodeClass, NodeResult, OurCordon, PartPeriod
from .rows import fact_text, keep_facts
from .tables import tables

# Rows of a cluster in service, written and read inside the caller's transaction.

# Kinds of `node_last`: the newest that was tried (not given back), the newest pass, the newest failure.
TRIED, PASSED, FAILED = "tried", "passed", "failed"
_PLAIN = ("cycle_id", "node", "test", "started_s", "duration_s", "cause", "summary", "cohort", "log")
_KINDS = {Status.PASSED: (TRIED, PASSED), Status.FAILED: (TRIED, FAILED), Status.PENDING: ()}


def cycle_of(connection: Any, cycle_id: str) -> Cycle:
    """Return the cycle.

    Raises:
        NotFoundError: it is not in this history.
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
    """Record the observed parts, so that it is known since when each is there."""
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


def _periods_with(periods: list[PartPeriod], observed: PartPeriod) -> list[dict[str, Any]]:
    """Return the rows that change when a part is observed in a slot at a time; results may arrive late."""
    at = observed.since_s
    before = [period for period in periods if period.since_s <= at]
    last = before[-1] if before else None
    if last is not None and last.part == observed.part:
        return [_period_row(last.part, last.since_s, at)] if at > last.seen_s else []
    rows = [_period_row(observed.part, at, at)]
    if last is not None and at < last.seen_s:
        # Two parts at once in one slot: the one that was observed last began, as far as is known, only then.
        rows += [_period_row(last.part, last.since_s, last.since_s), _period_row(last.part, last.seen_s, last.seen_s)]
        if at == last.since_s:
            rows.pop(1)
    return rows


def _period_row(part: str, since_s: float, seen_s: float) -> dict[str, Any]:
    return {"part": part, "since_s": since_s, "seen_s": seen_s}


def part_periods(connection: Any, site: str, rehearsal: bool, node: str = "") -> tuple[PartPeriod, ...]:
    """Return since when which part is in each slot, oldest first; of one node or of all."""
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
    """Return the query for results with the rows that they refer to, joined with their cycle.

    If not `whole`, they come without figures and digests, of which there are many.
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
    """Return the results from rows of `result_query`, in its order; shared values are parsed once.

    Columns are read by position and not by name: a row looks a name up in its query every time, which was most of the
    reading time.
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
    """Return the row of a class."""
    return {
        "cycle_id": entry.cycle_id, "node": entry.node, "word": entry.word, "reasons": fact_text(list(entry.reasons)),
        "action": entry.action,
    }  # fmt: skip


def class_of(row: Mapping[str, Any]) -> NodeClass:
    """Return the class from a row."""
    names = ("cycle_id", "node", "word", "action")
    return NodeClass(**{name: row[name] for name in names}, reasons=tuple(json.loads(row["reasons"])))


def same_cycle(found: Cycle, begun: Cycle) -> None:
    """Compare a cycle that begins again with the recorded one.

    Raises:
        InputError: it is another one of the same name.
    """
    if (found.site, found.rehearsal) != (begun.site, begun.rehearsal):
        text = f"is remembered of site {found.site} (rehearsal {found.rehearsal}), not of {begun.site}."
        raise InputError(f"cycle {begun.cycle_id}", text, "give the cycle a name of its own")


def going_on(connection: Any, cycle_id: str) -> Cycle:
    """Return a cycle that has not ended.

    Raises:
        InputError: it has ended.
        NotFoundError: it is not in this history.
    """
    cycle = cycle_of(connection, cycle_id)
    if cycle.ended:
        raise InputError(f"cycle {cycle_id}", f"ended at {cycle.ended} and takes no lease.", "begin another cycle")
    return cycle


def is_recorded(connection: Any, lease: Lease) -> bool:
    """Return whether the cycle has a result of that node and test that was not given back."""
    from sqlalchemy import select

    table = tables().service.node_result
    same = (table.c.cycle_id == lease.cycle_id, table.c.node == lease.node, table.c.test == lease.test)
    query = select(table.c.id).where(*same, table.c.status != Status.PENDING.value).limit(1)
    return connection.execute(query).scalar() is not None


def lease_of(row: Mapping[str, Any]) -> Lease:
    """Return the lease from a row."""
    return Lease(node=row["node"], test=row["test"], cycle_id=row["cycle_id"], until_s=row["until_s"])


def cordons_of(connection: Any, site: str, rehearsal: bool, **wanted: str) -> tuple[OurCordon, ...]:
    """Return our cordons with those values, oldest first."""
    from sqlalchemy import select

    table = tables().service.cordon
    query = select(table).where(table.c.site == site, table.c.rehearsal.is_(rehearsal))
    query = query.where(*(table.c[name] == value for name, value in wanted.items())).order_by(table.c.id)
    names = ("node", "by", "reason", "since", "lifted")
    return tuple(OurCordon(**{name: row[name] for name in names}) for row in connection.execute(query).mappings())


# The history of a cluster in service: cycles, results of nodes, leases, classes, our cordons, acceptances.

_OPEN = ""


@dataclass(frozen=True, slots=True)
class ServiceStore:
    """An open history. Every method is one transaction that holds the write lock; nothing stays open in between."""

    path: Place
    engine: Any

    def begin_cycle(self, cycle: Cycle) -> None:
        """Record that a cycle begins, before it does anything. If it is resumed, the entry stays as it was.

        Raises:
            BringupError: another cycle has that name, or the history cannot be written.
        """
        with our_errors(self.path), self.engine.begin() as connection:
            try:
                same_cycle(cycle_of(connection, cycle.cycle_id), cycle)
            except NotFoundError:
                connection.execute(tables().service.cycle.insert().values(asdict(cycle)))

    def end_cycle(self, cycle_id: str, ended: str, note: str = "") -> None:
        """Record when (UTC) a cycle ended, and why if it was early.

        Raises:
            BringupError: there is no such cycle, or the history cannot be written.
        """
        table = tables().service.cycle
        with our_errors(self.path), self.engine.begin() as connection:
            cycle_of(connection, cycle_id)
            connection.execute(table.update().where(table.c.cycle_id == cycle_id).values(ended=ended, note=note))

    def sites(self, *, rehearsal: bool) -> tuple[str, ...]:
        """Return the names of the sites with cycles.

        Raises:
            BringupError: the history cannot be read.
        """
        from sqlalchemy import select

        table = tables().service.cycle
        query = select(table.c.site).where(table.c.rehearsal.is_(rehearsal)).distinct()
        return tuple(sorted(row["site"] for row in self._rows(query)))

    def cycles(self, site: str, *, rehearsal: bool, since: str = "") -> tuple[Cycle, ...]:
        """Return the cycles of that site that began at that time (UTC) or later, oldest first.

        Raises:
            BringupError: the history cannot be read.
        """
        table = tables().service.cycle
        query = self._mine(table, site, rehearsal).where(table.c.started >= since)
        return tuple(Cycle(**row) for row in self._rows(query.order_by(table.c.started, table.c.cycle_id)))

    def clock_s(self) -> float:
        """Return the time (seconds since the epoch) by which leases expire (database.clock_s).

        Raises:
            BringupError: the history does not respond.
        """
        with our_errors(self.path), self.engine.begin() as connection:
            return clock_s(connection)

    def take_lease(self, node: str, test: str, cycle_id: str, now_s: float, until_s: float) -> Claim:
        """Take the right to run one test on one node, if it is free.

        It is refused in three cases: while any other cycle has an unexpired lease on that node (two tests at once would
        measure each other), while this cycle has this lease already (its job may be running: follow it), and after this
        cycle has recorded that result. An expired lease is taken over, so `until_s` has to be after the deadline that
        the job has inside the cluster: then its job is gone too. Both times are by `clock_s`.

        Raises:
            BringupError: there is no such cycle, it has ended, or the history cannot be written.
        """
        from sqlalchemy import select

        table = tables().service.lease
        lease = Lease(node=node, test=test, cycle_id=cycle_id, until_s=until_s)
        with our_errors(self.path), self.engine.begin() as connection:
            cycle = going_on(connection, cycle_id)
            if is_recorded(connection, lease):
                return Claim(recorded=True)
            query = select(table).where(
                table.c.site == cycle.site, table.c.rehearsal.is_(cycle.rehearsal), table.c.node == node
            )
            there = [lease_of(row) for row in connection.execute(query.order_by(table.c.test)).mappings()]
            for other in there:
                if other.until_s > now_s and (other.cycle_id != cycle_id or other.test == test):
                    return Claim(holder=other)
            key = {"site": cycle.site, "rehearsal": cycle.rehearsal, "node": node, "test": test}
            value = {"cycle_id": cycle_id, "until_s": until_s}
            insert = insert_into(connection, table).values(key | value)
            connection.execute(insert.on_conflict_do_update(index_elements=list(key), set_=value))
        over = next((other for other in there if other.test == test), None)
        return Claim(lease=lease, took_over=over)

    def renew(self, lease: Lease, until_s: float) -> Lease | None:
        """Return the lease with a later end, None if another cycle took it over: then its holder has to stop.

        Raises:
            BringupError: the history cannot be written.
        """
        with our_errors(self.path), self.engine.begin() as connection:
            statement = self._held(connection, tables().service.lease.update(), lease)
            if statement is None or not connection.execute(statement.values(until_s=until_s)).rowcount:
                return None
        return Lease(node=lease.node, test=lease.test, cycle_id=lease.cycle_id, until_s=until_s)

    def release(self, lease: Lease) -> bool:
        """Release the lease; return whether it was still held.

        Raises:
            BringupError: the history cannot be written.
        """
        with our_errors(self.path), self.engine.begin() as connection:
            statement = self._held(connection, tables().service.lease.delete(), lease)
            return statement is not None and bool(connection.execute(statement).rowcount)

    def leases(self, site: str, *, rehearsal: bool) -> tuple[Lease, ...]:
        """Return all leases of that site, also expired ones.

        Raises:
            BringupError: the history cannot be read.
        """
        table = tables().service.lease
        query = self._mine(table, site, rehearsal).order_by(table.c.node, table.c.test)
        return tuple(map(lease_of, self._rows(query)))

    def add_result(self, result: NodeResult) -> bool:
        """Write a result, whole or not at all; return whether it was new.

        A cycle has one result of a node and test: the first one stays, unless it was given back (`pending`).

        Raises:
            BringupError: there is no such cycle, or the history cannot be written.
        """
        return self.add_results(result.cycle_id, (result,)) == 1

    def add_results(self, cycle_id: str, results: Iterable[NodeResult]) -> int:
        """Write results of one cycle, all or none, and return how many were new.

        Raises:
            BringupError: there is no such cycle, one is of another, or the history cannot be written.
        """
        entries = tuple(results)
        strange = next((entry for entry in entries if entry.cycle_id != cycle_id), None)
        if strange is not None:
            raise InputError(f"result of {strange.node}", f"is of cycle {strange.cycle_id}, not of {cycle_id}.")
        with our_errors(self.path), self.engine.begin() as connection:
            return add_results(connection, cycle_of(connection, cycle_id), entries)

    def latest(self, site: str, *, rehearsal: bool, whole: bool = True) -> Mapping[tuple[str, str], NodeResult]:
        """Return by node and test the newest result that was not given back.

        If not `whole`, results come without figures and digests, for a caller that needs only times and statuses.

        Raises:
            BringupError: the history cannot be read.
        """
        return self.last(site, TRIED, rehearsal=rehearsal, whole=whole)

    def last(
        self, site: str, kind: str, *, rehearsal: bool, nodes: Collection[str] | None = None, whole: bool = True
    ) -> Mapping[tuple[str, str], NodeResult]:
        """Return by node and test the newest result of a kind: `tried`, `passed` or `failed`.

        With `nodes` only those of these nodes; for `whole` see `latest`.

        Raises:
            BringupError: the history cannot be read.
        """
        pointer, table = tables().service.node_last, tables().service.node_result
        query = result_query(whole=whole).join(pointer, pointer.c.result_id == table.c.id)
        query = query.where(pointer.c.site == site, pointer.c.rehearsal.is_(rehearsal), pointer.c.kind == kind)
        if nodes is not None:
            query = query.where(pointer.c.node.in_(sorted(nodes)))
        return {(result.node, result.test): result for result in self._results(query)}

    def results(
        self,
        site: str,
        *,
        rehearsal: bool,
        since_s: float,
        nodes: Collection[str] | None = None,
        tests: Collection[str] | None = None,
        statuses: Collection[Status] | None = None,
        whole: bool = True,
    ) -> tuple[NodeResult, ...]:
        """Return every result that began at that time or later, also those given back, oldest first.

        With `nodes`, `tests` and `statuses` only those of these; for `whole` see `latest`.

        Raises:
            BringupError: the history cannot be read.
        """
        from sqlalchemy import select

        cycle, table = tables().service.cycle, tables().service.node_result
        # A separate subquery: joined at once, SQLite goes through every cycle of all years instead of by time.
        chosen = table.alias()
        wanted = select(chosen.c.id).where(chosen.c.started_s >= since_s)
        words = None if statuses is None else {status.value for status in statuses}
        for column, names in ((chosen.c.node, nodes), (chosen.c.test, tests), (chosen.c.status, words)):
            if names is not None:
                wanted = wanted.where(column.in_(sorted(names)))
        query = result_query(whole=whole).where(
            cycle.c.site == site, cycle.c.rehearsal.is_(rehearsal), table.c.id.in_(wanted)
        )
        return tuple(self._results(query.order_by(table.c.started_s, table.c.id)))

    def history_of(self, site: str, node: str, slot: str, *, rehearsal: bool) -> tuple[PartPeriod, ...]:
        """Return which parts were observed in a slot of a node and since when, oldest first: a swap begins a new entry.

        Raises:
            BringupError: the history cannot be read.
        """
        with our_errors(self.path), self.engine.begin() as connection:
            found = part_periods(connection, site, rehearsal, node)
        return tuple(period for period in found if period.slot == slot)

    def parts(self, site: str, *, rehearsal: bool) -> Mapping[tuple[str, str], PartPeriod]:
        """Return by node and slot the part that was observed there last.

        Raises:
            BringupError: the history cannot be read.
        """
        with our_errors(self.path), self.engine.begin() as connection:
            return {(period.node, period.slot): period for period in part_periods(connection, site, rehearsal)}

    def add_classes(self, classes: Iterable[NodeClass]) -> None:
        """Write the classes of nodes; written again for the same cycle, they replace the earlier ones.

        Raises:
            BringupError: there is no such cycle, or the history cannot be written.
        """
        rows = [class_row(entry) for entry in classes]
        with our_errors(self.path), self.engine.begin() as connection:
            for cycle_id in {row["cycle_id"] for row in rows}:
                cycle_of(connection, cycle_id)
            if rows:
                insert = insert_into(connection, tables().service.node_class)
                new = {name: insert.excluded[name] for name in ("word", "reasons", "action")}
                connection.execute(insert.on_conflict_do_update(index_elements=["cycle_id", "node"], set_=new), rows)

    def classes(self, site: str, *, rehearsal: bool, since: str = "") -> tuple[NodeClass, ...]:
        """Return the classes of all cycles that began at that time (UTC) or later, in the order of the cycles.

        Raises:
            BringupError: the history cannot be read.
        """
        from sqlalchemy import select

        cycle, table = tables().service.cycle, tables().service.node_class
        query = select(table).join(cycle, cycle.c.cycle_id == table.c.cycle_id)
        query = query.where(cycle.c.site == site, cycle.c.rehearsal.is_(rehearsal), cycle.c.started >= since)
        return tuple(map(class_of, self._rows(query.order_by(cycle.c.started, table.c.cycle_id, table.c.node))))

    def add_cordon(self, site: str, cordon: OurCordon, *, rehearsal: bool) -> bool:
        """Record that we take a node out of service; return whether it had no open cordon of ours before.

        Raises:
            BringupError: the history cannot be written.
        """
        table = tables().service.cordon
        with our_errors(self.path), self.engine.begin() as connection:
            if cordons_of(connection, site, rehearsal, node=cordon.node, lifted=_OPEN):
                return False
            row = asdict(cordon) | {"site": site, "rehearsal": rehearsal}
            connection.execute(table.insert().values(row))
        return True

    def lift_cordon(self, site: str, node: str, lifted: str, *, rehearsal: bool) -> bool:
        """Record when (UTC) a node was given back; return whether we had it out of service.

        Raises:
            BringupError: the history cannot be written.
        """
        table = tables().service.cordon
        whose = (table.c.site == site, table.c.rehearsal.is_(rehearsal), table.c.node == node, table.c.lifted == _OPEN)
        with our_errors(self.path), self.engine.begin() as connection:
            return bool(connection.execute(table.update().where(*whose).values(lifted=lifted)).rowcount)

    def open_cordons(self, site: str, *, rehearsal: bool) -> Mapping[str, OurCordon]:
        """Return by node the cordons of ours that are not lifted.

        Raises:
            BringupError: the history cannot be read.
        """
        with our_errors(self.path), self.engine.begin() as connection:
            return {entry.node: entry for entry in cordons_of(connection, site, rehearsal, lifted=_OPEN)}

    def cordons(self, site: str, *, rehearsal: bool) -> tuple[OurCordon, ...]:
        """Return all our cordons, also those that were lifted, oldest first.

        Raises:
            BringupError: the history cannot be read.
        """
        with our_errors(self.path), self.engine.begin() as connection:
            return cordons_of(connection, site, rehearsal)

    def days(self, site: str, *, rehearsal: bool) -> tuple[DayCount, ...]:
        """Return how many results retention rolled up into figures of a day, oldest day first.

        Raises:
            BringupError: the history cannot be read.
        """
        return tuple(DayCount(**row) for row in self._days(tables().service.node_day, site, rehearsal))

    def day_figures(self, site: str, *, rehearsal: bool) -> tuple[DayFigure, ...]:
        """Return the figures of days that retention made, oldest day first.

        Raises:
            BringupError: the history cannot be read.
        """
        return tuple(DayFigure(**row) for row in self._days(tables().service.node_day_figure, site, rehearsal))

    def _days(self, table: Any, site: str, rehearsal: bool) -> list[Any]:
        wanted = [column for column in table.c if column.name not in ("site", "rehearsal")]
        query = self._mine(table, site, rehearsal).with_only_columns(*wanted)
        return self._rows(query.order_by(table.c.day, table.c.node, table.c.test))

    def _mine(self, table: Any, site: str, rehearsal: bool) -> Any:
        from sqlalchemy import select

        return select(table).where(table.c.site == site, table.c.rehearsal.is_(rehearsal))

    def _held(self, connection: Any, statement: Any, lease: Lease) -> Any:
        cycle, table = cycle_of(connection, lease.cycle_id), tables().service.lease
        whose = (table.c.site == cycle.site, table.c.rehearsal.is_(cycle.rehearsal), table.c.node == lease.node)
        return statement.where(*whose, table.c.test == lease.test, table.c.cycle_id == lease.cycle_id)

    def _results(self, query: Any) -> Iterator[NodeResult]:
        with our_errors(self.path), self.engine.begin() as connection:
            rows = connection.execute(query).all()
        return results_of(rows)

    def _rows(self, query: Any) -> list[Any]:
        with our_errors(self.path), self.engine.begin() as connection:
            return list(connection.execute(query).mappings())


def open_service(path: Place) -> ServiceStore:
    """Return the history at that place; it is created if it is not there.

    Raises:
        BringupError: SQLAlchemy is missing, or the file is damaged, not ours, too new or cannot be written.
    """
    return ServiceStore(path, open_database(path))


# The first figures of parts: one row for each part and cohort, written once.


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFigure:
    """The first values of one figure of one part (empty: the node) in a cohort.

    Median and spread of its first `results` samples as speeds (more is better), and when the first of them was (seconds
    since the epoch).
    """

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
    """Return all first figures of a site.

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
    """Write the rows that are not there yet; existing ones stay.

    Raises:
        BringupError: the history cannot be written.
    """
    values = [{"site": site, "rehearsal": rehearsal, **asdict(row)} for row in rows]
    if not values:
        return
    with our_errors(store.path), store.engine.begin() as connection:
        insert = insert_into(connection, tables().service.node_first)
        connection.execute(insert.on_conflict_do_nothing(), values)
