# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module rehearsal_start: starts a simulated cluster on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.loader import connection_loader

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.arguments import refuse
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.module_action import ModuleAction
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated import stated_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.stated_inventory import (
    extra_variables,
    stated_inventory,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.settings_sources import merged_settings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import COLLECTION_ROOT
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.inventory_values import plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.layers import laid_over
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.inventory import scope_problems
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.faults.catalogue import (
    LIST,
    catalogue_table,
    gives_out_by_claims,
    load_catalogue,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.bring_up import bring_up
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import LIST as PLAYS_LIST
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import (
    RehearsalRequest,
    kept_command,
    kept_lines,
    own_variables,
    planned_nodes,
    plays_table,
    request_problems,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import PlannedNode
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.places import DATA
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.substitution.replacements import StatedSite
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import LIST as WORLDS_LIST
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import (
    World,
    load_worlds,
    world_or_error,
    worlds_table,
    write_hardware,
)

# Loaded here in Ansible's main process, before it forks a worker for every host, which would each load it again.
connection_loader.get("gpufleet.rehearsal.rehearsal", class_only=True)


class ActionModule(ModuleAction):
    """Start a rehearsal."""

    module = "gpufleet.rehearsal.rehearsal_start"
    _supports_check_mode = False

    @staticmethod
    def ahead(
        options: dict[str, Any], task_vars: dict[str, Any], hosts: Mapping[str, Mapping[str, Any]]
    ) -> list[BringupError]:
        """Return what is wrong with the names in the options, before the module runs (`action_base.ahead`)."""
        if LIST in (options["world"], options["play"], *options["faults"]):
            return []
        simulated = hosts.keys() - {"localhost"}
        extra = extra_variables(task_vars)
        problems = request_problems(options, hosts=simulated, extra=extra)
        return [*problems, *own_variables(extra), *scope_problems(options["gates"], options["from_gate"])]

    def execute(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Start the rehearsal and return what the plays need to work on it. With `list` only print the list."""
        faults = tuple(str(fault) for fault in options["faults"])
        table = _wanted_list(faults, options["world"], options["play"])
        if table:
            return {"changed": False, "listed": True, "closing_lines": table.splitlines()}
        inventory = _inventory_hosts(options["group"], task_vars)
        # Later plays would refuse these as well, but minutes later.
        refuse("rehearsal", self.ahead(options, task_vars, {host["name"]: {} for host in inventory}))
        world = _world(options["world"], inventory)
        cache = Path(options["cache"]).expanduser() if options["cache"] else default_cache(os.environ)
        directory = Path(options["directory"]).expanduser().resolve()
        own = write_hardware(world, directory / "world") if world else ()
        recipe_data = (*own, *(Path(path).expanduser() for path in options["recipe_data"]))
        if world:
            options = _within(world, options)
        configured = stated_settings(options, task_vars, self._templar, lambda _line: None)
        of_world = _stated_variables(world, recipe_data) if world else {}
        settings = {"gpufleet_settings": plain(configured["settings"])} if configured["settings"] and not world else {}
        nodes = world.nodes if world else planned_nodes(inventory, options["nodes"], str(options["sku"]))
        request = RehearsalRequest(
            directory=directory,
            cache=cache.resolve(),
            collection=COLLECTION_ROOT,
            nodes=nodes,
            site_name=str(options["site_name"]),
            faults=faults,
            keep=options["keep"],
            recipe_data=recipe_data,
            full=options["full"],
            shapes=world.model if world else (),
            plan=world.plan if world else True,
            bmcs=_with_bmc(nodes, inventory),
            pdus=not inventory,
            site=_stated_site(configured, task_vars),
            settings=options["settings"] if world else {},
            notes=_notes(world),
            # A site's own recipes may allocate GPUs by claims as they like.
            dra=bool(recipe_data) or gives_out_by_claims(world.inventory.overrides if world else _overrides(task_vars)),
            inventory=stated_inventory(options["group"], task_vars, of_world | settings, self.emit),
        )
        rehearsal = bring_up(request, Progress(self.emit))
        return {
            "changed": True,
            "listed": False,
            "directory": str(rehearsal.directory),
            "kubeconfig": str(rehearsal.kubeconfig),
            "chart_mirror": str(rehearsal.chart_mirror),
            "hosts": [_host(node, rehearsal.bmcs) for node in rehearsal.hosts],
            "programs": rehearsal.programs,
            "version": rehearsal.version,
            "settings": rehearsal.settings,
            "notes": list(rehearsal.notes),
            "default_criteria": options["default_criteria"],
            "stated": of_world,
            "kept_lines": kept_lines(directory, str(rehearsal.kubeconfig)) if options["keep"] else [],
            "again": kept_command(directory, options["play"]) if options["keep"] else "",
        }


def _wanted_list(faults: tuple[str, ...], world: str, play: str) -> str:
    """Return the list that was requested in place of a rehearsal; empty if none was."""
    if play == PLAYS_LIST:
        return plays_table()
    if faults == (LIST,):
        return catalogue_table(load_catalogue())
    return worlds_table(load_worlds(DATA)) if world == WORLDS_LIST else ""


def _world(name: str, inventory: list[dict[str, Any]]) -> World | None:
    if not name:
        return None
    if inventory:
        reason = f"has hosts of its own, and the inventory has {len(inventory)}."
        raise InputError(f"WORLD {name!r}", reason, "rehearse a world without an inventory of GPU hosts")
    return world_or_error(load_worlds(DATA), name)


def _notes(world: World | None) -> tuple[str, ...]:
    if world is None:
        return ()
    return (f"rehearsal: world: {world.title}; its {len(world.nodes)} nodes take the place of NODES and SKU",)


def _within(world: World, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the reference site, overridden by those of the user."""
    configured = merged_settings(options["settings"], options["set"], {})
    criteria = {**options["default_criteria"], **world.inventory.criteria}
    return {**options, "settings": laid_over(world.inventory.settings, configured), "default_criteria": criteria}


def _overrides(task_vars: Mapping[str, Any]) -> Mapping[str, Any]:
    found = task_vars.get("gpufleet_overrides")
    return found if isinstance(found, Mapping) else {}


def _stated_variables(world: World, recipe_data: tuple[Path, ...]) -> dict[str, Any]:
    """Return the inventory variables of the reference site."""
    return {
        "gpufleet_profile": world.inventory.profile,
        "gpufleet_driver_owner": world.inventory.driver_owner,
        "gpufleet_quarantine": [dict(entry) for entry in world.inventory.quarantine],
        "gpufleet_gates": list(world.gates),
        "gpufleet_overrides": world.inventory.overrides,
        "gpufleet_recipe_data": [str(path) for path in recipe_data],
    }


def _inventory_hosts(group: str, task_vars: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = ("sku", "rack", "hcas", "bmc")
    names = task_vars.get("groups", {}).get(group, [])
    variables = {name: task_vars["hostvars"][name] for name in names}
    return [{"name": name, **{key: host.get(f"gpufleet_{key}") for key in wanted}} for name, host in variables.items()]


def _with_bmc(nodes: tuple[PlannedNode, ...], inventory: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the hosts whose BMC is simulated: those with a BMC in the inventory, or all hosts without an inventory."""
    named = {str(host["name"]) for host in inventory if host["bmc"]}
    return tuple(node.name for node in nodes if not node.outside and (not inventory or node.name in named))


def _host(node: PlannedNode, bmcs: dict[str, str]) -> dict[str, Any]:
    bmc = bmcs.get(node.name, "")
    return {"name": node.name, "sku": node.sku, "rack": node.rack, "hcas": list(node.hcas), "bmc": bmc}


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
