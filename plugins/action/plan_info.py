# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module plan_info: what each gate will do, for how long, and what it disturbs."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.simulated import hosts_are_simulated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated import stated_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight.plan import plan_lines, planned


class ActionModule(ModuleAction):
    """Show the plan of a run that is not started."""

    module = "plan_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        configured = stated_settings(options, task_vars, self._templar, self.emit)
        plan = planned(configured, Inventory.of(task_vars, simulated=hosts_are_simulated(options["group"], task_vars)))
        return {"plan": list(plan.gates), "warnings": list(plan.warnings), "plan_lines": plan_lines(plan)}
