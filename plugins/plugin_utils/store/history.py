# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The history of runs: what gates recorded, the accepted figures, the ledger of passes, and the timeline of one
node."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..fingerprint.dependencies import Dependencies, SiteState
from ..outcome.model import Measure, Outcome, Rating, Status, Subject, SubjectKind
from ..site.model import Site
from ..verdict.gate import GateVerdict
from ..verdict.run import PROOF_OF_WAVE, RunRecord
from .database import Place, insert_into, open_database, our_errors, rows_as_written
from .records import GateFacts, NonPass, Pass, Recorded, passes
from .rows import keep_dependencies, kept_dependencies
from .tables import tables

# The history of runs: what gates recorded, the accepted figures, and the ledger of passes.

_NEVER_RECORDED = "it began to look and was never recorded: the run was ended, or the history could not be written"


@dataclass(frozen=True, slots=True)
class Store:
    """An open history. Every method is one transaction; nothing stays open in between."""

    path: Place
    engine: Any

    def begin_gate(self, record: RunRecord, gate: str, site: Site) -> None:
        """Record that a gate begins to observe, before it does: if nothing is recorded afterwards, it did not pass.

        Raises:
            BringupError: the file cannot be written.
        """
        verdict = GateVerdict(gate=gate, status=Status.PENDING, message=_NEVER_RECORDED)
        facts = GateFacts(record=record, verdict=verdict, outcomes=(), site=site)
        with our_errors(self.path), self.engine.begin() as connection:
            _forget(connection, record.run_id, gate)
            _insert_run(connection, facts, begun=_next_place(connection), decided=None)

    def record_gate(
        self,
        record: RunRecord,
        verdict: GateVerdict,
        outcomes: Iterable[Outcome],
        site: Site,
        state: SiteState | None = None,
        checks: Collection[str] | None = None,
    ) -> Recorded:
        """Record a decided gate in one transaction; recorded again, it replaces the earlier entry.

        Args:
            record: the run.
            verdict: the gate's.
            outcomes: its results, all of them.
            site: the inventory.
            state: the observed facts of the site.
            checks: the checks whose passes count for later runs; None for all.

        Raises:
            BringupError: the file cannot be written.
        """
        facts = GateFacts(
            record=record, verdict=verdict, outcomes=tuple(outcomes), site=site, state=state or SiteState(),
            checks=checks,
        )  # fmt: skip
        with our_errors(self.path), self.engine.begin() as connection:
            place = _next_place(connection)
            begun = _begun(connection, record.run_id, verdict.gate) or place
            _forget(connection, record.run_id, verdict.gate)
            _insert_run(connection, facts, begun=begun, decided=place + 1)
            _insert_outcomes(connection, facts)
            ledger = passes(facts)
            _insert(connection, tables().ledger, [_ledger_row(facts, entry) for entry in ledger])
            keep_dependencies(connection, [entry.dependencies for entry in ledger])
        return Recorded(outcomes=len(facts.outcomes), passes=len(ledger))

    def last_passes(self, site: str, *, rehearsal: bool) -> tuple[Pass, ...]:
        """Return the newest pass of every gate, check and subject of that site.

        A line of the ledger counts only where the rest of the history confirms it: the run is of that site and kind, a
        result of it passed, and what it depended on has its digest. A history is a plain file that can be edited.

        Raises:
            BringupError: the file cannot be read.
        """
        from sqlalchemy import and_, select

        table, gate, run, result = tables().ledger, tables().gate, tables().run, tables().outcome
        same = and_(gate.c.run_id == table.c.run_id, gate.c.gate == table.c.gate)
        borne = select(run.c.run_id).where(
            run.c.run_id == table.c.run_id, run.c.site == table.c.site, run.c.rehearsal.is_(rehearsal)
        )
        passed = select(result.c.id).where(
            result.c.run_id == table.c.run_id, result.c.gate == table.c.gate, result.c.check_id == table.c.check_id,
            result.c.subject == table.c.subject, result.c.status == Status.PASSED.value,
        )  # fmt: skip
        whose = (table.c.gate, table.c.check_id, table.c.subject)
        query = select(table, gate.c.begun, _age(whose, gate.c.begun, table.c.run_id)).join(gate, same)
        query = query.where(table.c.site == site, table.c.rehearsal.is_(rehearsal), borne.exists(), passed.exists())
        newest = self._rows(_newest(query))
        with rows_as_written(self.path):
            with our_errors(self.path), self.engine.begin() as connection:
                kept = kept_dependencies(connection, {row["fingerprint"] for row in newest})
            known = {digest: facts for digest, facts in kept.items() if facts.fingerprint == digest}
            return tuple(_pass(row, known.get(row["fingerprint"], Dependencies())) for row in newest)

    def non_passes(self, site: str, since: str, *, rehearsal: bool) -> tuple[NonPass, ...]:
        """Return the results of that site that were no pass, and the gates without results, from that time on.

        Of those about the same subjects of a check, or about the whole gate, only the newest is returned.

        Raises:
            BringupError: the file cannot be read.
        """
        from sqlalchemy import and_, func, select

        run, gate, table = tables().run, tables().gate, tables().outcome
        mine = (run.c.site == site, run.c.rehearsal.is_(rehearsal), run.c.started >= since)
        same = and_(gate.c.run_id == table.c.run_id, gate.c.gate == table.c.gate)
        order = func.coalesce(gate.c.decided, gate.c.begun)
        whose = (table.c.gate, table.c.check_id, table.c.subject, table.c.node, table.c.more_subjects)
        started = run.c.started.label("run_started")
        bad = select(table, started, gate.c.begun, gate.c.decided, _age(whose, order, table.c.id))
        bad = bad.join(run, run.c.run_id == table.c.run_id).join(gate, same)
        bad = bad.where(*mine, table.c.status != Status.PASSED.value)
        without = select(gate, started, _age((gate.c.gate,), order, gate.c.run_id))
        without = without.join(run, run.c.run_id == gate.c.run_id)
        answered = select(table.c.id).where(table.c.run_id == gate.c.run_id, table.c.gate == gate.c.gate)
        opened = (Status.PASSED.value, Status.SKIPPED.value)
        without = without.where(*mine, gate.c.status.not_in(opened), ~answered.exists())
        with rows_as_written(self.path):
            return (*map(_non_pass, self._rows(_newest(bad))), *map(_silence, self._rows(_newest(without))))

    def good_runs(self, site: str, gate: str, *, rehearsal: bool) -> tuple[str, ...]:
        """Return the runs of that site, newest first, that passed the gate and whose other gates did not fail.

        The proof of a wave is a part of a run.

        Raises:
            BringupError: the file cannot be read.
        """
        from sqlalchemy import select

        run, table = tables().run, tables().gate
        other = table.alias()
        opened = (Status.PASSED.value, Status.SKIPPED.value)
        failed = select(other.c.gate).where(other.c.run_id == table.c.run_id, other.c.status.not_in(opened))
        query = select(table.c.run_id).join(run, run.c.run_id == table.c.run_id)
        query = query.where(run.c.site == site, run.c.rehearsal.is_(rehearsal), table.c.gate == gate)
        query = query.where(table.c.status == Status.PASSED.value, table.c.decided.is_not(None), ~failed.exists())
        query = query.where(~table.c.run_id.contains(PROOF_OF_WAVE))
        return tuple(row["run_id"] for row in self._rows(query.order_by(table.c.decided.desc())))

    def sites(self, *, rehearsal: bool) -> tuple[str, ...]:
        """Return the names of the sites with any record.

        Raises:
            BringupError: the file cannot be read.
        """
        from sqlalchemy import select

        query = select(tables().run.c.site).where(tables().run.c.rehearsal.is_(rehearsal)).distinct()
        return tuple(sorted(row["site"] for row in self._rows(query)))

    def _rows(self, query: Any) -> list[Any]:
        with our_errors(self.path), self.engine.begin() as connection:
            return list(connection.execute(query).mappings())


