# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module baseline_info: what is accepted for a site, and how a run compares with it or with another run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.baseline.app import (
    acceptance_lines,
    compare_run,
    comparison_lines,
    existing_baselines,
    figures_of_run,
    nothing_accepted,
    plain_acceptance,
    plain_changes,
    plain_software_changes,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.baseline.proposed import (
    plain_proposed,
    proposed,
    proposed_lines,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run, existing_run_dir
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.baselines import AcceptedRun

NOTHING: tuple[AcceptedRun, ...] = ()


class ActionModule(ModuleAction):
    """Return what is accepted, and compare."""

    module = "baseline_info"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Read only; nothing is decided or written."""
        del task_vars
        if options["before"] and not options["run_dir"]:
            raise InputError("baseline_info", "compares before with run_dir, and there is none.", "name run_dir, too")
        run = Run(existing_run_dir(options["run_dir"])) if options["run_dir"] else None
        rehearsal = run.record.rehearsal if run else options["rehearsal"]
        elsewhere = 0
        if run is not None and options["before"]:
            accepted, holding = NOTHING, figures_of_run(Run(existing_run_dir(options["before"])))
        else:
            site = run.record.site if run else options["site_name"]
            store = existing_baselines(options["store"])
            accepted = store.accepted_runs(site, rehearsal=rehearsal)
            holding = store.accepted_figures(site, rehearsal=rehearsal)
            elsewhere = 0 if accepted else len(store.accepted_runs(site, rehearsal=not rehearsal))
        lines = acceptance_lines(accepted)
        if run is None:
            nothing = [] if accepted else [nothing_accepted(options["site_name"], elsewhere, rehearsal=rehearsal)]
            return _result(accepted, [*lines, *nothing], rehearsal=rehearsal)
        found = compare_run(run, holding)
        lines += comparison_lines(found) or ["nothing can be compared: the run has no figure of gates 6 to 8"]
        offered = proposed(run)
        lines += proposed_lines(offered)
        reported = {
            "compared": plain_changes(found),
            "worse": [entry.figure for entry in found.worse],
            "software": plain_software_changes(found),
            "proposed": plain_proposed(offered),
        }
        return _result(accepted, lines, rehearsal=rehearsal) | reported


def _result(accepted: Sequence[AcceptedRun], lines: list[str], *, rehearsal: bool) -> dict[str, Any]:
    return {
        "changed": False,
        "msg": lines,
        "accepted": [plain_acceptance(entry) for entry in accepted],
        "compared": [],
        "worse": [],
        "software": [],
        "proposed": [],
        "rehearsal": rehearsal,
        "exit_code": 0,
    }
