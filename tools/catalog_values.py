# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chart values that layers set: each must be one that the component is known to have.

Known is what the component's values files have and what the registry lists; another layer's word does not count, for
two may have the same typo.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import file_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.merge import merged_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.nearest import unknown_hint
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.paths import parse_path, shown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_text import Path
from tools.catalog_tree import Problem, Tree


def listed_paths(name: str, catalogue: Catalogue) -> list[str]:
    data = catalogue.registry[name].data
    scheduling = data.get("nodeScheduling") or {}
    parts = [scheduling.get("system") or {}, scheduling.get("accelerated") or {}]
    paths = [path for part in parts for listed in part.values() for path in listed or ()]
    return [*paths, *(scheduling.get("nodeCountPaths") or ()), *(data.get("knownPaths") or ())]


def _plant(tree: dict[str, Any], path: Path) -> None:
    for step in path[:-1]:
        below = tree.get(str(step))
        if not isinstance(below, dict):
            below = tree[str(step)] = {}
        tree = below
    tree.setdefault(str(path[-1]), None)


def known_values(name: str, catalogue: Catalogue) -> dict[str, Any]:
    """Return the values that a component is known to have; below a null or an empty one anything may be."""
    known: dict[str, Any] = {"enabled": True}
    for file in sorted(catalogue.files):
        if file.startswith(f"components/{name}/values"):
            known = merged_values(known, file_values(file, catalogue))
    for path in listed_paths(name, catalogue):
        _plant(known, parse_path(path))
    return known


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    words: tuple[tuple[Any, str], ...] = ((dict, "a mapping"), (list, "a list"), ((int, float), "a number"))
    return next((word for kinds, word in words if isinstance(value, kinds)), "a text")


def _differences(known: Any, given: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if given is None or known is None or known in ({}, []):
        return
    if _kind(known) != _kind(given):
        yield path, f"{shown(path)} must be {_kind(known)}, found {given!r}."
    elif isinstance(known, dict):
        for key, value in given.items():
            if key in known:
                yield from _differences(known[key], value, (*path, key))
            else:
                yield (*path, key), f"{shown((*path, key))} is not a known value. {unknown_hint(key, known)}"


def unknown_values(tree: Tree) -> Iterator[Problem]:
    """Every override addresses a value that its component has, and is of its type."""
    known = {name: known_values(name, tree.catalogue) for name in tree.catalogue.registry}
    for owner in tree.owners():
        for index, ref in enumerate(owner.fragment.components):
            for path, text in _differences(known[ref.name], dict(ref.overrides), ()):
                at = ("spec", "componentRefs", index, "overrides", *path)
                yield tree.at(owner, at, f"{ref.name}: {text}")
