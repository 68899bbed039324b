# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Resolved recipes that are read from plain data: from a file, a variable, or the upstream tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..constraint.evaluate import Constraint
from ..outcome.errors import InputError
from . import decode
from .criteria import parse_criteria
from .dialect import RESULT_API
from .hydrate import component_values
from .model import Catalogue, RecipeResult, copied
from .order import deployment_order
from .paths import lookup, parse_path
from .request import catalogue_of
from .schema import COMPONENT_REF, CONSTRAINT, Checker, Shape


def _checked(data: Any, shape: Shape, subject: str) -> None:
    checker = Checker()
    checker.check(data, shape)
    found = [finding for finding in checker.findings if not finding.unknown_key]
    if found:
        raise InputError(subject, found[0].reason, found[0].hint)


def constraint_of(data: Any) -> Constraint:
    """Return a constraint written as an expression (`>= 1.32`) or as a mapping, as in a recipe.

    Raises:
        InputError: it is neither.
    """
    if isinstance(data, str):
        return Constraint(name="value", value=data)
    plain = {"name": "value", **data} if isinstance(data, Mapping) else data
    _checked(plain, CONSTRAINT, "constraint")
    return decode.constraint(plain)


def recipe_lookup(recipe: Mapping[str, Any], selector: str) -> Any:
    """Return a value of a recipe document, in which components can be named.

    Raises:
        NotFoundError: there is no such value.
    """
    data = dict(recipe)
    references = data.get("componentRefs")
    if isinstance(references, list):
        named = [entry for entry in references if isinstance(entry, Mapping)]
        data["components"] = {str(entry.get("name")): dict(entry) for entry in named}
    return copied(lookup(data, parse_path(selector)))


def ordered_components(components: Any, recipe: Mapping[str, Any] | None = None) -> list[Any]:
    """Return components in deployment order: mappings as in `componentRefs`, or names in the order of a recipe.

    Raises:
        InputError: it is not a list of these, or a dependency is unknown or cyclic.
    """
    if not isinstance(components, Sequence) or isinstance(components, str):
        raise InputError("components", f"must be a list, found {components!r}.")
    if recipe is not None:
        order = {name: number for number, name in enumerate(recipe.get("deploymentOrder") or ())}
        names = [item.get("name") if isinstance(item, Mapping) else item for item in components]
        unknown = [str(name) for name in names if name not in order]
        if unknown:
            raise InputError("components", f"{', '.join(unknown)} have no place in the deployment order.")
        return [item for _number, item in sorted(zip(names, components, strict=True), key=lambda e: order[e[0]])]
    plain = [dict(item) if isinstance(item, Mapping) else item for item in components]
    for item in plain:
        _checked(item, COMPONENT_REF, "component")
    by_name = {item["name"]: item for item in plain}
    return [by_name[name] for name in deployment_order([decode.component_ref(item) for item in plain])]


def hydrated_document(recipe: Mapping[str, Any], recipe_data: Sequence[Path]) -> dict[str, Any]:
    """Return a recipe document with `values` in every component. Values files are taken from the catalogue.

    Raises:
        InputError: it is not a resolved recipe, or a values file is not in the catalogue.
    """
    data = copied(dict(recipe))
    references = data.get("componentRefs")
    if not isinstance(references, list):
        raise InputError("recipe", "has no componentRefs.", "Give a resolved recipe.")
    catalogue = catalogue_of(recipe_data)
    for entry in references:
        _checked(entry, COMPONENT_REF, "component")
        if "values" not in entry:
            entry["values"] = component_values(decode.component_ref(entry), catalogue)
    return data


def document_result(recipe: Mapping[str, Any], catalogue: Catalogue) -> RecipeResult:
    """Return a recipe document as the result of a resolution, so that it can be used like one.

    Raises:
        InputError: it is not a resolved recipe.
    """
    references = recipe.get("componentRefs")
    if not isinstance(references, list) or not isinstance(recipe.get("deploymentOrder"), list):
        raise InputError("recipe", "has no componentRefs and deploymentOrder.", "Give a resolved recipe.")
    for entry in references:
        _checked(entry, COMPONENT_REF, "component")
    metadata = recipe.get("metadata") or {}
    return RecipeResult(
        criteria=parse_criteria(recipe.get("criteria") or {}, catalogue.vocabulary),
        components=tuple(decode.component_ref(entry) for entry in references),
        constraints=tuple(decode.constraint(entry) for entry in recipe.get("constraints") or ()),
        order=tuple(str(name) for name in recipe["deploymentOrder"]),
        validation={name: decode.phase(data or {}) for name, data in (recipe.get("validation") or {}).items()},
        layers=tuple(str(name) for name in metadata.get("appliedOverlays") or ()),
        mixins=tuple(str(name) for name in metadata.get("appliedMixins") or ()),
        profiles={str(name): str(value) for name, value in (metadata.get("profiles") or {}).items()},
        api_version=str(recipe.get("apiVersion") or RESULT_API),
    )
