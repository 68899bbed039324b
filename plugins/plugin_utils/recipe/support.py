# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which questions the catalogue answers, and what to say about one that it does not.

Resolution itself falls back quietly to less specific layers, as upstream does; this is the policy above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..outcome.errors import InputError
from .criteria import Criteria, make_criteria
from .model import Catalogue, RecipeResult
from .resolve import applied_layers


class Unsupported(str, Enum):
    """What a question does that has a criterion which no layer honours."""

    ERROR = "error"
    WARN = "warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One supported combination near a question, and how to get there from it."""

    criteria: Criteria
    add: tuple[tuple[str, str], ...]
    drop: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        wanted, given = dict(self.add), dict(self.drop)
        changes = [f"add {name}={wanted[name]}" for name in wanted if name not in given]
        changes += [f"{name}={wanted[name]} instead of {given[name]}" for name in wanted if name in given]
        changes += [f"drop {name}={given[name]}" for name in given if name not in wanted]
        return f"[{self.criteria}] ({', '.join(changes)})"


def indifferent(criteria: Criteria, catalogue: Catalogue) -> frozenset[str]:
    """Return the dimensions whose value does not matter to the layers of a question, or that are only told."""
    layers = applied_layers(criteria, catalogue)
    dimensions = catalogue.vocabulary.dimensions
    advisory = {name for name, _value in criteria.stated if dimensions[name].advisory}
    return frozenset(advisory.union(*(layer.regardless_of for layer in layers)))


def not_honoured(criteria: Criteria, catalogue: Catalogue) -> tuple[tuple[str, str], ...]:
    """Return the stated criteria that no applied layer asks for and that some layer would have to."""
    layers = applied_layers(criteria, catalogue)
    honoured = {item for layer in layers if layer.criteria is not None for item in layer.criteria.stated}
    free = indifferent(criteria, catalogue)
    return tuple(item for item in criteria.stated if item not in honoured and item[0] not in free)


def supported_combinations(catalogue: Catalogue) -> tuple[Criteria, ...]:
    """Return every combination that a layer of the catalogue is for, without repetition, in a stable order."""
    found = {layer.criteria for layer in catalogue.layers.values() if layer.criteria is not None}
    usable = {criteria for criteria in found if criteria.stated and not not_honoured(criteria, catalogue)}
    return tuple(sorted(usable, key=lambda criteria: (criteria.specificity, criteria.stated)))


def suggestions(criteria: Criteria, catalogue: Catalogue, limit: int = 3) -> tuple[Suggestion, ...]:
    """Return the nearest supported combinations: fewest changes first, then those that keep most of the question."""
    stated = set(criteria.stated)
    ranked = []
    for candidate in supported_combinations(catalogue):
        wanted = set(candidate.stated)
        free = indifferent(candidate, catalogue)
        drop = sorted(item for item in stated - wanted if item[0] not in free)
        add = sorted(wanted - stated)
        steps = len({name for name, _value in (*add, *drop)})
        ranked.append(((steps, len(drop), candidate.stated), candidate, tuple(add), tuple(drop)))
    ranked.sort(key=lambda entry: entry[0])
    return tuple(Suggestion(criteria=found, add=add, drop=drop) for _key, found, add, drop in ranked[:limit])


def unsupported_reason(criteria: Criteria, catalogue: Catalogue) -> tuple[str, str]:
    """Return what is not supported about a question and what would be; two empty texts if all of it is."""
    lost = not_honoured(criteria, catalogue)
    if not lost:
        return "", ""
    words = ", ".join(f"{name}={value}" for name, value in lost)
    near = "; ".join(str(suggestion) for suggestion in suggestions(criteria, catalogue))
    return f"no recipe is for {criteria}: no layer that fits honours {words}.", f"Nearest supported: {near}."


def require_supported(result: RecipeResult, catalogue: Catalogue, policy: Unsupported) -> tuple[str, ...]:
    """Return warnings about criteria that nothing honours.

    Raises:
        InputError: there are some and the policy is error.
    """
    reason, hint = unsupported_reason(result.criteria, catalogue)
    if not reason:
        return ()
    if policy is Unsupported.ERROR:
        raise InputError("criteria", reason, hint)
    return (f"criteria: {reason} {hint}",)


def relaxed(criteria: Criteria, catalogue: Catalogue, detected: frozenset[str]) -> Criteria:
    """Return criteria without those that were only detected and that nothing honours; stated ones stay."""
    lost = {name for name, _value in not_honoured(criteria, catalogue)} & detected
    return make_criteria({name: value for name, value in criteria.stated if name not in lost})
