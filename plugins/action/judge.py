# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module judge: computes the verdicts of a saved run again, without a cluster."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.judge.app import judge_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir

_MOST = 20


class ActionModule(ModuleAction):
    """Judge a saved run again."""

    module = "judge"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Recompute from observations and results; fail if the run did not pass or differs from its records."""
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        result = judge_run(run, options, self.emit, write=not self.check_mode, table_last=True)
        differs = [f"differs  {text}" for text in result["differences"][:_MOST]]
        more = len(result["differences"]) - len(differs)
        differs += [f"         and {more} more above"] if more else []
        report = [] if self.check_mode else ["", f"report   {run.path / 'report.html'}"]
        result["closing_lines"] = [*result.pop("table"), "", *differs, f"verdict  {result['verdict']}", *report]
        return result if result.pop("passed") else result | {"failed": True, "msg": result["verdict"]}
