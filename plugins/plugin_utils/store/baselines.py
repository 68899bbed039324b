# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The baselines of a history: figures that people accepted, and withdrew. Rows are only added, never changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..outcome.errors import InputError, NotFoundError
from ..verdict.baseline import AcceptedFigure
from ..verdict.figures import Figure
from .database import Place, open_database, our_errors
from .records import Acceptance
from .tables import tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """Who withdrew an acceptance, when (UTC) and why."""

    who: str
    withdrawn: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRun:
    """One acceptance with its number, its figures by gate, and who withdrew it, if it was withdrawn."""

    number: int
    acceptance: Acceptance
    figures: tuple[AcceptedFigure, ...]
    withdrawal: Withdrawal | None = None


@dataclass(frozen=True, slots=True)
class BaselineStore:
    """An open history. Every method is one transaction; nothing stays open in between."""

    place: Place
    engine: Any

    def accept(self, acceptance: Acceptance, figures: Mapping[str, Sequence[Figure]]) -> int:
        """Add the accepted figures, by gate, and return the number of the acceptance.

        Raises:
            BringupError: name, time or reason is missing, or the history cannot be written.
        """
        row = asdict(acceptance)
        _require("acceptance of a baseline", row, ("site", "run_id", "who", "accepted", "why"))
        table = tables().service.acceptance
        with our_errors(self.place), self.engine.begin() as connection:
            number = int(connection.execute(table.insert().values(row)).inserted_primary_key[0])
            placed = enumerate((gate, figure) for gate, own in figures.items() for figure in own)
            rows = [_row(number, position, gate, figure) for position, (gate, figure) in placed]
            if rows:
                connection.execute(tables().accepted_figure.insert(), rows)
        return number

    def withdraw(self, number: int, withdrawal: Withdrawal) -> None:
        """Withdraw an acceptance.

        Raises:
            BringupError: there is none of that number, it was withdrawn before, name, time or reason is missing, or the
                history cannot be written.
        """
        row = asdict(withdrawal)
        _require("withdrawal of a baseline", row, tuple(row))
        with our_errors(self.place), self.engine.begin() as connection:
            _require_holding(connection, number)
            connection.execute(tables().withdrawal.insert().values(acceptance_id=number, **row))

    def require_holding(self, number: int) -> None:
        """Refuse an acceptance that cannot be withdrawn; nothing is written.

        Raises:
            BringupError: there is none of that number, or it was withdrawn before.
        """
        with our_errors(self.place), self.engine.begin() as connection:
            _require_holding(connection, number)

    def accepted_runs(self, site: str, *, rehearsal: bool) -> tuple[AcceptedRun, ...]:
        """Return every acceptance of that site, oldest first, including withdrawn ones.

        Raises:
            BringupError: the history cannot be read.
        """
        from sqlalchemy import select

        acceptance, figure, withdrawal = tables().service.acceptance, tables().accepted_figure, tables().withdrawal
        mine = (acceptance.c.site == site, acceptance.c.rehearsal.is_(rehearsal))
        heads = select(acceptance).where(*mine).order_by(acceptance.c.id)
        figures = select(figure).join(acceptance, acceptance.c.id == figure.c.acceptance_id).where(*mine)
        taken = select(withdrawal).join(acceptance, acceptance.c.id == withdrawal.c.acceptance_id).where(*mine)
        with our_errors(self.place), self.engine.begin() as connection:
            rows = list(connection.execute(heads).mappings())
            order = (figure.c.acceptance_id, figure.c.position)
            measured = list(connection.execute(figures.order_by(*order)).mappings())
            back = {row["acceptance_id"]: row for row in connection.execute(taken).mappings()}
        by_number: dict[int, list[Any]] = {}
        for row in measured:
            by_number.setdefault(row["acceptance_id"], []).append(row)
        return tuple(_accepted_run(row, by_number.get(row["id"], []), back.get(row["id"])) for row in rows)

    def accepted_figures(self, site: str, *, rehearsal: bool) -> tuple[AcceptedFigure, ...]:
        """Return the valid accepted figures, the newest of each subject and conditions.

        Raises:
            BringupError: the history cannot be read.
        """
        newest: dict[tuple[str, str, str], AcceptedFigure] = {}
        for run in self.accepted_runs(site, rehearsal=rehearsal):
            for entry in run.figures if run.withdrawal is None else ():
                figure = entry.figure
                newest[figure.figure, figure.subject, _conditions(figure)] = entry
        return tuple(newest.values())


def open_baselines(place: Place) -> BaselineStore:
    """Return the baselines of the history at that place; it is created if it is not there.

    Raises:
        BringupError: SQLAlchemy is missing, or the file is damaged, not ours, too new or cannot be written.
    """
    return BaselineStore(place, open_database(place))


def _require_holding(connection: Any, number: int) -> None:
    from sqlalchemy import select

    acceptance, table = tables().service.acceptance, tables().withdrawal
    if connection.execute(select(acceptance.c.id).where(acceptance.c.id == number)).first() is None:
        raise NotFoundError(f"acceptance {number}", "is not in the history.", "list them with baseline_info")
    before = connection.execute(select(table.c.who).where(table.c.acceptance_id == number)).first()
    if before is not None:
        raise InputError(f"acceptance {number}", f"was taken back by {before[0]} before.", "nothing is left to do")


def _require(what: str, row: Mapping[str, Any], names: Sequence[str]) -> None:
    missing = [name for name in names if not row[name].strip()]
    if missing:
        raise InputError(what, f"lacks {', '.join(missing)}.", "say who does it and why")


def _row(number: int, position: int, gate: str, figure: Figure) -> dict[str, Any]:
    return {
        "acceptance_id": number,
        "position": position,
        "gate": gate,
        "figure": figure.figure,
        "subject": figure.subject,
        "node": figure.node,
        "number": figure.value,
        "unit": figure.unit,
        "conditions": _conditions(figure),
    }


def _conditions(figure: Figure) -> str:
    return json.dumps(dict(figure.conditions), ensure_ascii=False, sort_keys=True)


def _accepted_run(head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], back: Any) -> AcceptedRun:
    acceptance = Acceptance(**{name: head[name] for name in head if name != "id"})
    words = {name: back[name] for name in ("who", "withdrawn", "why")} if back is not None else None
    return AcceptedRun(
        number=head["id"],
        acceptance=acceptance,
        figures=tuple(_accepted_figure(row, acceptance) for row in rows),
        withdrawal=Withdrawal(**words) if words else None,
    )


def _accepted_figure(row: Mapping[str, Any], acceptance: Acceptance) -> AcceptedFigure:
    figure = Figure(
        figure=row["figure"],
        subject=row["subject"],
        node=row["node"],
        value=row["number"],
        unit=row["unit"],
        conditions=json.loads(row["conditions"]),
    )
    return AcceptedFigure(
        figure=figure, gate=row["gate"], run_id=acceptance.run_id, who=acceptance.who, accepted=acceptance.accepted
    )
