# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module run_look: reads the gates behind one that did not pass, and reports what else is wrong."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated import stated_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.secrets import restore_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.facts import LOOKS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.looking_on import gates_to_read, look_on
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.preload import preload
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent

# Ansible loads this file in its main process before it forks the worker of the task.
preload()


class ActionModule(ModuleAction):
    """Return the gates that can be read, or judge what was read."""

    module = "run_look"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the gates, and with `step` judge what is wrong there. No gate is decided."""
        run = Run(existing_run_dir(options["run_dir"]))
        if options["step"] == "begin":
            gates = gates_to_read(run, options["look_on"], options["store"])
            if gates:
                self.emit(f"reading on, without tests, for what else is wrong: {', '.join(gates)}")
            return {"changed": False, "gates": list(gates), "directory": str(run.path / LOOKS), "findings": []}
        restore_settings(run, stated_settings(options, task_vars, self._templar, silent))
        connections = {name: options[name] for name in ("kubeconfig", "context") if options.get(name)}
        found = look_on(run, self.emit, connections, options["helm"])
        outcomes = [outcome for entries in found.values() for outcome in entries]
        for outcome in outcomes[:10]:
            self.emit(f"observed, not proven: {outcome.check} on {outcome.about}: {outcome.cause}"[:199])
        if not outcomes:
            self.emit(f"observed, not proven: nothing is wrong in {', '.join(found)}, as far as it was read")
        findings = [{"gate": o.gate, "check": o.check, "subject": o.about, "cause": o.cause} for o in outcomes]
        return {
            "changed": False,
            "gates": list(found),
            "directory": str(run.path / LOOKS),
            "findings": findings[:100],
        }
