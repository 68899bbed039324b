# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module node_plan_info: what it takes to bring a host to its declaration."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.converge.app import convergence_step


class ActionModule(ModuleAction):
    """Plan one host."""

    module = "node_plan_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        return convergence_step(options, str(task_vars.get("inventory_hostname", "host")))
