# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module resume: which gates before the start need not be run again."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory, hosts_to_read
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import problem_recorded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.resume import resume
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir


class ActionModule(ModuleAction):
    """Decide for which gates earlier passes count."""

    module = "resume"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        run = Run(existing_run_dir(options["run_dir"]))
        with problem_recorded(run):
            found = resume(run, options, self.emit)
        hosts = hosts_to_read(run.site, Inventory.of(task_vars), options["fabric_host"], found["taken_over"])
        return {**found, "hosts": hosts}
