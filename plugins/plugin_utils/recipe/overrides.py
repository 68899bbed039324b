# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values that a user sets over a recipe: typed, and checked against the known values of the component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..outcome.errors import BringupError, InputError, ProblemsError
from .hydrate import component_values, file_values
from .merge import merged_values
from .model import Catalogue, ComponentRef, RecipeResult
from .nearest import nearest, unknown_hint
from .order import deployment_order
from .paths import parse_path, shown
from .yaml_text import Path, scalar


def component_name(given: str, names: Sequence[str], catalogue: Catalogue) -> str:
    """Return the component that a user means by its name, its name without hyphens, or one of its keys.

    Raises:
        InputError: it is none of the recipe.
    """
    if given in names:
        return given
    for name in names:
        entry = catalogue.registry.get(name)
        keys = (entry.data.get("valueOverrideKeys") or ()) if entry is not None else ()
        if given == name.replace("-", "") or given in keys:
            return name
    raise InputError(f"overrides {given}", "is not a component of this recipe.", unknown_hint(given, names))


class Written(str):
    """A value as written in an assignment. It gets the type of the value that it replaces, or else that of YAML."""

    __slots__ = ()


_FORM = "for example gpu-operator:driver.version=580.105.08"


def parse_assignment(text: str) -> tuple[str, Path, Written]:
    """Return component, path and value of `component:path=value`.

    Raises:
        InputError: it has another form.
    """
    component, colon, rest = text.partition(":")
    path, equals, value = rest.partition("=")
    if not (component and colon and path and equals):
        raise InputError(f"override {text!r}", "is not of the form component:path=value.", _FORM)
    return component.strip(), parse_path(path), Written(value)


def _known(name: str, component: ComponentRef, catalogue: Catalogue) -> dict[str, Any]:
    """Return everything that is known to be settable, merged into one tree of values."""
    known: dict[str, Any] = {}
    for file in sorted(catalogue.files):
        if file.startswith(f"components/{name}/values") and file.endswith((".yaml", ".yml")):
            known = merged_values(known, file_values(file, catalogue))
    fragments = [layer.fragment for layer in catalogue.layers.values()]
    fragments += [mixin.fragment for mixin in catalogue.mixins.values()]
    for fragment in fragments:
        for other in fragment.components:
            known = merged_values(known, other.overrides) if other.name == name else known
    for path in _registry_paths(name, catalogue):
        _plant(known, parse_path(path))
    return merged_values(merged_values(known, component_values(component, catalogue)), {"enabled": True})


def _registry_paths(name: str, catalogue: Catalogue) -> list[str]:
    entry = catalogue.registry.get(name)
    if entry is None:
        return []
    paths = list(entry.data.get("knownPaths") or ())
    scheduling = entry.data.get("nodeScheduling") or {}
    for part in ("system", "accelerated"):
        for listed in (scheduling.get(part) or {}).values():
            paths += listed or ()
    return paths + list(scheduling.get("nodeCountPaths") or ())


def _plant(tree: dict[str, Any], path: Path) -> None:
    """Make a path known. Its value may be anything."""
    for step in path[:-1]:
        below = tree.setdefault(str(step), {})
        if not isinstance(below, dict):
            return
        tree = below
    tree.setdefault(str(path[-1]), None)


def _paths(tree: Any, path: Path = ()) -> list[str]:
    found = [shown(path)] if path else []
    if isinstance(tree, dict):
        for key, value in tree.items():
            found += _paths(value, (*path, key))
    return found


def _typed(given: Any, known: Any) -> Any:
    """Return values in which every Written has a type. A version that looks like a number stays a text."""
    if isinstance(given, Written):
        return str(given) if isinstance(known, str) else scalar(str(given))
    if isinstance(given, Mapping):
        below = known if isinstance(known, dict) else {}
        return {key: _typed(value, below.get(key)) for key, value in given.items()}
    return given


def _check(component: str, known: Any, given: Any, path: Path, problems: list[BringupError], root: Any) -> None:
    """Compare a given value with the known tree. Anything is allowed below a null, an empty mapping or a list."""
    if known is None or known in ({}, []) or given is None:
        return
    at = f"overrides {component}:{shown(path)}"
    if isinstance(known, dict):
        if not isinstance(given, dict):
            problems.append(InputError(at, f"must be a mapping, found {given!r}."))
            return
        for key, value in given.items():
            if key in known:
                _check(component, known[key], value, (*path, key), problems, root)
                continue
            wanted = shown((*path, key))
            near = nearest(wanted, _paths(root))
            hint = f"Did you mean {near}?" if near else f"There is: {', '.join(sorted(known))}."
            problems.append(InputError(f"overrides {component}:{wanted}", "is not a known value.", hint))
    elif _word(known) != _word(given):
        problems.append(InputError(at, f"must be {_word(known)}, found {given!r}.", f"It is {known!r} now."))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "a text"


def with_overrides(
    result: RecipeResult, catalogue: Catalogue, overrides: Mapping[str, Any], *, check: bool = True
) -> RecipeResult:
    """Return the recipe with a user's values over those of every layer. `enabled: false` leaves a component out.

    Raises:
        ProblemsError: all unknown components and paths and all wrong types, each with the nearest known name.
    """
    problems: list[BringupError] = []
    components = {component.name: component for component in result.components}
    for given, values in overrides.items():
        try:
            name = component_name(given, list(components), catalogue)
        except InputError as error:
            problems.append(error)
            continue
        if not isinstance(values, Mapping):
            problems.append(InputError(f"overrides {name}", f"must be a mapping of values, found {values!r}."))
            continue
        known = _known(name, components[name], catalogue)
        typed = _typed(values, known)
        if check:
            _check(name, known, typed, (), problems, known)
        merged = merged_values(components[name].overrides, typed)
        components[name] = replace(components[name], overrides=merged)
    if problems:
        raise ProblemsError("overrides", tuple(problems))
    changed = tuple(components[name] for name in sorted(components))
    return replace(result, components=changed, order=deployment_order(changed))


def as_mapping(assignments: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return `component:path=value` texts as a mapping of overrides. Their types are set by with_overrides.

    Raises:
        InputError: a text has another form, or one text sets a value and another one something below it.
    """
    result: dict[str, dict[str, Any]] = {}
    for text in assignments:
        component, path, value = parse_assignment(text)
        tree = result.setdefault(component, {})
        for step in path[:-1]:
            below = tree.setdefault(str(step), {})
            if not isinstance(below, dict):
                raise InputError(f"override {text!r}", f"lies below {step}, which another one sets to a value.")
            tree = below
        if isinstance(tree.get(str(path[-1])), dict):
            raise InputError(f"override {text!r}", "replaces what another one sets below it.")
        tree[str(path[-1])] = value
    return result
