# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tables of the history, of baselines and of a cluster in service."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

# The tables of baselines: figures of each acceptance, and withdrawn acceptances. Rows are only added.


def accepted_figure(metadata: Any) -> Any:
    """Return the table of accepted figures. They are copies: measurements of runs may be deleted by age."""
    from sqlalchemy import Column, Float, ForeignKey, Integer, String, Table

    return Table(
        "accepted_figure",
        metadata,
        Column("acceptance_id", ForeignKey("acceptance.id"), primary_key=True),
        Column("position", Integer, primary_key=True),
        Column("gate", String, nullable=False),
        Column("figure", String, nullable=False),
        Column("subject", String, nullable=False),
        Column("node", String, nullable=False),
        Column("number", Float, nullable=False),
        Column("unit", String, nullable=False),
        # Names and words, as a JSON object.
        Column("conditions", String, nullable=False),
    )


def withdrawal(metadata: Any) -> Any:
    """Return the table of withdrawn acceptances: who, when, why."""
    from sqlalchemy import Column, ForeignKey, String, Table

    return Table(
        "withdrawal",
        metadata,
        Column("acceptance_id", ForeignKey("acceptance.id"), primary_key=True),
        Column("who", String, nullable=False),
        Column("withdrawn", String, nullable=False),
        Column("why", String, nullable=False),
    )


# The tables of a cluster in service: cycles, results of nodes, leases, classes, cordons, acceptances.


@dataclass(frozen=True, slots=True)
class ServiceTables:
    """The tables that version 5 of the schema added."""

    cycle: Any
    node_result: Any
    node_last: Any
    node_part: Any
    node_day: Any
    node_day_figure: Any
    node_class: Any
    lease: Any
    cordon: Any
    acceptance: Any
    node_first: Any

    @property
    def every(self) -> tuple[Any, ...]:
        """All tables in dependency order: referenced ones first."""
        return (
            self.cycle, self.node_result, self.node_last, self.node_part, self.node_day, self.node_day_figure,
            self.node_class, self.lease, self.cordon, self.acceptance, self.node_first,
        )  # fmt: skip


def service_tables(metadata: Any) -> ServiceTables:
    """Return the tables, made in that metadata."""
    return ServiceTables(
        cycle=_cycle(metadata),
        node_result=_node_result(metadata),
        node_last=_node_last(metadata),
        node_part=_node_part(metadata),
        node_day=_node_day(metadata),
        node_day_figure=_node_day_figure(metadata),
        node_class=_node_class(metadata),
        lease=_lease(metadata),
        cordon=_cordon(metadata),
        acceptance=_acceptance(metadata),
        node_first=_node_first(metadata),
    )


def _whose() -> tuple[Any, Any]:
    """Return the columns of the site of a row; simulated hardware is never mixed with real."""
    from sqlalchemy import Boolean, Column, String

    return Column("site", String, primary_key=True), Column("rehearsal", Boolean, primary_key=True)


def _cycle(metadata: Any) -> Any:
    from sqlalchemy import Boolean, Column, Index, String, Table

    return Table(
        "cycle",
        metadata,
        Column("cycle_id", String, primary_key=True),
        Column("site", String, nullable=False),
        Column("rehearsal", Boolean, nullable=False),
        Column("started", String, nullable=False),
        Column("controller", String, nullable=False),
        Column("ended", String, nullable=False),
        Column("note", String, nullable=False),
        Index("cycle_of_site", "site", "rehearsal", "started"),
    )


def _node_result(metadata: Any) -> Any:
    from sqlalchemy import Column, Float, ForeignKey, Index, Integer, String, Table

    return Table(
        "node_result",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("cycle_id", ForeignKey("cycle.cycle_id"), nullable=False),
        Column("node", String, nullable=False),
        Column("test", String, nullable=False),
        # A test that was given back to a user may be tried again in the same cycle.
        Column("attempt", Integer, nullable=False),
        Column("started_s", Float, nullable=False),
        Column("duration_s", Float, nullable=False),
        Column("status", String, nullable=False),
        Column("rating", String, nullable=False),
        Column("cause", String, nullable=False),
        Column("summary", String, nullable=False),
        Column("cohort", String, nullable=False),
        # Digests of table fingerprint: a node has the same parts, and computes the same, day after day.
        Column("parts", ForeignKey("fingerprint.digest"), nullable=False),
        Column("digests", ForeignKey("fingerprint.digest"), nullable=False),
        # JSON: one row is one result, whole or not there.
        Column("figures", String, nullable=False),
        Column("log", String, nullable=False),
        Index("node_result_of_cycle", "cycle_id", "node", "test", "attempt", unique=True),
        Index("node_result_of_node", "node", "started_s"),
        Index("node_result_by_time", "started_s"),
    )


