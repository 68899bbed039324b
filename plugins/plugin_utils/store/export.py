# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The results of a site as tables for other programs: CSV, and Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from ..outcome.errors import NotFoundError
from ..runtime.files import file_mode, file_to_write, make_dirs, writing
from .database import our_errors
from .service import ServiceStore
from .tables import tables

FORMATS = ("csv", "parquet")
_AT_A_TIME = 5000
# What a spreadsheet would take for a formula; output of node tests is none.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_TEXT = ("cycle_id", "node", "test")
_RESULT = {
    **dict.fromkeys(_TEXT, str), "started_s": float, "duration_s": float, "status": str, "rating": str, "cause": str,
    "summary": str, "cohort": str, "log": str,
}  # fmt: skip
_FIGURE = {**dict.fromkeys(_TEXT, str), "started_s": float, "part": str, "name": str, "number": float, "unit": str}
_DAY = {"day": str, "node": str, "test": str, "status": str, "results": int}
_DAY_FIGURE = {
    "day": str, "node": str, "test": str, "cohort": str, "part": str, "name": str, "unit": str, "results": int,
    "lowest": float, "highest": float, "total": float,
}  # fmt: skip
# What gates decided and found; their times are UTC as in a run record.
_GATE = {
    **dict.fromkeys(("run_id", "gate", "status", "message", "started"), str), "duration_s": float,
}  # fmt: skip
_CHECKED = dict.fromkeys(("run_id", "gate", "check_id", "subject", "node", "started"), str)
_GATE_RESULT = {
    **_CHECKED, "duration_s": float, **dict.fromkeys(("more_subjects", "status", "rating", "cause", "summary"), str),
}  # fmt: skip
_GATE_FIGURE = {**_CHECKED, "name": str, "number": float, "text": str, "unit": str}
Row = Mapping[str, Any]


def export(store: ServiceStore, site: str, dest: Path, formats: tuple[str, ...], *, rehearsal: bool) -> dict[str, int]:
    """Write the files of a site's results, figures and rolled up days, and of its gates, and return the rows of each.

    Raises:
        BringupError: the history cannot be read, a file cannot be written, or pyarrow is missing for Parquet.
    """
    if "parquet" in formats:
        _pyarrow()
    rows: dict[str, tuple[Mapping[str, type], Callable[[], Iterator[Row]]]] = {
        "results": (_RESULT, lambda: _results(store, site, rehearsal)),
        "figures": (_FIGURE, lambda: _figures(store, site, rehearsal)),
        "days": (_DAY, lambda: map(asdict, store.days(site, rehearsal=rehearsal))),
        "day_figures": (_DAY_FIGURE, lambda: map(asdict, store.day_figures(site, rehearsal=rehearsal))),
        "gates": (_GATE, lambda: _of_gates(store, site, rehearsal, "gate")),
        "gate_results": (_GATE_RESULT, lambda: _of_gates(store, site, rehearsal, "result")),
        "gate_figures": (_GATE_FIGURE, lambda: _of_gates(store, site, rehearsal, "figure")),
    }
    written: dict[str, int] = {}
    for name, (columns, read) in rows.items():
        for form in formats:
            path = dest / f"{name}.{form}"
            meant = file_to_write(path)
            with writing(path):
                make_dirs(dest)
                part = meant.with_name(f".{meant.name}.part")
                try:
                    written[path.name] = (_csv if form == "csv" else _parquet)(part, columns, read())
                    part.chmod(file_mode(dest))
                    part.replace(meant)
                finally:
                    part.unlink(missing_ok=True)
    return written


def sites_with_runs(store: ServiceStore, *, rehearsal: bool) -> tuple[str, ...]:
    """Return the names of the sites whose gates recorded a run.

    Raises:
        BringupError: the history cannot be read.
    """
    from sqlalchemy import select

    run = tables().run
    with our_errors(store.path), store.engine.begin() as connection:
        query = select(run.c.site).where(run.c.rehearsal.is_(rehearsal)).distinct()
        return tuple(sorted(connection.execute(query).scalars()))


def _of_gates(store: ServiceStore, site: str, rehearsal: bool, what: str) -> Iterator[Row]:
    """Yield the rows of the gates of the site's runs (`gate`, `result` or `figure`), oldest run first.

    One run at a time, so that no writer has to wait.
    """
    from sqlalchemy import select

    run, gate, outcome, measurement = tables().run, tables().gate, tables().outcome, tables().measurement
    whose = [outcome.c[name] for name in _CHECKED]
    queries: Mapping[str, tuple[Any, Any]] = {
        "gate": (select(gate).order_by(gate.c.begun), gate),
        "result": (select(outcome).order_by(outcome.c.id), outcome),
        "figure": (
            select(*whose, measurement)
            .join(outcome, outcome.c.id == measurement.c.outcome_id)
            .order_by(outcome.c.id, measurement.c.position),
            outcome,
        ),
    }
    query, table = queries[what]
    mine = select(run.c.run_id).where(run.c.site == site, run.c.rehearsal.is_(rehearsal))
    with our_errors(store.path), store.engine.begin() as connection:
        runs = connection.execute(mine.order_by(run.c.started, run.c.run_id)).scalars().all()
    for run_id in runs:
        with our_errors(store.path), store.engine.begin() as connection:
            page = connection.execute(query.where(table.c.run_id == run_id)).mappings().all()
        yield from page


def _results(store: ServiceStore, site: str, rehearsal: bool) -> Iterator[Row]:
    """Yield the results in the order in which they were written, one page at a time, so that no writer has to wait."""
    from sqlalchemy import select

    cycle, table = tables().service.cycle, tables().service.node_result
    query = select(table).join(cycle, cycle.c.cycle_id == table.c.cycle_id).order_by(table.c.id).limit(_AT_A_TIME)
    query = query.where(cycle.c.site == site, cycle.c.rehearsal.is_(rehearsal))
    last = 0
    while True:
        with our_errors(store.path), store.engine.begin() as connection:
            page = connection.execute(query.where(table.c.id > last)).mappings().all()
        if not page:
            return
        yield from page
        last = page[-1]["id"]


def _figures(store: ServiceStore, site: str, rehearsal: bool) -> Iterator[Row]:
    for row in _results(store, site, rehearsal):
        whose = {name: row[name] for name in (*_TEXT, "started_s")}
        for name, number, unit, part in json.loads(row["figures"]):
            yield {**whose, "part": part, "name": name, "number": number, "unit": unit}


def _csv(path: Path, columns: Mapping[str, type], rows: Iterator[Row]) -> int:
    number = 0
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([_cell(row[name]) for name in columns])
            number += 1
        handle.flush()
        os.fsync(handle.fileno())
    return number


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _parquet(path: Path, columns: Mapping[str, type], rows: Iterator[Row]) -> int:
    arrow, parquet = _pyarrow()
    kinds = {str: arrow.string(), float: arrow.float64(), int: arrow.int64()}
    schema = arrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
    number = 0
    with parquet.ParquetWriter(path, schema) as writer:
        page: list[dict[str, Any]] = []
        for row in rows:
            page.append({name: row[name] for name in columns})
            if len(page) == _AT_A_TIME:
                writer.write_table(arrow.Table.from_pylist(page, schema=schema))
                number, page = number + len(page), []
        writer.write_table(arrow.Table.from_pylist(page, schema=schema))
    return number + len(page)


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        hint = "pip install pyarrow, or export csv alone"
        raise NotFoundError("Python package pyarrow", "is not installed; it writes Parquet.", hint) from None
