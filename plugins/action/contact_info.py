# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module contact_info: whether this host can be reached, and with the rights that the probes need."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleError

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.host_limit import keep_alive
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import excerpt


class ActionModule(ModuleAction):
    """Check whether a host responds; one that does not is data, not a failed task."""

    module = "contact_info"
    _requires_connection = True

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Read the user id on the host."""
        del options, task_vars
        keep_alive(self._connection)
        try:
            answer = self._low_level_execute_command("id -u")
        except AnsibleError as error:
            return {"reached": False, "privileged": False, "reason": excerpt(str(error), 300)}
        text = str(answer.get("stdout", "")).strip()
        reported = excerpt(str(answer.get("stderr") or text), 300)
        if answer.get("rc") != 0 or not text.isdecimal():
            return {"reached": True, "privileged": False, "reason": f"id -u ended with {answer.get('rc')}: {reported}"}
        privileged = text == "0"
        return {
            "reached": True,
            "privileged": privileged,
            "reason": "" if privileged else f"user id is {text}, expected 0 (root)",
        }
