# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module check: runs a gate's observers, and saves their observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated import stated_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.loads import take_over
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.secrets import restore_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import LOADING_GATES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.decision import run_day
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.history import begin_history
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.holding import take_hold
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.observing import disturbs_cluster, observe_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.preload import preload
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.same_cluster import cluster_of_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import require_open
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import working

# Ansible loads this file in its main process before it forks the worker of the task.
preload()


class ActionModule(ModuleAction):
    """Observe everything that the gate's declared checks judge."""

    module = "check"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Run each observer once; one that fails is saved as such and judged `other`."""
        run = Run(existing_run_dir(options["run_dir"]))
        holding = Run(existing_run_dir(options["part_of"])) if options.get("part_of") else run
        restore_settings(run, stated_settings(options, task_vars, self._templar, silent))
        record = run.record
        if not self.check_mode:
            require_open(record, options["gate"])
            begin_history(run, options["gate"], options["store"])
        connections = {name: options[name] for name in ("kubeconfig", "context", "scontrol") if options.get(name)}
        declaration = run.declaration(options["gate"])
        if not self.check_mode and options["gate"] in LOADING_GATES:
            self._take_over(run, options["gate"])
        uid, refused = self._cluster(run, options["gate"], connections)
        tests = disturbs_cluster(declaration, run.site) and not self.check_mode and refused is None
        holder = take_hold(holding, options, self.emit).holder if tests else ""
        context = run.observe_context(run_day(record), self.emit, connections, holder)
        with working(holding.path):
            context = replace(context, cluster_uid=uid, roll=options["roll"])
            observed = observe_gate(declaration, context, check_mode=self.check_mode, refused=refused)
        failed = {entry.key: entry.error["reason"] for entry in observed if entry.error is not None}
        return {"changed": False, "observations": [entry.key for entry in observed], "not_observed": failed}

    def _take_over(self, run: Run, gate: str) -> None:
        """Use a reading right after another load as the state of the hosts before this one."""
        taken = take_over(run.path, gate, [host.name for host in run.site.in_scope])
        if taken:
            self.emit(f"{gate}: {len(taken)} hosts were just read, after the load before this one")

    @staticmethod
    def _cluster(run: Run, gate: str, connections: dict[str, str]) -> tuple[str | None, BringupError | None]:
        """Return the UID of the cluster that the gate observes, and why it must not observe that one."""
        try:
            return cluster_of_gate(run, gate, connections), None
        except BringupError as error:
            return None, error
