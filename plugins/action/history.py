# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module history: imports, exports, thins, copies and checks the history."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.history.app import care_for
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.database import place_of


class ActionModule(ModuleAction):
    """Maintain a history."""

    module = "history"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Carry out the requested state, and return how many rows were affected."""
        del task_vars
        changed, rows = care_for(options, time.time(), now_utc(), write=not self.check_mode)
        place = place_of(options["store"])
        where = f" to {Path(options['dest'])}" if options["dest"] else ""
        reported = ", ".join(f"{number} {name}" for name, number in rows.items())
        text = f"history {place}: {options['state']}{where}: {reported or 'nothing is wrong'}"
        self.emit(text)
        return {"changed": changed, "place": str(place), "rows": rows, "msg": text, "exit_code": 0}
