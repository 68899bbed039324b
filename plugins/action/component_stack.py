# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module component_stack: plans and installs the components of the resolved recipe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import connection_from
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NAMESPACES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.drift import with_drift
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.holdings import holdings_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Done, Installer, Limits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.installation import Installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    Component,
    Plan,
    components_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan, policies_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.removal import (
    plan_removal,
    removable_namespaces,
    removal_diff,
    removal_lines,
    removal_rows,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.remove import (
    Remover,
    gone_lines,
    removal_failure,
    with_existing,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.selection import (
    alone,
    chosen_of,
    namespaces_alone,
    narrowed,
    needed_by,
    with_needed,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.tell import (
    changed,
    failure,
    plan_diff,
    plan_rows,
    preview_lines,
    put_back,
    result_rows,
    save_results,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.secrets import recipe_with_secrets
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import STACK_GATE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.history import begin_history
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.holding import end_hold, take_hold
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.rollback import last_good_run, rollback_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir, no_recipe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.same_cluster import require_same_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import working


def _plan(components: tuple[Component, ...], found: Installed, options: dict[str, Any], *, back: bool) -> Plan:
    adopt, foreign = options["adopt"], options["foreign"]
    if back or options["components"]:
        # These names are about the newer or the whole recipe, which may have more components.
        names = {component.name for component in components}
        adopt = [name for name in adopt if name in names]
        foreign = {name: policy for name, policy in foreign.items() if name in names}
    return make_plan(
        components,
        found,
        policies=policies_of(components, adopt, foreign),
        allow_downgrade=options["allow_downgrade"] or back,
        allow_skipped_minors=options["allow_skipped_minors"],
    )


class ActionModule(ModuleAction):
    """Plan what to do about each component, and do it."""

    module = "component_stack"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Plan, and with state present install."""
        del task_vars
        run = Run(existing_run_dir(options["run_dir"]))
        back = options["state"] == "rolled_back"
        source = last_good_run(run, options["store"], options["rollback_to"]) if back else run
        recipe = recipe_with_secrets(source, options)
        if recipe is None:
            raise no_recipe(run)
        components = components_of(recipe)
        if back and options["components"]:
            raise InputError("components", "is given with state rolled_back.", "go back with the whole recipe")
        chosen = chosen_of(components, options["components"])
        connection = connection_from(options)
        helm = Helm(connection, binary=options["helm"], timeout_s=options["helm_timeout_s"])
        helm.check_version()
        with Cluster(connection) as cluster:
            require_same_cluster(run.path, cluster)
            if back:
                require_same_cluster(source.path, cluster)
            if options["state"] == "absent":
                return self._remove(run, components, chosen, helm, cluster, options)
            components = with_needed(components, chosen)
            preview = self.check_mode or options["state"] == "planned"
            found = installed(helm, cluster, components, looks_only=preview)
            found = with_drift(helm, cluster, components, found, looks_only=preview)
            plan = _plan(components, with_existing(cluster, components, found), options, back=back)
            plan, components, lacks = narrowed(plan, chosen)
            self._refuse(lacks, "install that first, or name both", only_say=preview)
            limits = Limits(
                ready_s=options["ready_timeout_s"], pull_grace_s=options["pull_grace_s"], parallel=options["parallel"]
            )
            installer = Installer(helm, cluster, options["chart_mirror"] or "", limits, self.emit)
            checked = installer.preview(plan, components) if preview else {}
            result: dict[str, Any] = {
                "changed": plan.changes and (self.check_mode or options["state"] != "planned"),
                "plan": plan_rows(plan, checked),
                "diff": plan_diff(plan),
            }
            if back:
                result["rollback"] = rollback_facts(source, run)
                self.emit(f"back to the recipe of run {source.record.run_id}")
            if preview or back:
                for line in preview_lines(plan, checked):
                    self.emit(line)
            if preview:
                if self.check_mode and not options["components"]:
                    # The observer of the gate uses the same helm.
                    save_results(run.path, plan, (), options["helm"])
                return result
            take_hold(run, options, self.emit)
            begin_history(run, STACK_GATE, options["store"])
            with working(run.path):
                done = installer.run(plan, components)
        self._keep(run, plan, done, options)
        problem = failure(done)
        if problem and options["not_ready"] == "fail":
            raise problem
        return {**result, "changed": changed(done), "results": result_rows(done), "ready": problem is None}

    def _keep(self, run: Run, plan: Plan, done: tuple[Done, ...], options: dict[str, Any]) -> None:
        """Save what was done for the observer of the gate; undone changes become a note of the run."""
        if notes := put_back(plan, done):
            run.save_record(replace(run.record, notes=(*run.record.notes, *notes)))
            for note in notes:
                self.emit(note)
        if not options["components"]:
            save_results(run.path, plan, done, options["helm"])

    def _refuse(self, reasons: tuple[str, ...], hint: str, *, only_say: bool) -> None:
        """Refuse if other components are in the way.

        Where nothing is changed the reasons are only printed, because an earlier task would have changed that.

        Raises:
            InputError: other components are in the way.
        """
        if reasons and not only_say:
            raise InputError("components", f"{'; '.join(reasons)}.", hint)
        for reason in reasons:
            self.emit(reason)

    def _remove(
        self,
        run: Run,
        components: tuple[Component, ...],
        chosen: tuple[Component, ...],
        helm: Helm,
        cluster: Cluster,
        options: dict[str, Any],
    ) -> dict[str, Any]:
        """Plan, and outside of check mode remove what is ours."""
        crds = options["remove_crds"]
        found = with_existing(cluster, components, installed(helm, cluster, components))
        self._refuse(needed_by(components, chosen, found), "remove that first, or name both", only_say=self.check_mode)
        found = alone(found, chosen) if options["components"] else found
        have = holdings_of(helm, cluster, chosen, found, mirror=options["chart_mirror"] or "", remove_crds=crds)
        removals = plan_removal(chosen, found, have, remove_crds=crds)
        namespaces = removable_namespaces(removals, chosen) if options["remove_namespaces"] else ()
        namespaces = namespaces_alone(namespaces, components, chosen)
        there = [name for name in namespaces if cluster.find(NAMESPACES, name) is not None]
        result = {
            "changed": bool(there) or any(entry.action == "remove" for entry in removals),
            "removal": removal_rows(removals),
            "diff": removal_diff(removals, there),
        }
        # One component may be a step of a run, which prints its own last lines.
        last = not options["components"]
        if self.check_mode:
            return result | ({"closing_lines": removal_lines(removals, there)} if last else {})
        take_hold(run, options, self.emit)
        try:
            begin_history(run, STACK_GATE, options["store"])
            with working(run.path):
                gone = Remover(helm, cluster, options["drain_timeout_s"], self.emit).run(removals, there)
        finally:
            if last:
                end_hold(run)
        problem = removal_failure(gone)
        if problem:
            raise problem
        changed = any(entry.state == "removed" for entry in gone)
        done: dict[str, Any] = {**result, "changed": changed, "removed": to_plain(list(gone))}
        return done | ({"closing_lines": gone_lines(removals, gone)} if last else {})
