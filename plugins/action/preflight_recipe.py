# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module preflight_recipe: whether the recipe for the inventory can be resolved."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.app import resolve_recipe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import problem_recorded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir


class ActionModule(ModuleAction):
    """Resolve the recipe of the site."""

    module = "preflight_recipe"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        with problem_recorded(run):
            return {"warnings": [*resolve_recipe(run, options, self.emit)]}
