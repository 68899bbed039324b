# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module baseline: accepts the figures of a run as the baseline of its site, or withdraws an acceptance."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.baseline.app import (
    accept_run,
    accepted_text,
    existing_baselines,
    take_back,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir


class ActionModule(ModuleAction):
    """Accept a run, or withdraw an acceptance."""

    module = "baseline"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Add to the history; existing rows are not changed."""
        del task_vars
        number, who, why = options["withdraw"], options["who"], options["why"]
        if bool(options["run_dir"]) == (number is not None):
            raise InputError(
                "baseline", "accepts run_dir or takes withdraw back; give one of them.", "run_dir: .run/latest"
            )
        store = existing_baselines(options["store"])
        if number is not None:
            text = take_back(store, number, who, why, check_mode=self.check_mode)
            self.emit(text)
            return {
                "changed": True, "number": number, "run_id": "", "gates": [], "figures": 0, "msg": text, "exit_code": 0,
            }  # fmt: skip
        run = Run(existing_run_dir(options["run_dir"]))
        accepted, new = accept_run(run, store, options["gates"], who, why, check_mode=self.check_mode)
        gates = list(dict.fromkeys(entry.gate for entry in accepted.figures))
        text = accepted_text(accepted, new=new, check_mode=self.check_mode)
        self.emit(text)
        return {
            "changed": new,
            "number": accepted.number,
            "run_id": run.record.run_id,
            "gates": gates,
            "figures": len(accepted.figures),
            "msg": text,
            "exit_code": 0,
        }
