# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What differs between two bundles: by component and value, else by file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..component_stack.model import components_of
from ..recipe.difference import Difference, difference_of
from ..recipe.paths import leaves, shown
from ..recipe.query import document_map
from ..runtime.redaction import holds_mask
from .content import SUMS
from .verify import about_of, files_in, recipe_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What differs: the recipes, who applies the bundles (empty: the same), files, and secrets that are in neither."""

    recipe: Difference
    deployers: tuple[str, ...]
    files: tuple[str, ...]
    not_compared: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Nothing differs."""
        return not self.files

    def lines(self) -> list[str]:
        """Return it for people: what the recipes differ in; files only where those do not explain them."""
        if self.same:
            return ["nothing differs"]
        lines = [f"deployer: {' -> '.join(self.deployers)}"] if self.deployers else []
        if not self.recipe.same:
            return lines + self.recipe.lines()
        return lines or ["files", *(f"  {path}" for path in self.files)]


def compare(left: Path, right: Path) -> Compared:
    """Return what differs from one bundle to another.

    Raises:
        NotFoundError: one is no bundle.
        InputError: one was changed since it was made.
    """
    recipes = recipe_of(left), recipe_of(right)
    deployers = tuple(str(about_of(side).get("deployer")) for side in (left, right))
    return Compared(
        recipe=difference_of(*(_map(recipe) for recipe in recipes)),
        deployers=deployers if deployers[0] != deployers[1] else (),
        files=tuple(_other_files(left, right)),
        not_compared=tuple(dict.fromkeys(place for recipe in recipes for place in _masked(recipe))),
    )


def _map(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe as a map of values, the objects of manifests by their titles among them."""
    found = document_map(recipe)
    for component in components_of(recipe):
        objects = {manifest.title: manifest.body for manifest in component.manifests}
        found["components"][component.name] |= {"objects": objects} if objects else {}
    return found


def _other_files(left: Path, right: Path) -> Iterator[str]:
    """Yield the files that are not the same in both; the list of digests follows from the others."""
    sides = [{*files_in(side)[0]} - {SUMS} for side in (left, right)]
    for path in sorted(sides[0] | sides[1]):
        if not (path in sides[0] and path in sides[1]) or (left / path).read_bytes() != (right / path).read_bytes():
            yield path


def _masked(recipe: Mapping[str, Any]) -> Iterator[str]:
    for entry in recipe["componentRefs"]:
        for path, value in leaves(entry["values"], scalar_lists=True):
            if holds_mask(value):
                yield f"{entry['name']}: {shown(path)}"
