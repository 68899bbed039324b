# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module run_hold: takes the cluster for this run, and removes what dead runs left there."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.holding import needs_hold, take_hold
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import problem_recorded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import working


class ActionModule(ModuleAction):
    """Hold the cluster."""

    module = "run_hold"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        if self.check_mode or not needs_hold(run):
            return {"changed": False, "holder": "", "swept": [], "not_removed": []}
        with problem_recorded(run), working(run.path):
            hold = take_hold(run, options, self.emit)
        return {
            "changed": bool(hold.swept),
            "holder": hold.holder,
            "swept": list(hold.swept),
            "not_removed": list(hold.remains),
            "warnings": list(hold.remains),
        }
