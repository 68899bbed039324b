# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module burn_in: loads hosts for hours, and judges the results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated import stated_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.burn_in.model import Soak
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.burn_in.app import (
    VERB,
    decide_burn_in,
    narrow,
    planned,
    soak,
    with_burn_in,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.secrets import restore_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import problem_recorded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.preload import preload
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import hours_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.gate import GateVerdict
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import Work

# Ansible loads this file in its main process before it forks the worker of the task.
preload()


class ActionModule(ModuleAction):
    """Soak or decide."""

    module = "burn_in"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do the step; fail if a decided burn-in did not pass."""
        run = Run(existing_run_dir(options["run_dir"]))
        # A burn-in that goes on is in the directory of its own run; a problem that prevents that belongs to the newest
        # run.
        with problem_recorded(Run(existing_run_dir(options["started"])) if options["started"] else run):
            if options["nodes"] and options["step"] == "soak":
                narrow(run, options["nodes"], keep=not self.check_mode)
            if self.check_mode:
                done = planned(run, options, self.emit)
            elif options["step"] == "soak":
                restore_settings(run, stated_settings(options, task_vars, self._templar, silent))
                done = soak(run, options, self.emit)
        if self.check_mode:
            reported = f"{', '.join(done.tests)} on {len(done.hosts)} hosts, {hours_text(done.hours)} each"
            self.emit(f"burn-in would run {reported}")
            run.save_record(replace(run.record, work=Work(verb=VERB, sentence=f"it would run {reported}")))
            return {**_reported(done), "changed": options["step"] == "soak", "stats": run_stats(run)}
        if options["step"] == "soak":
            return {**_reported(done), "changed": bool(done.results)}
        done, verdict = decide_burn_in(run, options, self.emit)
        for entry in verdict.blocking[:10]:
            self.emit(f"{entry.status.value} {entry.check} on {entry.shown}: {entry.cause}: {entry.summary}")
        if options["started"]:
            _tell_started(existing_run_dir(options["started"]), run, done, verdict)
        passed = verdict.opens_next
        # An interrupted burn-in goes on in the directory of its own run, to which the table and the paths belong.
        found = {
            **_reported(done), "passed": passed, "exit_code": 0 if passed else 8, "stats": run_stats(run),
            "run_id": run.record.run_id, "run_dir": str(run.path),
            "verdict": to_plain(verdict) | {"blocking": to_plain(verdict.blocking[:50])},
        }  # fmt: skip
        return found if passed else {**found, "failed": True, "msg": run_stats(run)["gpufleet_verdict"]}


def _tell_started(path: Path, run: Run, done: Soak, verdict: GateVerdict) -> None:
    """Copy the result of a burn-in in an older run to the run that was started, whose files are the newest."""
    if path != run.path:
        started = Run(path)
        notes = (*started.record.notes, f"the burn-in went on in {run.path}")
        started.save_record(with_burn_in(replace(started.record, notes=notes), done, verdict, run.path))


def _reported(done: Soak) -> dict[str, Any]:
    return {
        "changed": False,
        "hours": {host: round(done.soaked_s(host) / 3600, 3) for host in done.hosts},
        "rounds": done.rounds,
        "note": done.note,
        "leftovers": list(done.leftovers),
        "passed": False,
        "verdict": {},
        "exit_code": 0,
    }
