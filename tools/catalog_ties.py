# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ties: two layers that one question can get, neither inheriting from the other, that set the same thing differently.

Between directories one rule decides: a more specific layer wins, and of equally specific ones that of the later
directory. So a private layer that is less specific than one that sets the same loses, and is told.

In one directory it would depend on their names, or on which further layers the question gets. Mixins are merged after
all layers, so a mixin must not set what a layer that comes with it sets differently, unless that layer is an ancestor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import ComponentRef, Fragment, Layer, Mixin
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import specificity
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_text import Path
from tools.catalog_tree import Problem, Tree

_FIELDS = ("namespace", "chart", "type", "source", "version", "tag", "path", "values_file")


@dataclass(frozen=True)
class Write:
    """One value that a layer sets itself, or by a mixin that it names."""

    layer: Layer
    mixin: Mixin | None
    value: Any
    path: Path

    @property
    def name(self) -> str:
        """Who sets it, for people."""
        return f"{self.layer.name} (mixin {self.mixin.name})" if self.mixin is not None else self.layer.name


def _leaves(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(data, dict) and data:
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
    else:
        yield path, data


def _component(ref: ComponentRef, index: int) -> Iterator[tuple[Path, Path, Any]]:
    at: Path = ("spec", "componentRefs", index)
    for field in _FIELDS:
        if getattr(ref, field):
            yield ("component", ref.name, field), at, getattr(ref, field)
    if ref.overrides:
        for path, value in _leaves(dict(ref.overrides)):
            yield ("values", ref.name, *path), (*at, "overrides", *path), value


def _set(fragment: Fragment) -> Iterator[tuple[Path, Path, Any]]:
    """Everything that a fragment sets: what it is, where in the file, and the value. Lists that are united do not."""
    for index, constraint in enumerate(fragment.constraints):
        yield ("constraint", constraint.name), ("spec", "constraints", index), constraint.value
    for index, ref in enumerate(fragment.components):
        yield from _component(ref, index)
    for name, phase in fragment.validation.items():
        if phase.timeout:
            yield ("timeout", name), ("spec", "validation", name), phase.timeout


def _writes(tree: Tree) -> dict[Path, list[Write]]:
    found: dict[Path, list[Write]] = {}
    for layer in tree.catalogue.layers.values():
        for what, at, value in _set(layer.fragment):
            found.setdefault(what, []).append(Write(layer, None, value, at))
        for name in layer.mixins:
            mixin = tree.catalogue.mixins[name]
            for what, at, value in _set(mixin.fragment):
                found.setdefault(what, []).append(Write(layer, mixin, value, at))
    return found


def _by_chance(tree: Tree, one: Write, other: Write) -> bool:
    """Whether it is not said which of two writes wins, or the wrong one does."""
    if one.mixin is not None and other.mixin is not None and one.mixin.name == other.mixin.name:
        return False
    if (one.mixin is None) == (other.mixin is None):
        mine, theirs = one.layer.name, other.layer.name
        if one.layer.root != other.layer.root and _later_wins(tree, one.layer, other.layer):
            return False
        return not (tree.inherits(mine, theirs) or tree.inherits(theirs, mine))
    mixed, plain = (one, other) if one.mixin is not None else (other, one)
    return not tree.inherits(mixed.layer.name, plain.layer.name)


def _later_wins(tree: Tree, one: Layer, other: Layer) -> bool:
    """Whether the layer of the later directory wins, whatever is asked.

    A layer is merged together with what inherits from it, so all of that must be no more specific.
    """
    later, earlier = (one, other) if one.root > other.root else (other, one)
    return not any(_winners(tree, earlier, later))


def _winners(tree: Tree, earlier: Layer, later: Layer) -> Iterator[Layer]:
    """Yield the layer of the earlier directory, and what inherits from it, where it is more specific than the later."""
    for heir in (earlier, *tree.descendants(earlier)):
        if heir.criteria is not None and tree.together(heir, later) and specificity(heir) > specificity(later):
            yield heir


def ties(tree: Tree) -> Iterator[Problem]:
    """Nothing is set differently by two layers of which neither is the other's ancestor."""
    writes = _writes(tree)
    for what, places in writes.items():
        shorter = [place for length in range(2, len(what)) for place in writes.get(what[:length], ())]
        pairs = [*combinations(places, 2), *((place, above) for place in places for above in shorter)]
        for one, other in pairs:
            if one.value == other.value or not tree.together(one.layer, other.layer):
                continue
            if _by_chance(tree, one, other):
                words = ".".join(str(step) for step in what[1:])
                # Where it is to be corrected: in the later directory.
                later, earlier = (other, one) if other.layer.root > one.layer.root else (one, other)
                text = (
                    f"{words} is {one.value!r} by {one.name} and {other.value!r} by {other.name}, which do not inherit"
                    f"{_who_wins(tree, earlier, later)}."
                )
                yield tree.at(later.mixin or later.layer, later.path, text)


def _who_wins(tree: Tree, earlier: Write, later: Write) -> str:
    """Return which layer wins over one of a later directory, and what to do; empty within one directory."""
    if earlier.layer.root == later.layer.root:
        return ""
    winners = [layer.name for layer in _winners(tree, earlier.layer, later.layer)]
    if not winners:
        return ""
    named = ", ".join(winners[:3]) + (f" and {len(winners) - 3} more" if len(winners) > 3 else "")
    wins = "is" if len(winners) == 1 else "are"
    return (
        f"; {named} {wins} more specific, so {earlier.name} wins there. Fix: set it also in a layer of yours "
        f"that has the criteria of {winners[0]}"
    )
