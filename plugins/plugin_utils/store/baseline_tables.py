# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The tables of baselines: figures of each acceptance, and acceptances that were taken back. Rows are only added."""

from __future__ import annotations

from typing import Any


def accepted_figure(metadata: Any) -> Any:
    """Return the table of accepted figures. They are copies: measurements of runs may be thinned out by age."""
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
    """Return the table of acceptances that were taken back: who, when, why."""
    from sqlalchemy import Column, ForeignKey, String, Table

    return Table(
        "withdrawal",
        metadata,
        Column("acceptance_id", ForeignKey("acceptance.id"), primary_key=True),
        Column("who", String, nullable=False),
        Column("withdrawn", String, nullable=False),
        Column("why", String, nullable=False),
    )
