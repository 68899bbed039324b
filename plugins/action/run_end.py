# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module run_end: fails unless every gate in scope is decided and opens the next."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.holding import end_hold
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import not_ended_well, undecided_gates


class ActionModule(ModuleAction):
    """End a run."""

    module = "run_end"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        end_hold(run)
        run.save_whole_suite()
        problems = not_ended_well(run.record)
        decided = run.record.phases if run.record.validates else run.record.gates
        on_hold = [v.gate for v in decided if v.status is not Status.PENDING and not v.opens_next]
        undecided = undecided_gates(run.record)
        result = {
            "stats": run_stats(run),
            "not_passed": on_hold,
            "undecided": list(undecided),
            "exit_code": 8 if problems else 0,
        }
        return result | {"failed": True, "msg": "; ".join(problems)} if problems else result
