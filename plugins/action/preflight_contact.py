# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module preflight_contact: whether hosts and API server respond."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory, hosts_to_read
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight.contact import check_contact
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import problem_recorded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import point_latest


class ActionModule(ModuleAction):
    """Judge the contact to hosts and API server."""

    module = "preflight_contact"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        run, inventory = Run(existing_run_dir(options["run_dir"])), Inventory.of(task_vars)
        with problem_recorded(run):
            check_contact(run, options, inventory, self.emit)
        if not self.check_mode:
            point_latest(run.path)
        return {"hosts": hosts_to_read(run.site, inventory, options["fabric_host"])}
