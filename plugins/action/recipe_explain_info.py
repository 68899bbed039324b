# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module recipe_explain_info: where a value of a recipe comes from."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.detected import request_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.owner_layer import idle_value, with_owner
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.explain import explain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.paths import parse_path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer


class ActionModule(ModuleAction):
    """Name the layers that set a value."""

    module = "recipe_explain_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        del task_vars
        request = request_for(options)
        answered = answer(request)
        _owned, laid_over = with_owner(answered, request.overrides, options["driver_owner"])
        found = explain(answered.result, answered.catalogue, options["selector"], laid_over)
        idle = filter(None, [idle_value(options["driver_owner"], parse_path(options["selector"]))])
        return {
            "exit_code": 0,
            "msg": found.lines(),
            "explanation": to_plain(found),
            "warnings": [*answered.warnings, *idle],
        }
