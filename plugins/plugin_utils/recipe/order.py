# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The deployment order: dependencies first, ties by name, so that one graph has one order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from ..outcome.errors import InputError
from .model import ComponentRef
from .nearest import unknown_hint


class DependencyError(InputError):
    """A dependency is missing from the recipe, or depends on the component itself. `edges` are those of the cycle."""

    def __init__(
        self, component: str, dependency: str, reason: str, hint: str, edges: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(f"component {component}", reason, hint)
        self.edges = edges or ((component, dependency),)


def find_cycle(edges: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return one cycle (`a`, `b`, `a`) of a graph of names. Empty if there is none."""
    finished: set[str] = set()
    for start in sorted(edges):
        trail: list[str] = []
        pending = [(start, iter(sorted(edges.get(start, ()))))] if start not in finished else []
        while pending:
            node, neighbours = pending[-1]
            if not trail or trail[-1] != node:
                trail.append(node)
            following = next((name for name in neighbours if name in edges and name not in finished), None)
            if following is None:
                finished.add(node)
                pending.pop()
                trail.pop()
            elif following in trail:
                return (*trail[trail.index(following) :], following)
            else:
                pending.append((following, iter(sorted(edges.get(following, ())))))
    return ()


def sorted_graph(edges: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the names so that each comes after those that it needs. Ties are broken by name.

    Raises:
        InputError: a cycle.
    """
    needs = {name: {need for need in sorted(wanted) if need in edges} for name, wanted in edges.items()}
    dependents: dict[str, list[str]] = {name: [] for name in edges}
    for name, wanted in needs.items():
        for need in wanted:
            dependents[need].append(name)
    missing = {name: len(wanted) for name, wanted in needs.items()}
    ready = [name for name, count in missing.items() if count == 0]
    heapq.heapify(ready)
    result: list[str] = []
    while ready:
        name = heapq.heappop(ready)
        result.append(name)
        for dependent in dependents[name]:
            missing[dependent] -= 1
            if missing[dependent] == 0:
                heapq.heappush(ready, dependent)
    if len(result) != len(edges):
        cycle = find_cycle(edges)
        reason = f"the dependencies form a cycle: {' -> '.join(cycle)}."
        raise DependencyError(cycle[0], cycle[1], reason, "Remove one of them.", tuple(pairwise(cycle)))
    return tuple(result)


def deployment_order(components: Sequence[ComponentRef]) -> tuple[str, ...]:
    """Return the names of the enabled components, dependencies first.

    A dependency on a disabled component is met, because that component is provided from outside.

    Raises:
        InputError: a dependency that the recipe does not have, or a cycle.
    """
    declared = {component.name for component in components}
    for component in components:
        for name in component.dependency_refs:
            if name not in declared:
                reason = f"depends on {name!r}, which is not a component of this recipe."
                raise DependencyError(component.name, name, reason, unknown_hint(name, declared))
    enabled = {component.name: component.dependency_refs for component in components if component.enabled}
    return sorted_graph(enabled)
