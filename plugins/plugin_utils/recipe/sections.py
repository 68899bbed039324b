# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The section `validation` of a resolved recipe, phase by phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Capability of a site whose recipe has constraints in phases after readiness. A run whose gates were judged before
# these existed does not have it, and is judged as it was.
PHASE_CONSTRAINTS = "phase_constraints"


def section_of(recipe: Mapping[str, Any] | None, phase: str) -> Mapping[str, Any]:
    """Return `validation.<phase>` of a recipe. Empty without a recipe or without that section."""
    section: Mapping[str, Any] = ((recipe or {}).get("validation") or {}).get(phase) or {}
    return section


def asks_nothing(recipe: Mapping[str, Any] | None, phase: str) -> bool:
    """Tell whether a recipe explicitly requests no check for a phase: by an empty list or by an empty section.

    An empty section is left in a resolved recipe if a layer empties its lists.
    """
    section = ((recipe or {}).get("validation") or {}).get(phase)
    return isinstance(section, Mapping) and (not section or section.get("checks") == [])


def constraints_of(recipe: Mapping[str, Any] | None, phase: str) -> list[Mapping[str, Any]]:
    """Return the constraints of `validation.<phase>` of a recipe, as they are written."""
    return list(section_of(recipe, phase).get("constraints") or ())


# The shape that every reader of a resolved recipe relies on: its parts, those of a component and of a phase.
_LISTS_OF_MAPPINGS = ("componentRefs", "constraints", "pools")
_MAPPINGS = ("criteria", "validation", "metadata")


def shape_problem(recipe: Mapping[str, Any]) -> str:
    """Return in which way a resolved recipe does not have the shape that its readers rely on. Empty if it has.

    So a file that was truncated or edited is refused with one sentence.
    """
    return next(_misshapen(recipe), "")


def _misshapen(recipe: Mapping[str, Any]) -> Iterator[str]:
    whole = [name for name in _LISTS_OF_MAPPINGS if not _are_mappings(recipe.get(name))]
    yield from (f"{name} is no list of mappings." for name in whole)
    yield from (f"{name} is no mapping." for name in _MAPPINGS if not isinstance(recipe.get(name) or {}, Mapping))
    for entry in recipe["componentRefs"] if not whole and recipe.get("componentRefs") else ():
        if not isinstance(entry.get("name"), str) or not isinstance(entry.get("values") or {}, Mapping):
            yield "an entry of componentRefs has no name, or values that are no mapping."
        if not _are_mappings(entry.get("manifests")) or not isinstance(entry.get("dependencyRefs") or [], list):
            yield f"manifests or dependencyRefs of component {entry.get('name')} are no lists."
    sections = recipe.get("validation") or {}
    for phase, section in sections.items() if isinstance(sections, Mapping) else ():
        if not isinstance(section or {}, Mapping):
            yield f"validation.{phase} is no mapping."
        elif section and not (
            _are_mappings(section.get("constraints")) and isinstance(section.get("checks") or [], list)
        ):
            yield f"constraints or checks of validation.{phase} are no lists."


def _are_mappings(value: Any) -> bool:
    return isinstance(value or [], list) and all(isinstance(entry, Mapping) for entry in value or [])
