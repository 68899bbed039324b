# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module preflight_inventory: whether the inventory with all its variables is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.simulated import hosts_are_simulated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated import stated_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.app import checked_inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight.app import check_inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import problem_recorded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import NO_SITE


class ActionModule(ModuleAction):
    """Check inventory and variables."""

    module = "preflight_inventory"

    @staticmethod
    def ahead(options: dict[str, Any], task_vars: dict[str, Any], hosts: Mapping[str, Mapping[str, Any]]) -> list[Any]:
        """Raise what this module would refuse, before its turn (`action_base.ahead`)."""
        _require_orchestrator(options, task_vars)
        simulated = hosts_are_simulated(options["group"], task_vars)
        checked_inventory(options, Inventory(task_vars.get("groups") or {}, hosts, simulated))
        return []

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        run = Run(existing_run_dir(options["run_dir"]))
        with problem_recorded(run):
            _require_orchestrator(options, task_vars)
            configured = stated_settings(options, task_vars, self._templar, self.emit)
            return check_inventory(
                run,
                configured,
                Inventory.of(task_vars, simulated=hosts_are_simulated(options["group"], task_vars)),
                self.emit,
            )


def _require_orchestrator(options: Mapping[str, Any], task_vars: Mapping[str, Any]) -> None:
    """Refuse a burn-in over Slurm before its gates are refused, which other gates would not fix.

    Raises:
        InputError: the playbook is burn_in, and the nodes are scheduled by Slurm.
    """
    if task_vars.get("preflight_verb") == "burn-in" and options.get("orchestrator") == "slurm":
        from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.burn_in.app import over_slurm

        raise over_slurm(str(options.get("site_name") or NO_SITE))
