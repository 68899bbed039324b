# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proves the recipe catalogue: every layer resolves, nothing dangles, nothing is decided by chance.

Prints every problem with its file and line. A directory may be given: a whole catalogue instead of recipes/, or private
data, which is proved over recipes/. The exit status is 1 if there is a problem, 3 if there is no such directory.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.evaluate import parse_version
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import BASE, load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Layer, Mixin
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.order import find_cycle
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import chain, resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.tree import catalogue_directories
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from tools.catalog_ties import ties
from tools.catalog_tree import Problem, Tree
from tools.catalog_values import unknown_values
from tools.chart_proven import FILE as PROVEN
from tools.chart_proven import notes

MAX_DEPTH = 10
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_EXACT = re.compile(r"v?\d+(\.\d+){1,2}(-[0-9A-Za-z.-]+)?")
_IMAGE = re.compile(r"^\s*(?:- )?image:\s*[\"']?([^\s\"'#]+)")
_VERSION_BESIDE = re.compile(r"^\s*version:\s*[\"']?(?:[a-z-]+-v)?\d")


def depth(tree: Tree) -> Iterator[Problem]:
    """No chain is longer than people can follow."""
    for layer in tree.layers():
        length = len(chain(layer, tree.catalogue)) + 1
        if length > MAX_DEPTH:
            yield tree.at(layer, ("spec", "base"), f"its chain has {length} layers; at most {MAX_DEPTH}.")


def resolvable(tree: Tree) -> Iterator[Problem]:
    """The question that each layer is for gives a complete recipe."""
    for layer in tree.layers():
        if layer.criteria is None or not layer.criteria.stated:
            continue
        try:
            recipe = hydrated(resolve(layer.criteria, tree.catalogue), tree.catalogue)
        except BringupError as error:
            yield tree.at(layer, ("spec", "criteria"), f"the recipe for {layer.criteria} does not resolve: {error}")
            continue
        for entry in recipe["componentRefs"]:
            name, namespace = entry["name"], entry.get("namespace", "")
            if not _NAMESPACE.fullmatch(namespace):
                yield tree.component_at(layer, name, f"{name} has no valid namespace, found {namespace!r}.")


def consistent(tree: Tree) -> Iterator[Problem]:
    """A layer is for a part of what its parent is for, and somebody can ask for it."""
    for layer in tree.layers():
        parent = tree.catalogue.layers.get(layer.base) if layer.base else None
        if layer.criteria is None:
            if not any(child.criteria is not None for child in tree.descendants(layer)):
                yield tree.at(layer, ("spec",), "no question reaches it: it and its children have no criteria.")
        elif parent is not None and parent.criteria is not None:
            missing = set(parent.criteria.stated) - set(layer.criteria.stated)
            if missing:
                words = ", ".join(f"{name}={value}" for name, value in sorted(missing))
                yield tree.at(
                    layer, ("spec", "criteria"), f"it would bring in its parent {parent.name} without {words}."
                )


def unused(tree: Tree) -> Iterator[Problem]:
    """Every mixin, component and file is named by somebody."""
    named = {name for layer in tree.catalogue.layers.values() for name in layer.mixins}
    for mixin in tree.catalogue.mixins.values():
        if mixin.name not in named:
            yield tree.at(mixin, ("metadata", "name"), f"no layer names the mixin {mixin.name}.")
    components = [ref for owner in tree.owners() for ref in owner.fragment.components]
    known = {ref.name for ref in components}
    for index, name in enumerate(tree.catalogue.registry):
        if name not in known:
            yield tree.registry_at(("components", index, "name"), f"no layer and no mixin has the component {name}.")
    files = {file for ref in components for file in (ref.values_file, *ref.manifest_files, *ref.pre_manifest_files)}
    for file, path in tree.catalogue.files.items():
        if file.startswith("components/") and file not in files and not file.endswith(f"/{PROVEN}"):
            yield Problem(f"{path}:1", "nothing names this file.")


def _inherited(tree: Tree, layer: Layer) -> list[Layer]:
    return [tree.catalogue.layers[BASE], *chain(layer, tree.catalogue)[:-1]]


def loosened(tree: Tree) -> Iterator[Problem]:
    """A layer never asks for less than the layers that it inherits from."""
    for layer in tree.layers():
        floors = {item.name: item.value for up in _inherited(tree, layer) for item in up.fragment.constraints}
        for index, item in enumerate(layer.fragment.constraints):
            before = floors.get(item.name, "")
            if not (before.startswith(">=") and item.value.startswith(">=")):
                continue
            low, high = (parse_version(value.removeprefix(">=").strip()) for value in (item.value, before))
            if low.compare(high) < 0:
                text = f"{item.name} {item.value} asks for less than {before}, which it inherits."
                yield tree.at(layer, ("spec", "constraints", index), text)


