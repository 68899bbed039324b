# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module run_end: fails if a gate that was decided is not passed."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats


class ActionModule(ModuleAction):
    """End a run."""

    module = "run_end"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        held = [v for v in run.record.gates if v.status is not Status.PENDING and not v.opens_next]
        stats = run_stats(run)
        result = {"stats": stats, "not_passed": [verdict.gate for verdict in held], "exit_code": 8 if held else 0}
        return result | {"failed": True, "msg": "; ".join(verdict.message for verdict in held)} if held else result
