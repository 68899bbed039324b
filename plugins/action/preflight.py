# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Verb preflight: the inventory, the controller and the contact, each with all its problems in one list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.verb import VerbBase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.preflight import LAYERS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir


class ActionModule(VerbBase):
    """Check one layer before anything is touched."""

    module = "preflight"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Check the layer; a problem is written into the run's report before it is raised."""
        run = Run(existing_run_dir(options["run_dir"]))
        try:
            return LAYERS[options["layer"]](run, options, task_vars, self.emit)
        except BringupError as error:
            run.save_record(replace(run.record, problem=str(error)))
            raise