def pinned(tree: Tree) -> Iterator[Problem]:
    """Every chart, Kustomize source and image has one exact version."""
    for index, entry in enumerate(tree.catalogue.registry.values()):
        if "manifest" in entry.data:
            continue
        tool, key = ("kustomize", "defaultTag") if entry.is_kustomize else ("helm", "defaultVersion")
        version = entry.default(tool, key)
        if not _EXACT.fullmatch(version):
            text = f"{entry.name} is not pinned: {version or 'no version'}."
            yield tree.registry_at(("components", index, tool, key), text)
    for owner in tree.owners():
        for index, ref in enumerate(owner.fragment.components):
            for key in ("version", "tag"):
                if getattr(ref, key) and not _EXACT.fullmatch(getattr(ref, key)):
                    text = f"{ref.name} is not pinned: {getattr(ref, key)}."
                    yield tree.at(owner, ("spec", "componentRefs", index, key), text)
    yield from _images(tree)


def _images(tree: Tree) -> Iterator[Problem]:
    for file, path in tree.catalogue.files.items():
        if not (file.startswith("components/") and "/manifests/" in file):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            found = _IMAGE.match(line)
            if found is None or "@sha256:" in found[1]:
                continue
            tag = found[1].rpartition("/")[2].partition(":")[2]
            beside = any(_VERSION_BESIDE.match(near) for near in lines[number : number + 1])
            if tag in ("", "latest") and not beside:
                yield Problem(f"{path}:{number}", f"the image {found[1]} is not pinned.")


def acyclic(tree: Tree) -> Iterator[Problem]:
    """Dependencies form no cycle, whichever layers come together: all of them at once do not."""
    edges: dict[str, set[str]] = {}
    places: dict[tuple[str, str], tuple[Layer | Mixin, int]] = {}
    for owner in tree.owners():
        for index, ref in enumerate(owner.fragment.components):
            for needed in ref.dependency_refs:
                edges.setdefault(ref.name, set()).add(needed)
                places.setdefault((ref.name, needed), (owner, index))
    cycle = find_cycle({name: sorted(edges.get(name, ())) for name in tree.catalogue.registry})
    if cycle:
        owner, index = places[cycle[0], cycle[1]]
        text = f"the dependencies form a cycle: {' -> '.join(cycle)}."
        yield tree.at(owner, ("spec", "componentRefs", index, "dependencyRefs"), text)


def thresholds(tree: Tree) -> Iterator[Problem]:
    """Expected performance is computed from hardware facts, never typed into a layer."""
    for owner in tree.owners():
        phase = owner.fragment.validation.get("performance")
        if phase is not None and phase.constraints:
            text = "a layer states no performance: it is computed from recipes/hardware/ and recipes/thresholds/."
            yield tree.at(owner, ("spec", "validation", "performance", "constraints"), text)


RULES = (depth, resolvable, consistent, unused, ties, loosened, pinned, acyclic, unknown_values, thresholds)


def problems_of(directory: Path) -> list[Problem]:
    """Return every problem of a catalogue, in the order of its files.

    A directory without a base layer is private data: it is proved as it is used, over the collection's own catalogue,
    and only what is in it is told.
    """
    directory = directory.resolve()
    directories = (directory,) if directory == RECIPES.resolve() else catalogue_directories([directory])
    try:
        tree = Tree(load_catalogue(directories))
    except ProblemsError as error:
        return [Problem(problem.subject, problem.reason) for problem in error.problems]
    found = {problem for rule in RULES for problem in rule(tree)}
    found |= {problem for warning in tree.catalogue.warnings for problem in _warning(warning)}
    inside = (problem for problem in found if problem.place.startswith(str(directory)))
    return sorted(inside, key=lambda problem: problem.sort_key)


def _warning(text: str) -> Iterator[Problem]:
    """A warning of the loader as a problem; unread files of components have a rule of their own, with each file."""
    place, _mark, reason = text.partition(": ")
    names = reason.removeprefix("nothing reads ").partition(":")[0].split(", ")
    if not all(name.startswith("components/") for name in names):
        yield Problem(place, reason)


def main(arguments: Sequence[str]) -> int:
    """Print the problems, or how much was proved in how long."""
    began = time.monotonic()
    directory = Path(arguments[0]) if arguments else RECIPES
    try:
        problems = problems_of(directory)
    except BringupError as error:
        print(f"catalog-check: {error}")
        return error.exit_code
    for problem in problems:
        print(f"{problem.place}: {problem.text}")
    if problems:
        print(f"catalog-check: FAILED: {len(problems)} problem(s)")
        return 1
    if directory.resolve() == RECIPES.resolve():
        for note in notes(directory, load_catalogue([directory])):
            print(f"note: {note}")
    count = len(list((directory / "overlays").rglob("*.yaml")))
    print(f"catalog-check: passed: {count} layers, {len(RULES)} rules, {time.monotonic() - began:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
