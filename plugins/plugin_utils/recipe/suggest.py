# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Suggestions for a query that the catalogue does not support: the nearest supported ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .criteria import Criteria, make_criteria
from .lattice import parts
from .model import Catalogue
from .support import not_honoured

_VALUES_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One supported query near another, and the changes that lead to it.

    A dimension in both `add` and `drop` gets another value. If that is the only change, `also` are further values.
    """

    criteria: Criteria
    add: tuple[tuple[str, str], ...]
    drop: tuple[tuple[str, str], ...]
    also: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[int, int, int, tuple[tuple[str, str], ...]]:
        """Fewest changes first. Then adding, dropping, another value, in this order: clusters are as they are."""
        wanted, given = {name for name, _value in self.add}, {name for name, _value in self.drop}
        return len(wanted | given), len(wanted & given), len(given - wanted), self.criteria.stated

    @property
    def kind(self) -> frozenset[tuple[str, str]]:
        """Which dimensions change, and how."""
        wanted, given = {name for name, _value in self.add}, {name for name, _value in self.drop}
        changes = (("add", wanted - given), ("replace", wanted & given), ("drop", given - wanted))
        return frozenset((name, how) for how, names in changes for name in names)

    def __str__(self) -> str:
        wanted, given = dict(self.add), dict(self.drop)
        changes = [f"add {name}={wanted[name]}" for name in wanted if name not in given]
        changes += [f"{name}={wanted[name]} instead of {given[name]}" for name in wanted if name in given]
        changes += [f"drop {name}={given[name]}" for name in given if name not in wanted]
        more = ", ".join(self.also[:_VALUES_SHOWN]) + (" …" if len(self.also) > _VALUES_SHOWN else "")
        return f"[{self.criteria}] ({', '.join(changes)}{f'; or {more}' if more else ''})"


def honoured_part(criteria: Criteria, catalogue: Catalogue) -> Criteria:
    """Return the largest supported part of a query. There is exactly one, and it may be empty."""
    while True:
        lost = not_honoured(criteria, catalogue)
        if not lost:
            return criteria
        criteria = Criteria(tuple(item for item in criteria.stated if item not in lost))


def _near(criteria: Criteria, catalogue: Catalogue) -> Iterator[Criteria]:
    """Yield queries near one: without criteria that no layer honours, with what these need, or with another value."""
    yield criteria
    configured = criteria.to_dict()
    known = parts(catalogue)
    for item in not_honoured(criteria, catalogue):
        for part in known:
            if item in part.stated:
                yield make_criteria({**configured, **part.to_dict()})
            elif item[0] in part.to_dict():
                yield make_criteria({**configured, item[0]: part.get(item[0])})


def suggestions(criteria: Criteria, catalogue: Catalogue, limit: int = 3) -> tuple[Suggestion, ...]:
    """Return the nearest supported queries, one for each kind of change."""
    found: dict[Criteria, Suggestion] = {}
    for near in dict.fromkeys(_near(criteria, catalogue)):
        candidate = honoured_part(near, catalogue)
        if candidate.stated and candidate not in found and not _unwanted(candidate, criteria, catalogue):
            add = tuple(item for item in candidate.stated if item not in criteria.stated)
            drop = tuple(item for item in criteria.stated if item not in candidate.stated)
            found[candidate] = Suggestion(criteria=candidate, add=add, drop=drop)
    nearest: dict[frozenset[tuple[str, str]], list[Suggestion]] = {}
    for suggestion in sorted(found.values(), key=lambda each: each.rank):
        # A superset of the changes of another suggestion is not near.
        if not any(kind < suggestion.kind for kind in nearest):
            nearest.setdefault(suggestion.kind, []).append(suggestion)
    return tuple(_joined(alike) for alike in list(nearest.values())[:limit])


def _unwanted(candidate: Criteria, criteria: Criteria, catalogue: Catalogue) -> bool:
    """Tell whether a query has an added value that is not suggested, such as a test cluster."""
    dimensions = catalogue.vocabulary.dimensions
    new = (item for item in candidate.stated if item not in criteria.stated)
    return any(value in dimensions[name].unsuggested for name, value in new)


def _joined(alike: list[Suggestion]) -> Suggestion:
    first = alike[0]
    if len(first.add) != 1:
        return first
    also = tuple(other.add[0][1] for other in alike[1:])
    return Suggestion(criteria=first.criteria, add=first.add, drop=first.drop, also=also)
