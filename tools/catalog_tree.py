# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A loaded catalogue together with the lines of its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.document import line_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import BASE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue, Layer, Mixin
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import chain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_text import Path as DataPath
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_text import positions


@dataclass(frozen=True)
class Problem:
    """One problem, and `file:line` of where it is."""

    place: str
    text: str

    @property
    def sort_key(self) -> tuple[str, int, str]:
        """By file, then by line."""
        file, _mark, line = self.place.rpartition(":")
        return (file, int(line), self.text) if line.isdecimal() else (self.place, 0, self.text)


class Tree:
    """A catalogue, who inherits from whom in it, and where in its files everything is."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._lines: dict[str, dict[DataPath, tuple[int, str]]] = {}

    def layers(self) -> Iterator[Layer]:
        """The layers above base."""
        return (layer for layer in self.catalogue.layers.values() if layer.name != BASE)

    def owners(self) -> Iterator[Layer | Mixin]:
        """Everything that adds something to recipes."""
        yield from self.catalogue.layers.values()
        yield from self.catalogue.mixins.values()

    @cached_property
    def _ancestors(self) -> dict[str, frozenset[str]]:
        found = {layer.name: frozenset(up.name for up in chain(layer, self.catalogue)[:-1]) for layer in self.layers()}
        return {name: names | {BASE} for name, names in found.items()} | {BASE: frozenset()}

    def inherits(self, layer: str, other: str) -> bool:
        """Whether a layer inherits from another one."""
        return other in self._ancestors[layer]

    def descendants(self, layer: Layer) -> Iterator[Layer]:
        """The layers that inherit from a layer."""
        return (other for other in self.layers() if self.inherits(other.name, layer.name))

    def together(self, one: Layer, other: Layer) -> bool:
        """Whether one question can get both layers."""
        return any(_compatible(mine, theirs) for mine in self._asked(one) for theirs in self._asked(other))

    def _asked(self, layer: Layer) -> list[dict[str, str]]:
        """The criteria by which a layer is reached; one that is only a parent is reached by its children's."""
        if layer.name == BASE:
            return [{}]
        if layer.criteria is not None:
            return [layer.criteria.to_dict()]
        return [child.criteria.to_dict() for child in self.descendants(layer) if child.criteria is not None]

    def at(self, owner: Layer | Mixin, path: DataPath, text: str) -> Problem:
        """A problem at a value of a layer or a mixin."""
        return self._problem(owner.file, path, text)

    def component_at(self, owner: Layer | Mixin, name: str, text: str) -> Problem:
        """A problem of a component: where the layer has it, else at the layer."""
        names = [ref.name for ref in owner.fragment.components]
        path: DataPath = ("spec", "componentRefs", names.index(name)) if name in names else ("metadata", "name")
        return self.at(owner, path, text)

    def registry_at(self, path: DataPath, text: str) -> Problem:
        """A problem at a value of the registry."""
        return self._problem(str(self.catalogue.files["registry.yaml"]), path, text)

    def _problem(self, file: str, path: DataPath, text: str) -> Problem:
        if file not in self._lines:
            self._lines[file] = positions(Path(file).read_text(encoding="utf-8"), file)
        return Problem(f"{file}:{line_of(self._lines[file], path)}", text)


def _compatible(one: dict[str, str], other: dict[str, str]) -> bool:
    return all(other.get(name, value) == value for name, value in one.items())
