# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Queries for one value of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..runtime.redaction import redact_data
from .hydrate import component_data, component_values, plain
from .model import Catalogue, RecipeResult, installs
from .paths import lookup, parse_path

if TYPE_CHECKING:
    from .yaml_text import Path

_SHOWN = (
    "name", "type", "source", "namespace", "chart", "version", "tag", "path", "dependencyRefs", "enabled",
    "preManifestFiles", "manifestFiles",
)  # fmt: skip


def query_map(result: RecipeResult, catalogue: Catalogue) -> dict[str, Any]:
    """Return everything that can be queried: the recipe with its components by name and merged values."""
    data = plain(result)
    del data["componentRefs"]
    components: dict[str, Any] = {}
    for component in result.components:
        entry = component_data(component) | {"enabled": component.enabled}
        components[component.name] = _component(entry, component_values(component, catalogue))
    return {**data, "components": components}


def _component(entry: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in _SHOWN if key in entry and entry[key] != []} | {"values": values}


def document_map(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query map of a resolved recipe in a file, whose components have their merged `values`."""
    data = {name: value for name, value in document.items() if name != "componentRefs"}
    components = {}
    for entry in document["componentRefs"]:
        enabled = installs(entry.get("overrides") or {})
        components[entry["name"]] = _component({**entry, "enabled": enabled}, entry["values"])
    return {**data, "components": components}


def query(result: RecipeResult, catalogue: Catalogue, selector: str) -> Any:
    """Return the value that a selector names. An empty selector names everything.

    Raises:
        InputError: the selector is invalid.
        NotFoundError: there is no such value; the message lists what exists at that place.
    """
    return lookup(query_map(result, catalogue), parse_path(selector))


def query_shown(result: RecipeResult, catalogue: Catalogue, selector: str) -> Any:
    """Return the value that a selector names, with secrets masked by their keys.

    Raises:
        InputError: the selector is invalid.
        NotFoundError: there is no such value; the message lists what exists at that place.
    """
    path = parse_path(selector)
    data = query_map(result, catalogue)
    lookup(data, path)
    return shown_value(data, path)


def shown_value(data: dict[str, Any], path: Path) -> Any:
    """Return the existing value at a path of a query map. Secrets are masked by the keys above and below it."""
    if len(path) > 1 and path[0] == "components":
        name = str(path[1])
        data = {"components": {name: data["components"][name]}}
    return lookup(redact_data(data), path)
