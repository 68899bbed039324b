# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module fleet_run: one cycle of tests over the idle nodes of a site."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated import stated_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.app import run_cycle
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.cycle_record import VERB
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.plan import fleet_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.secrets import restore_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import problem_recorded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.preload import preload
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent

# Ansible loads this file in its main process before it forks the worker of the task.
preload()

_NOTHING: dict[str, Any] = {
    "changed": False, "cycle_id": "", "plan": [], "counts": {}, "failed_nodes": {}, "notes": [], "actions": [],
    "suite": "", "report": "", "exit_code": 0,
}  # fmt: skip


class ActionModule(ModuleAction):
    """Run a cycle."""

    module = "fleet_run"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Run one cycle, or in check mode show what it would do."""
        run = Run(existing_run_dir(options["run_dir"]))
        if self.check_mode:
            found = fleet_plan(run, options, self.emit)
            for line in found.lines():
                self.emit(line)
            run.save_record(replace(run.record, work=found.work(VERB)))
            return {**_NOTHING, "changed": bool(found.plan.batch), "plan": found.lines(), "stats": run_stats(run)}
        with problem_recorded(run):
            restore_settings(run, stated_settings(options, task_vars, self._templar, silent))
            done = run_cycle(run, options, self.emit)
            run.save_whole_suite()
        reported = {
            **_NOTHING, "changed": bool(done.log.results), "cycle_id": done.cycle.cycle_id, "counts": done.counts,
            "failed_nodes": done.failed_nodes, "notes": done.log.notes, "actions": list(done.actions),
            "report": done.report, "suite": str(done.suite), "exit_code": 0 if done.good else 8,
            "stats": run_stats(run),
        }  # fmt: skip
        return reported if done.good else {**reported, "failed": True, "msg": done.verdict.message}
