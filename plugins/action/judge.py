# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module judge: computes the verdicts of a saved run again, without a cluster."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.verb import VerbBase
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import gates_table
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.rejudge import (
    rejudge,
    rewrite_reports,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    all_passed,
    run_summary,
)


class ActionModule(VerbBase):
    """Judge a saved run again."""

    module = "judge"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Recompute from observations and results; fail if the run is not passed or does not say what it recorded."""
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        record, differences = rejudge(run)
        changed, warnings = (False, []) if self.check_mode else _rewritten(run, record, differences)
        for line in [*gates_table(record), *(f"differs: {text}" for text in differences), run_summary(record)]:
            self.emit(line)
        self.emit(f"report: {run.path / 'report.html'}")
        passed = all_passed(record) and not differences
        result = {
            "changed": changed,
            "verdict": run_summary(record),
            "gates": to_plain(record.gates),
            "differences": differences,
            "exit_code": 0 if passed else 8,
        }
        if warnings:
            result["warnings"] = warnings
        reason = f"{len(differences)} recorded result(s) cannot be confirmed" if differences else run_summary(record)
        return result if passed else result | {"failed": True, "msg": reason}


def _rewritten(run: Run, record: RunRecord, differences: list[str]) -> tuple[bool, list[str]]:
    """Write the reports again; an archive that cannot be written is judged all the same."""
    try:
        return rewrite_reports(run, record, differences), []
    except OSError as error:
        return False, [f"the reports of {run.path} are not written again: {error.strerror}"]
