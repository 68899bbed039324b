# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module clusters_run: runs a playbook over the clusters of a fleet, ring by ring, and decides."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.command_line import command_line
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.fleet_asked import asked_of, members_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.fleet.app import (
    FAILED,
    STATE_FILE,
    FleetOptions,
    FleetPlace,
    Ring,
    fleet_holds,
    fleet_lock,
    fleet_passed,
    fleet_run_sentence,
    opened_place,
    rings_of,
    run_fleet,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.wording import shortened
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.report.console import table

_HEAD = ("cluster", "ring", "verdict", "gates", "result")
_RESUME = "gpufleet_fleet_resume"
_LONGEST = 160


class ActionModule(ModuleAction):
    """Run a playbook over clusters."""

    module = "clusters_run"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Run the rings; fail unless every cluster ended well."""
        for name, least in (("concurrency", 1), ("budget", 0), ("timeout_s", 1)):
            if options[name] < least:
                raise InputError(
                    f"gpufleet_fleet_{name}", f"is {options[name]:g}, expected {least} or more.", "correct it"
                )
        members = members_of(task_vars, options["clusters"], options["rings"])
        rings = rings_of({member.name: member.ring for member in members}, options["rings"])
        if self.check_mode:
            return self._planned(rings, options)
        base = Path(options["fleet_dir"]).expanduser().absolute()
        wanted = FleetOptions(
            concurrency=options["concurrency"], budget=options["budget"], timeout_s=options["timeout_s"]
        )
        with fleet_lock(base, "fleet", self.emit):
            place, requested = opened_place(
                base, options["play"], options["resume"],
                lambda found: asked_of(members, options["play"], found), self.emit,
            )  # fmt: skip
            run_fleet(place, rings, requested, wanted, self.emit)
        return _decided(place, rings, options)

    def _planned(self, rings: Sequence[Ring], options: Mapping[str, Any]) -> dict[str, Any]:
        lines = [f"ring {ring.name}: {', '.join(ring.clusters)}" for ring in rings]
        reported = (
            f"CHECK MODE: {options['play']} would be run, {options['concurrency']} at a time; nothing was started"
        )
        passed = {"passed": False, "exit_code": 0, "changed": False, "clusters": []}
        return {
            **passed,
            "closing_lines": [*lines, "", reported],
            "stats": _stats(reported, "", passed=False, exit_code=0),
        }


def _decided(place: FleetPlace, rings: Sequence[Ring], options: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for ring in rings for name in ring.clusters]
    results = {name: result for name, result in place.state.results.items() if name in names}
    sentence = fleet_run_sentence(options["play"], names, results, options["budget"])
    holds = fleet_holds(names, results)
    found = {
        "changed": True,
        "passed": fleet_passed(names, results),
        "exit_code": 8 if holds else 0,
        "fleet_run": str(place.path),
        "not_begun": [name for name in names if name not in results],
        "clusters": [
            {"cluster": name, "ring": ring.name, **to_plain(results[name])}
            for ring in rings
            for name in ring.clusters
            if name in results
        ],
        "stats": _stats(
            sentence, str(place.path / STATE_FILE), passed=fleet_passed(names, results), exit_code=8 if holds else 0
        ),
        "closing_lines": _closing(place, rings, sentence),
    }
    fails = holds and options["not_passed"] == "fail"
    return {**found, "failed": True, "msg": sentence} if fails else found


def _stats(verdict: str, report: str, *, passed: bool, exit_code: int) -> dict[str, Any]:
    return {
        "gpufleet_verdict": verdict,
        "gpufleet_passed": passed,
        "gpufleet_exit_code": exit_code,
        "gpufleet_report": report,
    }


def _closing(place: FleetPlace, rings: Sequence[Ring], sentence: str) -> list[str]:
    results = place.state.results
    rows, logs = [], []
    for ring in rings:
        for name in ring.clusters:
            found = results.get(name)
            if found is None:
                rows.append((name, ring.name, "-", "-", "not begun"))
                continue
            text = shortened(found.sentence.replace("\n", " "), _LONGEST)
            rows.append((name, ring.name, found.status.value, found.gates or "-", text))
            if found.holds:
                logs += [f"report   {found.run_dir}/report.html"] if found.run_dir else []
                logs += [f"log      {found.log or place.log(name)}"]
    lines = [*table(_HEAD, rows), "", *logs, f"verdict  {sentence}", "", f"results  {place.path / STATE_FILE}"]
    on_hold = len(results) < len(rows) or any(results[row[0]].holds for row in rows)
    command = command_line(sys.argv, os.environ, Path.cwd(), without=(_RESUME,)) if on_hold else ""
    if command:
        lines += ["", "do: mend what holds a cluster; the next command keeps what passed, and goes on"]
        lines += [f"again: {command} -e {_RESUME}={FAILED}"]
    return lines
