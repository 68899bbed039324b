# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Verb judge: computes the verdicts of a saved run again, without a cluster."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.rejudge import rejudge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.verb import VerbBase, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import gates_table
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import all_passed, statement


class ActionModule(VerbBase):
    """Judge a saved run again."""

    verb = "judge"

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Recompute from observations and results; fail if the run is not passed or does not say what it recorded."""
        del task_vars
        record, differences = rejudge(Run(existing_run_dir(options["run_dir"])))
        for line in [*gates_table(record), *(f"differs: {text}" for text in differences), statement(record)]:
            self.emit(line)
        passed = all_passed(record) and not differences
        result = {
            "changed": False,
            "verdict": statement(record),
            "gates": to_plain(record.gates),
            "differences": differences,
            "exit_code": 0 if passed else 8,
        }
        reason = f"{len(differences)} recorded result(s) cannot be confirmed" if differences else statement(record)
        return result if passed else result | {"failed": True, "msg": reason}
