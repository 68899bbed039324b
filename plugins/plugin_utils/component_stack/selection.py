# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Some components of a recipe by their names: what they need, and what needs them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ..outcome.errors import InputError
from ..recipe.nearest import unknown_hint
from .installation import Installed
from .model import Action, Component, Plan

# Actions of components that are installed already.
_THERE = (Action.UNCHANGED, Action.UPGRADE, Action.FOREIGN, Action.DOWNGRADE, Action.SKIPS)


def chosen_of(components: Collection[Component], names: Iterable[str]) -> tuple[Component, ...]:
    """Return the components with these names in deployment order. Without names, all of them.

    Raises:
        InputError: the recipe has no such component.
    """
    known, wanted = {component.name for component in components}, set(names)
    for name in sorted(wanted - known):
        raise InputError(f"components: {name}", "is no component of the recipe.", unknown_hint(name, known))
    return tuple(component for component in components if not wanted or component.name in wanted)


def with_needed(components: Collection[Component], chosen: Collection[Component]) -> tuple[Component, ...]:
    """Return these components and all that they need, directly or not, in deployment order."""
    wanted: set[str] = set()
    for component in reversed(tuple(components)):
        if component in chosen or component.name in wanted:
            wanted |= {component.name, *component.depends_on}
    return tuple(component for component in components if component.name in wanted)


def narrowed(plan: Plan, chosen: Collection[Component]) -> tuple[Plan, tuple[Component, ...], tuple[str, ...]]:
    """Return the plan of some components alone.

    Also return these components with only the dependencies among themselves, and one sentence for each other dependency
    that is not installed.

    Args:
        plan: plan of the components and all that they need.
        chosen: the components.
    """
    names = {component.name for component in chosen}
    missing = [step.component for step in plan.steps if step.component not in names and step.action not in _THERE]
    lacks = tuple(
        f"{component.name} needs {name}, which is not installed"
        for component in chosen
        for name in missing
        if name in component.depends_on
    )
    steps = tuple(step for step in plan.steps if step.component in names)
    alone = tuple(replace(each, depends_on=tuple(n for n in each.depends_on if n in names)) for each in chosen)
    return replace(plan, steps=steps), alone, lacks


def needed_by(components: Collection[Component], chosen: Collection[Component], found: Installed) -> tuple[str, ...]:
    """Return which installed components of ours need one of these, one sentence for each."""
    names = {component.name for component in chosen}
    return tuple(
        f"{name} is needed by {component.name}, which is installed"
        for component in components
        if component.name not in names and component.release in found.releases and found.is_ours(component.release)
        for name in component.depends_on
        if name in names
    )


def alone(found: Installed, chosen: Collection[Component]) -> Installed:
    """Return what is installed, limited to these components, so that all others count as staying."""
    keys = {component.release for component in chosen}
    return replace(found, releases={key: release for key, release in found.releases.items() if key in keys})


def namespaces_alone(
    namespaces: Iterable[str], components: Collection[Component], chosen: Collection[Component]
) -> tuple[str, ...]:
    """Return the namespaces that no other component of the recipe uses."""
    others = {name for component in components if component not in chosen for name in component.namespaces}
    return tuple(name for name in namespaces if name not in others)
