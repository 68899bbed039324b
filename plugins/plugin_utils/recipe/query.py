# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Questions about one value of a recipe."""

from __future__ import annotations

from typing import Any

from .hydrate import component_data, component_values, plain
from .model import Catalogue, RecipeResult
from .paths import lookup, parse_path

_SHOWN = ("name", "type", "source", "namespace", "chart", "version", "tag", "path", "dependencyRefs")


def query_map(result: RecipeResult, catalogue: Catalogue) -> dict[str, Any]:
    """Return everything that can be asked for: the recipe with its components by name, values merged."""
    data = plain(result)
    del data["componentRefs"]
    components: dict[str, Any] = {}
    for component in result.components:
        entry = component_data(component)
        shown = {key: entry[key] for key in _SHOWN if key in entry}
        shown["enabled"] = component.enabled
        for key in ("preManifestFiles", "manifestFiles"):
            if key in entry:
                shown[key] = entry[key]
        components[component.name] = {**shown, "values": component_values(component, catalogue)}
    return {**data, "components": components}


def query(result: RecipeResult, catalogue: Catalogue, selector: str) -> Any:
    """Return the value that a selector names; an empty selector names everything.

    Raises:
        InputError: the selector cannot be read.
        NotFoundError: there is no such value; the message lists what is there.
    """
    return lookup(query_map(result, catalogue), parse_path(selector))
