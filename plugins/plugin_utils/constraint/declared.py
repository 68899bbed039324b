# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Constraints as a resolved recipe writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..outcome.errors import InputError
from .model import Constraint, Quantifier, Severity


def declared_constraint(entry: Mapping[str, Any]) -> Constraint:
    """Return an entry of a recipe's constraints.

    Raises:
        InputError: it is none.
    """
    try:
        return Constraint(
            name=str(entry["name"]),
            value=str(entry["value"]),
            severity=Severity(entry.get("severity") or "error"),
            remediation=str(entry.get("remediation") or ""),
            unit=str(entry.get("unit") or ""),
            nodes=Quantifier(entry.get("nodes") or ""),
        )
    except (KeyError, ValueError) as error:
        raise InputError(
            "recipe constraints", f"{entry!r} is not a constraint: {error}.", "correct the recipe"
        ) from None
