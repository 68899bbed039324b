# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module wave_step: takes the nodes of a wave one step further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import connection_from
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.engine import NodeChange
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.plan import Stage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.proof import (
    Company,
    accused_nodes,
    await_company,
    problems_found,
    start_driver_proof,
    start_fabric_proof,
    start_verification,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.roll import (
    OpenRoll,
    nodes_of_site,
    open_roll,
    stage_lines,
    with_roll,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.wording import shortened
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.holding import end_hold, take_hold
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.not_reached import problem_recorded
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.stats import run_stats
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import working

_LONGEST = 400
_NOTHING: dict[str, Any] = {
    "changed": False,
    "stopped": "",
    "nodes": [],
    "boot_ids": {},
    "results": {},
    "labels": {},
    "neighbours": [],
    "proof": "",
}


class ActionModule(ModuleAction):
    """Do one step of a wave."""

    module = "wave_step"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Do it; each part is recorded in the journal before the next one begins."""
        del task_vars
        run, step = Run(existing_run_dir(options["run_dir"])), options["step"]
        if self.check_mode:
            return self._preview(run, options)
        with problem_recorded(run), working(run.path), open_roll(run, options, self.emit) as opened:
            if step != "end":
                take_hold(run, options, self.emit)
            before = stage_lines(opened.roll.states)
            found: dict[str, Any] = getattr(self, f"_{step}")(run, opened, options)
            after = stage_lines(opened.roll.states)
            events = len(opened.roll.journal.events)
        reported = {"before": "\n".join(before) + "\n", "after": "\n".join(after) + "\n"}
        return {**_NOTHING, "changed": before != after, "states": after, "diff": reported, "events": events, **found}

    def _preview(self, run: Run, options: dict[str, Any]) -> dict[str, Any]:
        """Print what blocks each node now; the server is queried, and nothing is changed."""
        if options["step"] != "drain":
            return {**_NOTHING, "states": []}
        with nodes_of_site(run.site, options, self.emit) as nodes:
            blocked = nodes.preview(options["nodes"])
        foreseen = {node: f"its change would be refused: {text}" for node, text in _problems(options).items()}
        blocked = {node: foreseen.get(node) or text for node, text in blocked.items()}
        lines = [f"{node}: {text or 'would be cordoned and drained'}" for node, text in blocked.items()]
        for line in lines:
            self.emit(f"check mode: {line}")
        free = [node for node, text in blocked.items() if not text]
        return {**_NOTHING, "changed": bool(free), "nodes": free, "states": lines}

    def _labels(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        del run
        return {"labels": opened.nodes.labels(options["nodes"])}

    def _drain(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        del run
        decision = opened.roll.begin()
        batch = [node for node in decision.nodes if node in options["nodes"]]
        # Nodes that were verified when the roll was interrupted only have to be given back.
        opened.roll.give_back()
        if decision.stopped:
            self.emit(f"the roll stops before wave {decision.wave}: {decision.stopped}")
        opened.nodes.await_others([node for node in batch if not opened.roll.states[node].stage.out])
        nodes = list(opened.roll.drain(batch, _problems(options)))
        return {"stopped": decision.stopped, "nodes": nodes, "labels": opened.nodes.labels(nodes)}

    def _upgrade(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        """Let the operator upgrade the nodes whose change was begun; a repeated step finds them done."""
        del run
        nodes = [node for node in opened.roll.at(Stage.CHANGING) if node in options["nodes"]]
        problems = opened.nodes.upgrade(nodes, options["upgrade_timeout_s"])
        return {"results": {node: {"problem": problem} for node, problem in problems.items()}}

    def _changed(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        del run
        results = {node: _changed_from(entry) for node, entry in options["results"].items()}
        nodes = opened.roll.changed(results, reboots=options["reboot"])
        return {"nodes": list(nodes), "boot_ids": {node: opened.roll.states[node].boot_id for node in nodes}}

    def _rebooted(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        del run
        came_up = {node: _changed_from(entry) for node, entry in options["results"].items()}
        return {"nodes": list(opened.roll.rebooted(came_up))}

    def _verify(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        del options
        nodes = opened.roll.at(Stage.CHANGED, Stage.REBOOTED)
        if not nodes:
            return {}
        wave = next(place.wave for place in opened.roll.journal.plan.places if place.node == nodes[0])
        return {"nodes": list(nodes), "proof": str(start_verification(run, nodes, wave))}

    def _verify_driver(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        """Put nodes that gate nodes did not pass on hold, and begin the proof of the operator's driver for the rest."""
        nodes = opened.roll.at(Stage.CHANGED, Stage.REBOOTED)
        if not nodes:
            return {}
        wave = next(place.wave for place in opened.roll.journal.plan.places if place.node == nodes[0])
        nodes = opened.roll.sift(problems_found(existing_run_dir(options["proof"]), nodes))
        return {"nodes": list(nodes), "proof": str(start_driver_proof(run, nodes, wave))} if nodes else {}

    def _verify_fabric(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        """Put nodes that gate nodes did not pass on hold, and begin the proof between hosts for the rest."""
        nodes = opened.roll.at(Stage.CHANGED, Stage.REBOOTED)
        if not nodes:
            return {}
        wave = next(place.wave for place in opened.roll.journal.plan.places if place.node == nodes[0])
        nodes = opened.roll.sift(problems_found(existing_run_dir(options["proof"]), nodes))
        company = self._company(run, opened, nodes, options)
        nodes = opened.roll.sift({node: company.alone.get(node, "") for node in nodes})
        if not nodes:
            return {}
        proof = start_fabric_proof(run, nodes, company.neighbours, wave)
        return {"nodes": list(nodes), "neighbours": list(company.neighbours), "proof": str(proof)}

    def _verify_rest(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        """Put nodes that failed between hosts on hold, and measure the others once more without them.

        A node that is slow by itself keeps its partners, and the wave as a whole, from being judged.
        """
        nodes = opened.roll.at(Stage.CHANGED, Stage.REBOOTED)
        if not nodes:
            return {}
        path = existing_run_dir(options["proof"])
        problems, accused = problems_found(path, nodes), accused_nodes(path, nodes)
        if not accused or not any(problems[node] for node in nodes if node not in accused):
            return {}
        wave = next(place.wave for place in opened.roll.journal.plan.places if place.node == nodes[0])
        nodes = opened.roll.sift({node: problems[node] if node in accused else "" for node in nodes})
        company = self._company(run, opened, nodes, options)
        nodes = opened.roll.sift({node: company.alone.get(node, "") for node in nodes})
        if not nodes:
            return {}
        proof = start_fabric_proof(run, nodes, company.neighbours, wave, again=True)
        return {"nodes": list(nodes), "neighbours": list(company.neighbours), "proof": str(proof)}

    def _company(self, run: Run, opened: OpenRoll, nodes: Sequence[str], options: dict[str, Any]) -> Company:
        with Cluster(connection_from(options)) as cluster:
            return await_company(
                cluster, run, nodes, opened.roll.states, timeout_s=options["drain_timeout_s"], emit=self.emit
            )

    def _verified(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        if options["proof"]:
            nodes = opened.roll.at(Stage.CHANGED, Stage.REBOOTED)
            opened.roll.verified(problems_found(existing_run_dir(options["proof"]), nodes))
        # If the run ends early, its report shows how far it came.
        run.save_record(with_roll(run.record, opened.roll.journal))
        return {}

    def _abort(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        del options
        opened.roll.abort()
        run.save_record(with_roll(run.record, opened.roll.journal))
        return {}

    def _end(self, run: Run, opened: OpenRoll, options: dict[str, Any]) -> dict[str, Any]:
        """Report how the roll ended; it failed unless every node came back."""
        del options
        run.save_record(with_roll(run.record, opened.roll.journal, opened.roll.decision().stopped))
        end_hold(run)
        stats = run_stats(run)
        found = {
            "passed": stats["gpufleet_passed"], "msg": stats["gpufleet_verdict"], "stats": stats,
            "stopped": opened.roll.decision().stopped, "exit_code": stats["gpufleet_exit_code"],
        }  # fmt: skip
        return found if found["passed"] else {**found, "failed": True}


def _problems(options: Mapping[str, Any]) -> dict[str, str]:
    """Return by node what blocks its change, cut to the length that a journal takes."""
    return {node: shortened(str(text), _LONGEST) for node, text in options["problems"].items() if text}


def _changed_from(entry: Mapping[str, Any]) -> NodeChange:
    return NodeChange(
        problem=shortened(str(entry.get("problem") or ""), _LONGEST),
        reboot=bool(entry.get("reboot")),
        boot_id=str(entry.get("boot_id") or ""),
        kernel=str(entry.get("kernel") or ""),
    )