def open_store(path: Place) -> Store:
    """Return the history at that place; it is created if it is not there.

    Raises:
        BringupError: SQLAlchemy is missing, or the file is damaged, not ours, too new or cannot be written.
    """
    return Store(path, open_database(path))


def _age(whose: Sequence[Any], *order: Any) -> Any:
    """Return the column that is 1 for the newest row of those with the same subject."""
    from sqlalchemy import func

    return func.row_number().over(partition_by=whose, order_by=[column.desc() for column in order]).label("age")


def _newest(query: Any) -> Any:
    """Return the query for the newest rows only: a year of history stays in the file."""
    from sqlalchemy import select

    rows = query.subquery()
    return select(rows).where(rows.c.age == 1)


def _forget(connection: Any, run_id: str, gate: str) -> None:
    # Measurements are deleted with their outcomes.
    for table in (tables().ledger, tables().outcome, tables().gate):
        connection.execute(table.delete().where(table.c.run_id == run_id, table.c.gate == gate))


def _insert(connection: Any, table: Any, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(table.insert(), rows)


def _next_place(connection: Any) -> int:
    """Return the next free place in the order of the history; the write lock is held, so no one else takes it."""
    from sqlalchemy import func, select

    gate = tables().gate
    first, last = connection.execute(select(func.max(gate.c.begun), func.max(gate.c.decided))).one()
    return max(first or 0, last or 0) + 1


def _begun(connection: Any, run_id: str, gate: str) -> int:
    from sqlalchemy import select

    table = tables().gate
    query = select(table.c.begun).where(table.c.run_id == run_id, table.c.gate == gate)
    return int(connection.execute(query).scalar() or 0)


def _insert_run(connection: Any, facts: GateFacts, *, begun: int, decided: int | None) -> None:
    record, verdict = facts.record, facts.verdict
    row = {
        "run_id": record.run_id,
        "site": facts.site.name,
        "rehearsal": facts.rehearsal,
        "started": record.started,
        "scope": ",".join(record.scope),
        "nodes": record.nodes,
        "quarantined": record.quarantined,
    }
    connection.execute(
        insert_into(connection, tables().run).values(row).on_conflict_do_update(index_elements=["run_id"], set_=row)
    )
    gate = {
        "run_id": record.run_id,
        "gate": verdict.gate,
        "status": verdict.status.value,
        "message": verdict.message,
        "started": verdict.started,
        "duration_s": verdict.duration_s,
        "begun": begun,
        "decided": decided,
    }
    connection.execute(tables().gate.insert().values(gate))


def _insert_outcomes(connection: Any, facts: GateFacts) -> None:
    from sqlalchemy import func, select

    table = tables().outcome
    # The write lock is held, so no one else takes these numbers.
    last = connection.execute(select(func.max(table.c.id))).scalar() or 0
    numbered = list(enumerate(facts.outcomes, last + 1))
    _insert(connection, table, [_outcome_row(facts, number, outcome) for number, outcome in numbered])
    measures = [
        _measure_row(number, position, measure)
        for number, outcome in numbered
        for position, measure in enumerate(outcome.measured)
    ]
    _insert(connection, tables().measurement, measures)


def _outcome_row(facts: GateFacts, number: int, outcome: Outcome) -> dict[str, Any]:
    main, *more = outcome.subjects
    return {
        "id": number,
        "run_id": facts.record.run_id,
        "gate": facts.verdict.gate,
        "check_id": outcome.check,
        "subject": main.name,
        "node": main.node,
        "more_subjects": json.dumps([subject.name for subject in more], ensure_ascii=False),
        "status": outcome.status.value,
        "rating": outcome.rating.value,
        "cause": outcome.cause,
        "summary": outcome.summary,
        "started": outcome.started,
        "duration_s": outcome.duration_s,
    }


def _measure_row(outcome_id: int, position: int, measure: Measure) -> dict[str, Any]:
    value = measure.value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return {
        "outcome_id": outcome_id,
        "position": position,
        "name": measure.name,
        "number": value if is_number else None,
        "text": "" if value is None else str(value),
        "unit": measure.unit,
    }


def _ledger_row(facts: GateFacts, entry: Pass) -> dict[str, Any]:
    return {
        "site": facts.site.name,
        "rehearsal": facts.rehearsal,
        "gate": entry.gate,
        "check_id": entry.check,
        "subject": entry.subject,
        "run_id": entry.run_id,
        "passed": entry.passed,
        "fingerprint": entry.fingerprint,
        "gate_passed": entry.gate_passed,
    }


def _pass(row: Mapping[str, Any], dependencies: Dependencies) -> Pass:
    names = ("gate", "subject", "run_id", "passed", "gate_passed")
    more = {name: row[name] for name in names}
    return Pass(check=row["check_id"], dependencies=dependencies, begun=int(row["begun"]), **more)


def _non_pass(row: Mapping[str, Any]) -> NonPass:
    """Return the saved data of a result that is not a pass; its subjects keep their names, not their kinds."""
    names = [(row["subject"], row["node"]), *((name, "") for name in json.loads(row["more_subjects"]))]
    outcome = Outcome(
        check=row["check_id"],
        gate=row["gate"],
        status=Status(row["status"]),
        rating=Rating(row["rating"]),
        subjects=tuple(Subject(SubjectKind.SITE, name, node) for name, node in names),
        summary=row["summary"],
        cause=row["cause"],
        hint="see its run",
    )
    text = f"{row['status']} ({row['cause'] or row['summary']})"
    return NonPass(
        gate=row["gate"], run_id=row["run_id"], seen=row["started"] or row["run_started"], text=text, outcome=outcome,
        order=_order(row),
    )  # fmt: skip


def _silence(row: Mapping[str, Any]) -> NonPass:
    observed = row["started"] or row["run_started"]
    text = f"{row['status']} ({row['message']})"
    return NonPass(gate=row["gate"], run_id=row["run_id"], seen=observed, text=text, order=_order(row))


def _order(row: Mapping[str, Any]) -> int:
    return int(row["begun"] if row["decided"] is None else row["decided"])


# All results about one node and its parts, run by run.

_MOST = 200


def said_of(store: Store, site: str, node: str, *, rehearsal: bool) -> tuple[Mapping[str, Any], ...]:
    """Return the newest results about a node and its parts that were no pass, oldest first.

    Each has `started` of the result, or of its run, `run_id`, `check_id`, `subject`, `status`, `cause` and `summary`.

    Raises:
        BringupError: the file cannot be read.
    """
    from sqlalchemy import func, select

    run, table = tables().run, tables().outcome
    when = func.coalesce(func.nullif(table.c.started, ""), run.c.started).label("when")
    columns = (table.c.run_id, table.c.check_id, table.c.subject, table.c.status, table.c.cause, table.c.summary, when)
    query = select(*columns).join(run, run.c.run_id == table.c.run_id)
    query = query.where(
        run.c.site == site,
        run.c.rehearsal.is_(rehearsal),
        table.c.node == node,
        table.c.status.in_((Status.FAILED.value, Status.OTHER.value)),
    )
    with our_errors(store.path), store.engine.begin() as connection:
        rows = connection.execute(query.order_by(when.desc(), table.c.id.desc()).limit(_MOST)).mappings().all()
    return tuple(reversed(rows))
