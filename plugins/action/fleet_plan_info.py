# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module fleet_plan_info: which idle node is tested next, and why."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.plan import fleet_plan, positions_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir


class ActionModule(ModuleAction):
    """Show the queue of tests on idle nodes."""

    module = "fleet_plan_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Read and print the queue."""
        del task_vars
        found = fleet_plan(Run(existing_run_dir(options["run_dir"])), options, self.emit)
        lines = found.lines()
        for line in lines:
            self.emit(line)
        return {
            "tests": list(found.tests),
            "positions": positions_of(found.plan),
            "not_due": dict(found.plan.not_due),
            "not_free": dict(found.plan.not_free),
            "busy": list(found.busy),
            "notes": list(found.plan.notes),
            "next_due_s": found.plan.next_due_s or 0.0,
            "plan": lines,
            "exit_code": 0,
        }
