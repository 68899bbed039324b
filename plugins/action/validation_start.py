# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module validation_start: the request of a validation, and its recipe."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import connection_from
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.start import start_validation
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import problem_recorded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import point_latest


class ActionModule(ModuleAction):
    """Start a validation."""

    module = "validation_start"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Check the request; nothing is observed yet."""
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        with problem_recorded(run):
            requested = start_validation(run, options, connection_from(options))
        if options["no_cluster"] and not self.check_mode:
            # There was no preflight.
            point_latest(run.path)
        self.emit(f"validation: phases {', '.join(requested.phases)}")
        return {"changed": False, "phases": list(requested.phases)}
