# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters about recipes and constraints. Each has a documentation file beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.evaluate import evaluate, evaluate_nodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolved import (
    constraint_of,
    hydrated_document,
    ordered_components,
    recipe_lookup,
)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn our errors into the error that Ansible shows with the task."""

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except BringupError as error:
            raise AnsibleFilterError(str(error)) from None

    return call


def recipe_value(recipe: Mapping[str, Any], selector: str, **options: Any) -> Any:
    """Return the value that a selector names in a recipe document, or the option `default`."""
    try:
        return recipe_lookup(recipe, selector)
    except NotFoundError:
        if "default" in options:
            return options["default"]
        raise


def constraint_result(actual: Any, constraint: Any) -> dict[str, Any]:
    """Return the result of a constraint for a measured value, or for a mapping of values by node."""
    parsed = constraint_of(constraint)
    found = evaluate_nodes(parsed, actual) if isinstance(actual, Mapping) else evaluate(parsed, actual)
    data: dict[str, Any] = {**to_plain(found), "blocks": found.blocks}
    return data


def in_deployment_order(components: Any, recipe: Mapping[str, Any] | None = None) -> list[Any]:
    """Return components sorted so that each comes after those that it needs."""
    return ordered_components(components, recipe)


def hydrate(recipe: Mapping[str, Any], recipe_data: list[str] | None = None) -> dict[str, Any]:
    """Return a resolved recipe with the merged chart values of every component."""
    return hydrated_document(recipe, [Path(text) for text in recipe_data or ()])


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        functions = (recipe_value, constraint_result, in_deployment_order, hydrate)
        return {function.__name__: _guarded(function) for function in functions}
