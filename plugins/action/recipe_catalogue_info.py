# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module recipe_catalogue_info: what the recipe catalogue supports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.listing import listing, listing_lines
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import catalogue_of


class ActionModule(ModuleAction):
    """List the catalogue."""

    module = "recipe_catalogue_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        del task_vars
        catalogue = catalogue_of([Path(text) for text in options["recipe_data"]])
        found = listing(catalogue, parse_criteria(options["criteria"], catalogue.vocabulary))
        return {"exit_code": 0, "msg": listing_lines(found), "listing": found}
