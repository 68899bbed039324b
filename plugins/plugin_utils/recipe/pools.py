# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Several GPU pools in one cluster: one recipe for the cluster, with a part for each pool."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..outcome.errors import BringupError, InputError, ProblemsError
from .criteria import Criteria, make_criteria
from .hydrate import component_values, constraint_data, hydrated
from .model import Catalogue, ComponentRef, RecipeResult, copied
from .order import deployment_order
from .resolve import resolve
from .tree import read_text

# Fields that one cluster has once: a chart is installed in one version from one source.
_ONCE = ("chart", "version", "source", "namespace", "type", "tag", "path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool of GPU nodes: its criteria, and the labels that select its nodes."""

    name: str
    criteria: Criteria
    node_selector: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledRecipe:
    """The recipe of the whole cluster, and the recipe of each pool."""

    result: RecipeResult
    pools: tuple[tuple[Pool, RecipeResult], ...]


def common_criteria(criteria: Sequence[Criteria]) -> Criteria:
    """Return the criteria that all of these state with the same value."""
    shared = set(criteria[0].stated).intersection(*(item.stated for item in criteria[1:]))
    return make_criteria(dict(shared))


def resolve_pools(pools: Sequence[Pool], catalogue: Catalogue) -> PooledRecipe:
    """Return one recipe for several pools. Their criteria are complete.

    A component that any pool needs is part of the recipe. The rest comes from the criteria that all pools share.

    Raises:
        InputError: no pool, two of one name, or no criterion that all pools state.
        ProblemsError: pools need different charts or versions of one component, or define one object differently.
    """
    if not pools or len({pool.name for pool in pools}) < len(pools):
        raise InputError("pools", "need at least one pool, and a name of its own for each.")
    common = resolve(common_criteria([pool.criteria for pool in pools]), catalogue)
    resolved = tuple((pool, resolve(pool.criteria, catalogue)) for pool in pools)
    problems: list[BringupError] = []
    components = {component.name: component for component in common.components}
    for pool, result in resolved:
        for component in result.components:
            components[component.name] = _joined(components.get(component.name), component, pool.name, problems)
    problems += same_objects(resolved, catalogue)
    if problems:
        raise ProblemsError("pools", tuple(problems))
    ordered = tuple(components[name] for name in sorted(components))
    layers = tuple(dict.fromkeys([*common.layers, *(name for _pool, result in resolved for name in result.layers)]))
    mixins = tuple(dict.fromkeys([*common.mixins, *(name for _pool, result in resolved for name in result.mixins)]))
    whole = replace(common, components=ordered, order=deployment_order(ordered), layers=layers, mixins=mixins)
    return PooledRecipe(result=whole, pools=resolved)


def same_objects(resolved: Sequence[tuple[Pool, RecipeResult]], catalogue: Catalogue) -> list[BringupError]:
    """Return a problem for every object that files of two pools define: the one applied last would win."""
    problems: list[BringupError] = []
    defined: dict[tuple[str, ...], tuple[str, str]] = {}
    for pool, result in resolved:
        for component in result.components:
            for file in (*component.pre_manifest_files, *component.manifest_files) if component.enabled else ():
                for name in _objects(file, catalogue):
                    first = defined.setdefault((component.name, *name), (file, pool.name))
                    if first[0] != file:
                        reason = (
                            f"{component.name} defines {name[0]} {name[1]} in {file}, pool {first[1]} in {first[0]}; "
                            "one cluster has one of it."
                        )
                        hint = "give it another name and the pool's node selector in a private file, or leave one out"
                        problems.append(InputError(f"pool {pool.name}", reason, hint))
    return problems


_KIND = re.compile(r"^kind:[ \t]*[\"']?(\w+)", re.MULTILINE)
# In block style or in flow style, at any place among the other fields.
_NAME = re.compile(
    r"^metadata:(?:.*\bname:|(?:\n[ \t]+.*|\n[ \t]*#.*)*?\n[ \t]+name:)[ \t]*[\"']?([^\s\"'},]+)", re.MULTILINE
)


def _objects(file: str, catalogue: Catalogue) -> list[tuple[str, str]]:
    """Return kind and name of a file's objects, read by pattern: a file with template expressions is no YAML."""
    path = catalogue.files.get(file)
    found = []
    for document in re.split(r"^---", read_text(path) if path is not None else "", flags=re.MULTILINE):
        kind, name = _KIND.search(document), _NAME.search(document)
        if kind and name:
            found.append((kind[1], name[1]))
    return found


def _joined(
    known: ComponentRef | None, component: ComponentRef, pool: str, problems: list[BringupError]
) -> ComponentRef:
    if known is None:
        return component
    for name in _ONCE:
        if getattr(known, name) != getattr(component, name):
            reason = f"{component.name} has {name} {getattr(component, name)!r}, the others {getattr(known, name)!r}."
            problems.append(InputError(f"pool {pool}", reason, "One cluster has one release of a component."))
    needs = tuple(dict.fromkeys((*known.dependency_refs, *component.dependency_refs)))
    files = tuple(dict.fromkeys((*known.manifest_files, *component.manifest_files)))
    before = tuple(dict.fromkeys((*known.pre_manifest_files, *component.pre_manifest_files)))
    return replace(known, dependency_refs=needs, manifest_files=files, pre_manifest_files=before)


def changed_values(common: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return what must be merged over `common` to get `own`. A key that `own` lacks becomes null."""
    changes: dict[str, Any] = {key: None for key in common if key not in own}
    for key, value in own.items():
        below = common.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            inner = changed_values(below, value)
            if inner:
                changes[key] = inner
        elif key not in common or value != below:
            changes[key] = copied(value)
    return changes


def pooled_data(recipe: PooledRecipe, catalogue: Catalogue) -> dict[str, Any]:
    """Return the hydrated recipe with `pools`: for each its criteria, selector, constraints and changed values."""
    data = hydrated(recipe.result, catalogue)
    common = {entry["name"]: entry["values"] for entry in data["componentRefs"]}
    data["pools"] = []
    for pool, result in recipe.pools:
        changes = {}
        for component in result.components:
            values = changed_values(common.get(component.name, {}), component_values(component, catalogue))
            if values:
                changes[component.name] = {"values": values}
        data["pools"].append(
            {
                "name": pool.name,
                "criteria": pool.criteria.to_dict(),
                "nodeSelector": dict(pool.node_selector),
                "appliedOverlays": list(result.layers),
                "constraints": [constraint_data(constraint) for constraint in result.constraints],
                "components": changes,
            }
        )
    return data