def _node_last(metadata: Any) -> Any:
    """Which result of a node and test is the newest of its kind, so that a query need not scan a year of them."""
    from sqlalchemy import Column, Float, ForeignKey, String, Table

    return Table(
        "node_last",
        metadata,
        *_whose(),
        Column("kind", String, primary_key=True),
        Column("node", String, primary_key=True),
        Column("test", String, primary_key=True),
        Column("result_id", ForeignKey("node_result.id"), nullable=False),
        Column("started_s", Float, nullable=False),
    )


def _node_part(metadata: Any) -> Any:
    """Since when a part is in a slot of a node, and when it was last observed there."""
    from sqlalchemy import Column, Float, String, Table

    return Table(
        "node_part",
        metadata,
        *_whose(),
        Column("node", String, primary_key=True),
        Column("slot", String, primary_key=True),
        Column("since_s", Float, primary_key=True),
        Column("part", String, nullable=False),
        Column("seen_s", Float, nullable=False),
    )


def _node_day(metadata: Any) -> Any:
    """How many results of a node, test and day (UTC) retention removed."""
    from sqlalchemy import Column, Integer, String, Table

    return Table(
        "node_day",
        metadata,
        *_whose(),
        Column("day", String, primary_key=True),
        Column("node", String, primary_key=True),
        Column("test", String, primary_key=True),
        Column("status", String, primary_key=True),
        Column("results", Integer, nullable=False),
    )


def _node_day_figure(metadata: Any) -> Any:
    """The figures of passed results of a node, test and day that retention removed."""
    from sqlalchemy import Column, Float, Integer, String, Table

    return Table(
        "node_day_figure",
        metadata,
        *_whose(),
        Column("day", String, primary_key=True),
        Column("node", String, primary_key=True),
        Column("test", String, primary_key=True),
        Column("cohort", String, primary_key=True),
        # The part's identity where the figure names one: a swapped part shares no row with the one before.
        Column("part", String, primary_key=True),
        Column("name", String, primary_key=True),
        Column("unit", String, primary_key=True),
        Column("results", Integer, nullable=False),
        Column("lowest", Float, nullable=False),
        Column("highest", Float, nullable=False),
        Column("total", Float, nullable=False),
    )


def _node_class(metadata: Any) -> Any:
    from sqlalchemy import Column, ForeignKey, String, Table

    return Table(
        "node_class",
        metadata,
        Column("cycle_id", ForeignKey("cycle.cycle_id"), primary_key=True),
        Column("node", String, primary_key=True),
        Column("word", String, nullable=False),
        # Sentences as a JSON list.
        Column("reasons", String, nullable=False),
        Column("action", String, nullable=False),
    )


def _lease(metadata: Any) -> Any:
    from sqlalchemy import Column, Float, ForeignKey, String, Table

    return Table(
        "lease",
        metadata,
        *_whose(),
        Column("node", String, primary_key=True),
        Column("test", String, primary_key=True),
        Column("cycle_id", ForeignKey("cycle.cycle_id"), nullable=False),
        Column("until_s", Float, nullable=False),
    )


def _cordon(metadata: Any) -> Any:
    from sqlalchemy import Boolean, Column, Index, Integer, String, Table

    return Table(
        "cordon",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("site", String, nullable=False),
        Column("rehearsal", Boolean, nullable=False),
        Column("node", String, nullable=False),
        Column("by", String, nullable=False),
        Column("reason", String, nullable=False),
        Column("since", String, nullable=False),
        Column("lifted", String, nullable=False),
        Index("cordon_of_node", "site", "rehearsal", "node"),
    )


def _acceptance(metadata: Any) -> Any:
    """Who accepted the figures of a run as the baseline; rows are only added."""
    from sqlalchemy import Boolean, Column, Integer, String, Table

    return Table(
        "acceptance",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("site", String, nullable=False),
        Column("rehearsal", Boolean, nullable=False),
        Column("run_id", String, nullable=False),
        Column("what", String, nullable=False),
        Column("who", String, nullable=False),
        Column("accepted", String, nullable=False),
        Column("why", String, nullable=False),
    )


def _node_first(metadata: Any) -> Any:
    """The first values of a figure of a part and cohort, kept for ever: retention removes the results."""
    from sqlalchemy import Column, Float, Integer, String, Table

    return Table(
        "node_first",
        metadata,
        *_whose(),
        Column("node", String, primary_key=True),
        Column("test", String, primary_key=True),
        Column("cohort", String, primary_key=True),
        # The part's identity where the figure names one: a swapped part begins anew.
        Column("part", String, primary_key=True),
        Column("name", String, primary_key=True),
        # As a speed: more is better.
        Column("middle", Float, nullable=False),
        Column("spread", Float, nullable=False),
        Column("results", Integer, nullable=False),
        Column("since_s", Float, nullable=False),
    )


# The tables of the history. Built in a function: import sanity has no SQLAlchemy.


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
    """Return the tables of this release."""
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
