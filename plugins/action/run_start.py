# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module run_start: creates the run directory and its report with eight pending gates, or with pending phases."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.release import __version__ as core_version

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.command_line import command_line
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.simulated import hosts_are_simulated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.baseline.app import keep_baseline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS, asked_phases
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.version import software_versions
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import (
    CONTROLLER,
    create_run_dir,
    write_atomic,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import controller_note
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.restart import VARIABLE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run, with_phases, with_verb


class ActionModule(ModuleAction):
    """Start a run."""

    module = "run_start"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Create the directory; nothing is proven yet, and the report shows that from the first second."""
        phases = asked_phases(options["phases"]) if options["phases"] else ()
        simulated = hosts_are_simulated(options["group"], task_vars)
        run_dir = create_run_dir(Path(options["base"]).expanduser().absolute(), int(options["mode"], 8))
        record = new_run(run_dir.name, options["site_name"], now_utc(), GATE_IDS, rehearsal=simulated)
        run = Run(run_dir)
        if note := controller_note():
            write_atomic(run_dir / CONTROLLER, note)
        command = command_line(sys.argv, os.environ, Path.cwd(), without=(VARIABLE,))
        record = replace(with_phases(record, phases) if phases else record, check_mode=self.check_mode)
        record = with_verb(record, options["verb"]) if options["verb"] else record
        versions = software_versions(core_version)
        kept = str(task_vars.get("gpufleet_rehearsal_again") or "")
        record = replace(record, versions=versions, command=command, kept_command=kept, history=bool(options["store"]))
        run.save_record(replace(record, ctrf_dest=options["ctrf_dest"] or ""))
        # After the report in which nothing has passed: a history that cannot be read ends the run here.
        accepted = keep_baseline(run, options["store"])
        if accepted.figures:
            self.emit(f"baseline: {len(accepted.figures)} accepted figures are compared with")
        return {"changed": True, "run_dir": str(run_dir), "run_id": run_dir.name, "stats": run_stats(run)}
