# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which collectors of a snapshot readiness needs, by the constraints of the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..constraint.declared import declared_constraint
from ..outcome.gates import READINESS
from ..recipe.sections import section_of
from ..snapshot.measure import collectors_for


def collectors_needed(recipe: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the collectors whose facts the recipe's constraints and the kinds of GPU are measured by."""
    own = section_of(recipe, READINESS)
    entries = [*((recipe or {}).get("constraints") or ()), *(own.get("constraints") or ())]
    entries += [entry for pool in (recipe or {}).get("pools") or () for entry in pool.get("constraints") or ()]
    needed = {name for entry in entries for name in collectors_for(declared_constraint(entry).name)}
    return frozenset(needed | {"server", "nodes", "devices", "hosts"})
