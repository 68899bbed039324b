# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module rehearsal_stop: stops a simulated cluster and cleans up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.controller import controller_process
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.starter import read_state, stop


class ActionModule(ModuleAction):
    """Stop a rehearsal."""

    module = "gpufleet.rehearsal.rehearsal_stop"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Stop it, running or dead. A directory without a rehearsal is left unchanged."""
        del task_vars
        directory = Path(options["directory"]).expanduser().resolve()
        state = read_state(directory)
        if options["keep"]:
            # The commands to continue with it are printed at the end of the playbook.
            return {"changed": False, "removed": []}
        live = state is not None and state.supervisor.alive()
        if self.check_mode:
            return {"changed": live, "removed": []}
        # A rehearsal from start to end reports its own end: the result of its run.
        own = state is not None and state.controller == controller_process()
        removed = stop(directory)
        reported = [] if own else [_end(directory, live=live, left=bool(removed))]
        return {"changed": bool(removed), "removed": removed, "closing_lines": reported}


def _end(directory: Path, *, live: bool, left: bool) -> str:
    if live:
        return f"stopped the rehearsal in {directory}"
    return f"no rehearsal is up in {directory}" + ("; removed what an earlier one left there" if left else "")
