# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module recipe_info: one value of a recipe."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.detected import request_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.owner_layer import idle_value, with_owner
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.paths import parse_path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.query import query_shown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer


class ActionModule(ModuleAction):
    """Look up a value of a recipe."""

    module = "recipe_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        del task_vars
        request = request_for(options)
        answered, _laid_over = with_owner(answer(request), request.overrides, options["driver_owner"])
        value = query_shown(answered.result, answered.catalogue, options["selector"])
        idle = filter(None, [idle_value(options["driver_owner"], parse_path(options["selector"]))])
        return {"exit_code": 0, "value": value, "warnings": [*answered.warnings, *idle]}
