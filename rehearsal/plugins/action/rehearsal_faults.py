# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module rehearsal_faults: sets and lifts faults of the simulated hardware of a running rehearsal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    LIST,
    catalogue_table,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.changing import (
    Changed,
    change_faults,
    faults_of,
    is_up,
)


class ActionModule(ModuleAction):
    """Set and lift faults, or list them."""

    module = "gpufleet.rehearsal.rehearsal_faults"
    _supports_check_mode = False

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Change the faults of the rehearsal. Without faults to set or lift, print all that exist."""
        del task_vars
        directory = Path(options["directory"]).expanduser().resolve()
        wanted = [str(text) for text in options["set"] if str(text) not in ("", LIST)]
        lifted = [str(text) for text in options["lift"] if str(text)]
        lines: list[str] = []
        if wanted or lifted:
            changed = change_faults(directory, wanted, lifted)
        else:
            lines = catalogue_table(load_catalogue()).splitlines()
            changed = Changed(faults_of(directory))
        lines += _lines(changed, directory)
        done = bool(changed.set or changed.lifted)
        reported = {"set": changed.set, "lifted": changed.lifted, "closing_lines": lines}
        return {"changed": done, "faults": list(changed.faults), **reported}


def _lines(changed: Changed, directory: Path) -> list[str]:
    lines = [f"set:    {name}" for name in changed.set] + [f"lifted: {name}" for name in changed.lifted]
    if not is_up(directory):
        return [*lines, f"no rehearsal is up in {directory}, so none of them is set"]
    return [*lines, f"faults of the rehearsal in {directory}: {', '.join(changed.faults) or 'none'}"]
