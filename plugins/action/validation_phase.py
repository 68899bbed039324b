# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module validation_phase: observes for a phase of a validation, and decides it from the CTRF file as read back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated import stated_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import connection_from
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.secrets import restore_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.looks import (
    observe_phase,
    observe_readiness,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.phases import (
    closed_by,
    decide_phase,
    declared_phase,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.validation.requested import (
    ValidationRequest,
    requested_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import READINESS, STACK_GATE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.decision import run_day
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.holding import take_hold
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.observing import disturbs_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.preload import preload
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.same_cluster import cluster_of_gate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import working

# Ansible loads this file in its main process before it forks the worker of the task.
preload()


class ActionModule(ModuleAction):
    """Observe for a phase, decide it, or both."""

    module = "validation_phase"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Observe and decide as requested; a closed phase is neither observed nor decided."""
        run = Run(existing_run_dir(options["run_dir"]))
        requested, phase = requested_of(run), options["phase"]
        closed = closed_by(run, requested, phase)
        if not closed and options["step"] != "decide":
            self._look(run, requested, options, task_vars)
        if options["step"] == "observe" or self.check_mode:
            return {"changed": False, "open": not closed, "exit_code": 0}
        verdict = decide_phase(run, phase)
        self.emit(f"phase {phase}: {verdict.status.value}. {verdict.message}")
        for entry in verdict.blocking[:10]:
            self.emit(f"{entry.status.value} {entry.check} on {entry.shown}: {entry.cause}: {entry.summary}")
        result = {
            "changed": False,
            "open": not closed,
            "passed": verdict.opens_next,
            "verdict": to_plain(verdict) | {"blocking": to_plain(verdict.blocking[:50])},
            "stats": run_stats(run),
            "exit_code": 0 if verdict.opens_next else 8,
        }
        if verdict.opens_next or options["not_passed"] == "report":
            return result
        return result | {"failed": True, "msg": verdict.message}

    def _look(self, run: Run, requested: ValidationRequest, options: dict[str, Any], task_vars: dict[str, Any]) -> None:
        connections = {name: options[name] for name in ("kubeconfig", "context") if options.get(name)}
        if options["phase"] == READINESS:
            context, refused = self._context(run, READINESS, connections, requested)
            if refused is not None:
                raise refused
            observe_readiness(run, requested, context, connection_from(options), options["helm"], options["provider"])
            return
        if requested.no_cluster:
            return
        restore_settings(run, stated_settings(options, task_vars, self._templar, silent))
        declaration = declared_phase(run, requested, options["phase"])
        tests = bool(declaration.images) or any(
            disturbs_cluster(part, run.site) for part in declaration.parts if part.checks
        )
        holder = take_hold(run, options, self.emit).holder if tests and not self.check_mode else ""

        def context_of(gate: str) -> tuple[ObserveContext, BringupError | None]:
            context, refused = self._context(run, gate, connections, requested)
            return replace(context, holder=holder), refused

        with working(run.path):
            observe_phase(run, declaration, context_of, gate=options["gate"] or "", check_mode=self.check_mode)

    def _context(
        self, run: Run, gate: str, connections: dict[str, str], requested: ValidationRequest
    ) -> tuple[ObserveContext, BringupError | None]:
        """Return the context for observers of a gate, and why they must not observe that cluster."""
        context = run.observe_context(run_day(run.record), self.emit, connections)
        if requested.no_cluster:
            return context, None
        try:
            uid = cluster_of_gate(run, STACK_GATE if gate == READINESS else gate, connections)
        except BringupError as error:
            return context, error
        return replace(context, cluster_uid=uid), None
