# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module wave_plan: plans a roll, or resumes one that was interrupted."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.arguments import refuse
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.journal import limits, next_wave
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.roll import (
    begin_or_resume,
    open_roll,
    policy_of,
    roll_problems,
    stage_lines,
    with_roll,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import problem_recorded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc


class ActionModule(ModuleAction):
    """Plan a roll."""

    module = "wave_plan"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Write the journal of a new roll, or read that of one under way, and return the waves that are left."""
        run = Run(existing_run_dir(options["run_dir"]))
        keep = not self.check_mode
        with problem_recorded(run):
            refuse("the roll", roll_problems(options))
            journal, new = begin_or_resume(run, Inventory.of(task_vars), options, self.emit, keep=keep)
            if options["again"] and not new and keep:
                with open_roll(run, options, self.emit) as opened:
                    opened.roll.again(options["again"])
                    journal = opened.roll.journal
        decision = next_wave(journal.plan, journal.states, policy_of(options), now_utc())
        run.save_record(with_roll(run.record, journal, decision.stopped))
        waves = [[node for node in wave if not journal.states[node].stage.ended] for wave in journal.plan.waves]
        left = [] if decision.stopped else [wave for wave in waves if wave]
        lines = journal.plan.lines()
        for line in lines if new else stage_lines(journal.states):
            self.emit(line)
        self.emit(limits(journal.plan, policy_of(options)))
        if decision.stopped:
            self.emit(f"the roll stopped: {decision.stopped}")
        return {
            "changed": new,
            "new": new,
            "plan": lines,
            "states": stage_lines(journal.states),
            "hosts": [node for wave in left for node in wave],
            "sizes": [len(wave) for wave in left],
            "left_out": journal.plan.left_out,
            "stopped": decision.stopped,
            "journal": str(journal.path),
            "diff": {"before": "", "after": "\n".join(lines) + "\n"} if new else {"before": "", "after": ""},
        }
