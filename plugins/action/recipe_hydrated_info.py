# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module recipe_hydrated_info: a recipe with all chart values."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.detected import request_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import redact_data


class ActionModule(ModuleAction):
    """Return the hydrated recipe."""

    module = "recipe_hydrated_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        del task_vars
        answered = answer(request_for(options))
        recipe = redact_data(hydrated(answered.result, answered.catalogue))
        return {"exit_code": 0, "recipe": recipe, "warnings": [*answered.warnings]}
