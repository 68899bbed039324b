# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module rehearsal_start: brings a simulated cluster up on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated import stated_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.catalogue import (
    catalogue_table,
    load_catalogue,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.faults.choose import LIST
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.lifecycle.bring_up import bring_up
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.lifecycle.request import (
    RehearsalRequest,
    planned_nodes,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.substitution.replacements import StatedSite
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.toolchain.store import default_cache
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.settings_sources import merged_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.recipe_files import COLLECTION_ROOT, RECIPES


class ActionModule(ModuleAction):
    """Start a rehearsal."""

    module = "rehearsal_start"
    _supports_check_mode = False

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Start it and return what the plays need to work on it; asked for the list of faults, print that alone."""
        faults = tuple(str(fault) for fault in options["faults"])
        if faults == (LIST,):
            table = catalogue_table(load_catalogue(RECIPES / "rehearsal"))
            for line in table.splitlines():
                self.emit(line)
            return {"changed": False, "listed": True}
        cache = Path(options["cache"]).expanduser() if options["cache"] else default_cache(os.environ)
        request = RehearsalRequest(
            directory=Path(options["directory"]).expanduser().resolve(),
            cache=cache.resolve(),
            collection=COLLECTION_ROOT,
            nodes=planned_nodes(_inventory_hosts(options["group"], task_vars), options["nodes"], str(options["sku"])),
            site_name=str(options["site_name"]),
            faults=faults,
            keep=options["keep"],
            recipe_data=tuple(Path(path).expanduser() for path in options["recipe_data"]),
            full=options["full"],
            site=_stated_site(stated_settings(options, task_vars, self._templar, lambda _line: None), task_vars),
        )
        rehearsal = bring_up(request, Progress(self.emit))
        return {
            "changed": True,
            "listed": False,
            "directory": str(rehearsal.directory),
            "kubeconfig": str(rehearsal.kubeconfig),
            "chart_mirror": str(rehearsal.chart_mirror),
            "hosts": [{"name": node.name, "sku": node.sku, "rack": node.rack} for node in rehearsal.nodes],
            "programs": rehearsal.programs,
            "version": rehearsal.version,
            "settings": rehearsal.substitution.settings,
            "notes": list(rehearsal.substitution.notes),
        }


def _inventory_hosts(group: str, task_vars: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = ("sku", "rack", "hcas")
    names = task_vars.get("groups", {}).get(group, [])
    variables = {name: task_vars["hostvars"][name] for name in names}
    return [{"name": name, **{key: host.get(f"gpufleet_{key}") for key in wanted}} for name, host in variables.items()]


def _stated_site(options: dict[str, Any], task_vars: dict[str, Any]) -> StatedSite:
    groups, hostvars = task_vars.get("groups", {}), task_vars["hostvars"]
    simulated = groups.get(options["group"], [])
    return StatedSite(
        criteria=options["criteria"],
        settings=merged_settings(options["settings"], options["set"], {}),
        default_criteria=options["default_criteria"],
        other_hosts=tuple(name for name in groups.get("all", []) if name not in (*simulated, "localhost")),
        node_names=any(hostvars[name].get("gpufleet_node_name") not in (None, name) for name in simulated),
    )
