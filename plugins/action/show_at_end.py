# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module show_at_end: a result as the last lines of a playbook."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_dump import dump_yaml
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.inventory_values import plain


class ActionModule(ModuleAction):
    """Let a result be printed below the recap, as the tables of runs are."""

    module = "show_at_end"

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return the lines of the result; the end of the playbook prints them."""
        del task_vars
        lines = [line for text in options["lines"] for line in text.split("\n")]
        lines += [] if options["value"] is None else _lines(options["value"])
        return {"changed": False, "closing_lines": lines, "exit_code": 0}


def _lines(value: object) -> list[str]:
    """Return text as it is, line by line, and anything else as YAML."""
    if isinstance(value, str):
        return value.rstrip("\n").split("\n")
    return dump_yaml(plain(value)).removesuffix("...\n").rstrip("\n").split("\n")
