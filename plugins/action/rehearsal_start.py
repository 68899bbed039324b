# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module rehearsal_start: brings a simulated cluster up on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.verb import VerbBase
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
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.toolchain.store import default_cache
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.recipe_files import COLLECTION_ROOT, RECIPES


class ActionModule(VerbBase):
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
            "settings": rehearsal.settings,
        }


def _inventory_hosts(group: str, task_vars: dict[str, Any]) -> list[dict[str, Any]]:
    names = task_vars.get("groups", {}).get(group, [])
    variables = {name: task_vars["hostvars"][name] for name in names}
    return [
        {"name": name, "sku": host.get("gpufleet_sku"), "rack": host.get("gpufleet_rack")}
        for name, host in variables.items()
    ]
