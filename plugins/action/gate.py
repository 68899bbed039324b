# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module gate: judges the observations, writes the CTRF suite and decides from the file as read back."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import just_read
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import LOADING_GATES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.decision import (
    decide_gate,
    preview_gate,
    refuse_gate,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.history import record_history
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.preload import preload
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats

# Ansible loads this file in its main process before it forks the worker of the task.
preload()


class ActionModule(ModuleAction):
    """Decide a gate."""

    module = "gate"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Decide; a gate that does not pass is a failed task that names check, subject and cause."""
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        if self.check_mode:
            return self._preview(run, options)
        if options["problem"]:
            verdict = refuse_gate(run, options["gate"], options["problem"])
        else:
            verdict = decide_gate(run, options["gate"])
        if not verdict.opens_next:
            # The run may end here; one that goes on writes it again.
            run.save_whole_suite()
        self.emit(f"gate {verdict.gate}: {verdict.status.value}. {verdict.key_figure or verdict.message}")
        for entry in verdict.blocking[:10]:
            self.emit(f"{entry.status.value} {entry.check} on {entry.shown}: {entry.cause}: {entry.summary}")
        # After the verdict is saved: the history must not be able to prevent it.
        warnings = record_history(
            run, verdict, options["store"], self.emit, self.trace, converged=not options["problem"]
        )
        plain = to_plain(verdict) | {"blocking": to_plain(verdict.blocking[:50])}
        result = {
            "changed": False,
            "passed": verdict.opens_next,
            "verdict": plain,
            "stats": run_stats(run),
            "exit_code": 0 if verdict.opens_next else 8,
        }
        if verdict.gate in LOADING_GATES:
            result["just_read"] = list(just_read(run.path, verdict.gate, [host.name for host in run.site.in_scope]))
        if warnings:
            result["warnings"] = warnings
        if verdict.opens_next or options["not_passed"] == "report":
            return result
        return result | {"failed": True, "msg": verdict.message}

    def _preview(self, run: Run, options: dict[str, Any]) -> dict[str, Any]:
        """Print what was found without a test. Nothing is decided or written, so the gate stays pending."""
        gate = options["gate"]
        lines = [options["problem"]] if options["problem"] else preview_gate(run, gate)
        for line in lines:
            self.emit(f"check mode: {gate}: {line}")
        verdict = to_plain(run.record.gate(gate))
        return {"changed": False, "passed": False, "verdict": verdict, "stats": run_stats(run), "exit_code": 8}
