# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The section `validation` of a resolved recipe, phase by phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Capability of a site whose recipe states constraints of a phase after readiness. A run whose gates were judged before
# these were has none, and is judged as it was.
PHASE_CONSTRAINTS = "phase_constraints"


def section_of(recipe: Mapping[str, Any] | None, phase: str) -> Mapping[str, Any]:
    """Return what `validation.<phase>` of a recipe says, empty where there is no recipe or it says nothing."""
    section: Mapping[str, Any] = ((recipe or {}).get("validation") or {}).get(phase) or {}
    return section


def asks_nothing(recipe: Mapping[str, Any] | None, phase: str) -> bool:
    """Tell whether a recipe states that a phase asks no check: by an empty list, or by an empty section, which is
    what a layer that empties its lists leaves of it in a resolved recipe."""
    section = ((recipe or {}).get("validation") or {}).get(phase)
    return isinstance(section, Mapping) and (not section or section.get("checks") == [])


def constraints_of(recipe: Mapping[str, Any] | None, phase: str) -> list[Mapping[str, Any]]:
    """Return the constraints below `validation.<phase>` of a recipe, as they are written."""
    return list(section_of(recipe, phase).get("constraints") or ())
