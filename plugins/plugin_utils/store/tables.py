# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tables of the history. Built in a function: import sanity has no SQLAlchemy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from .baseline_tables import accepted_figure, withdrawal
from .service_tables import ServiceTables, service_tables


@dataclass(frozen=True, slots=True)
class Tables:
    """SQLAlchemy's metadata and the tables in it."""

    metadata: Any
    schema_version: Any
    run: Any
    gate: Any
    outcome: Any
    measurement: Any
    ledger: Any
    fingerprint: Any
    service: ServiceTables
    accepted_figure: Any
    withdrawal: Any


@cache
def tables() -> Tables:
    """Return the tables as this release writes them."""
    from sqlalchemy import Column, Integer, MetaData, Table

    metadata = MetaData()
    return Tables(
        metadata=metadata,
        schema_version=Table("schema_version", metadata, Column("version", Integer, nullable=False)),
        run=_run(metadata),
        gate=_gate(metadata),
        outcome=_outcome(metadata),
        measurement=_measurement(metadata),
        ledger=_ledger(metadata),
        fingerprint=_fingerprint(metadata),
        service=service_tables(metadata),
        accepted_figure=accepted_figure(metadata),
        withdrawal=withdrawal(metadata),
    )


def _run(metadata: Any) -> Any:
    from sqlalchemy import Boolean, Column, Integer, String, Table

    return Table(
        "run",
        metadata,
        Column("run_id", String, primary_key=True),
        Column("site", String, nullable=False),
        Column("rehearsal", Boolean, nullable=False),
        Column("started", String, nullable=False),
        Column("scope", String, nullable=False),
        Column("nodes", Integer, nullable=False),
        Column("quarantined", Integer, nullable=False),
    )


def _gate(metadata: Any) -> Any:
    from sqlalchemy import Column, Float, ForeignKey, Integer, String, Table

    return Table(
        "gate",
        metadata,
        Column("run_id", ForeignKey("run.run_id"), primary_key=True),
        Column("gate", String, primary_key=True),
        Column("status", String, nullable=False),
        Column("message", String, nullable=False),
        Column("started", String, nullable=False),
        Column("duration_s", Float, nullable=False),
        # Places in the order in which the history was written; `decided` is empty until the gate is recorded.
        Column("begun", Integer, nullable=False, server_default="0"),
        Column("decided", Integer),
    )


def _outcome(metadata: Any) -> Any:
    from sqlalchemy import Column, Float, Index, Integer, String, Table

    return Table(
        "outcome",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("run_id", String, nullable=False),
        Column("gate", String, nullable=False),
        Column("check_id", String, nullable=False),
        Column("subject", String, nullable=False),
        Column("node", String, nullable=False),
        # Names beside the first one, as a JSON list.
        Column("more_subjects", String, nullable=False),
        Column("status", String, nullable=False),
        Column("rating", String, nullable=False),
        Column("cause", String, nullable=False),
        Column("summary", String, nullable=False),
        Column("started", String, nullable=False),
        Column("duration_s", Float, nullable=False),
        Index("outcome_of_gate", "run_id", "gate"),
    )


def _measurement(metadata: Any) -> Any:
    from sqlalchemy import Column, Float, ForeignKey, Integer, String, Table

    return Table(
        "measurement",
        metadata,
        Column("outcome_id", ForeignKey("outcome.id", ondelete="CASCADE"), primary_key=True),
        Column("position", Integer, primary_key=True),
        Column("name", String, nullable=False),
        # A figure has both: the number to compute with, the text as it was written.
        Column("number", Float),
        Column("text", String, nullable=False),
        Column("unit", String, nullable=False),
    )


def _ledger(metadata: Any) -> Any:
    from sqlalchemy import Boolean, Column, String, Table

    return Table(
        "ledger",
        metadata,
        Column("site", String, primary_key=True),
        Column("rehearsal", Boolean, primary_key=True),
        Column("gate", String, primary_key=True),
        Column("check_id", String, primary_key=True),
        Column("subject", String, primary_key=True),
        Column("run_id", String, primary_key=True),
        Column("passed", String, nullable=False),
        Column("fingerprint", String, nullable=False),
        Column("gate_passed", Boolean, nullable=False),
    )


def _fingerprint(metadata: Any) -> Any:
    """The facts of a digest, so that a change can be named. Many passes share one row."""
    from sqlalchemy import Column, String, Table

    return Table(
        "fingerprint",
        metadata,
        Column("digest", String, primary_key=True),
        Column("facts", String, nullable=False),
    )
