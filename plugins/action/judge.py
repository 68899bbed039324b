# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module judge: computes the verdicts of a saved run again, without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import decided_table
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.rejudge import (
    rejudge,
    rewrite_reports,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.settings_sources import merged_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.what_if import (
    Change,
    changed_settings,
    changed_thresholds,
    what_if,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import (
    RunRecord,
    nothing_holds,
    run_summary,
)


class ActionModule(ModuleAction):
    """Judge a saved run again."""

    module = "judge"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Recompute from observations and results; fail if the run is not passed or does not say what it recorded."""
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        record, differences = rejudge(run)
        changed, warnings = (False, []) if self.check_mode else _rewritten(run, record, differences)
        notes = [f"note: {text}" for text in record.notes if text not in run.record.notes]
        told = [*decided_table(record), *(f"differs: {text}" for text in differences), *notes, run_summary(record)]
        for line in told:
            self.emit(line)
        self.emit(f"report: {run.path / 'report.html'}")
        passed = nothing_holds(record)
        result = {
            "changed": changed,
            "verdict": run_summary(record),
            "gates": to_plain(record.gates),
            "phases": to_plain(record.phases),
            "differences": differences,
            "exit_code": 0 if passed else 8,
        }
        if warnings:
            result["warnings"] = warnings
        second = self._what_if(run, options)
        if second:
            result["what_if"] = second
        return result if passed else result | {"failed": True, "msg": run_summary(record)}

    def _what_if(self, run: Run, options: Mapping[str, Any]) -> dict[str, Any]:
        """Judge by other settings, if any are stated, and show that as a second verdict; the first one stays."""
        changes = self._changes(run, options)
        for change in (change for change in changes if not change.applies):
            self.emit(f"what if: {change} is not applied: it says how to look, and this run has looked already"[:199])
        applied = [change for change in changes if change.applies]
        if not applied:
            return {}
        if self.check_mode:
            self.emit("what if: not judged in check mode, because it writes a directory")
            return {}
        given = options["what_if_dir"]
        found = what_if(run, applied, Path(given) if given else None)
        lines = decided_table(found.record)
        for line in ["", "WHAT IF", *lines, *(f"changes: {text}" for text in found.results), run_summary(found.record)]:
            self.emit(line)
        self.emit(f"report: {found.run_dir / 'report.html'}")
        return {
            "verdict": run_summary(found.record),
            "gates": to_plain(found.record.gates),
            "settings": [str(change) for change in applied],
            "results": list(found.results),
            "run_dir": str(found.run_dir),
        }

    def _changes(self, run: Run, options: Mapping[str, Any]) -> tuple[Change, ...]:
        stated = changed_settings(run, merged_settings(options["settings"], options["set"], {}))
        thresholds = changed_thresholds(run, options["recipe_data"])
        if options["thresholds"] == "current":
            mine = {(change.key, change.name) for change in stated}
            return (*(change for change in thresholds if (change.key, change.name) not in mine), *stated)
        if thresholds:
            names = ", ".join(f"{change.key}.{change.name}" for change in thresholds)
            self.emit(f"thresholds are not those of the run: {names}; judge by them: -e gpufleet_thresholds=current")
        return stated


def _rewritten(run: Run, record: RunRecord, differences: list[str]) -> tuple[bool, list[str]]:
    """Write the reports again; an archive that cannot be written is judged all the same."""
    try:
        return rewrite_reports(run, record, differences), []
    except OSError as error:
        return False, [f"the reports of {run.path} are not written again: {error.strerror}"]
