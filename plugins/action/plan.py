# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Verb plan: prints what each gate will do, for how long, and what it disturbs."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.verb import VerbBase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.plan import plan_lines, plan_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir


class ActionModule(VerbBase):
    """Show the plan of a run; nothing is touched."""

    module = "plan"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Print the plan and return it."""
        del task_vars
        plan = plan_of(Run(existing_run_dir(options["run_dir"])).site)
        for line in plan_lines(plan):
            self.emit(line)
        return {"changed": False, "plan": plan}
