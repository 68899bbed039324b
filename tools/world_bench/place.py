# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site of a world as preflight would see it, and the model that its simulators draw."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.host_facts import shared_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.app import checked_inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.layers import laid_over
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model, healthy_cluster
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Fault, ModelSpec
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import ClusterModel, Node
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.worlds.catalogue import World, world_hardware

GROUP = "gpu_nodes"
NAME = "rehearsal"
_SEED = 1
TODAY = date(2026, 1, 5)


@dataclass(frozen=True)
class Place:
    """A world that is drawn in a directory: what the inventory says, what the model is, where a run keeps things."""

    world: World
    site: Site
    hardware: dict[str, Sku]
    model: ClusterModel
    healthy: ClusterModel
    directory: Path

    @property
    def planned_nodes(self) -> tuple[Node, ...]:
        """The hosts of the inventory as the healthy model has them, for the cabling plan."""
        return tuple(node for node in self.healthy.nodes if node.kubernetes.member)

    @property
    def run_dir(self) -> Path:
        """The run directory."""
        return self.directory / "run"

    def observing(self, recipe: dict[str, Any] | None = None) -> ObserveContext:
        """What observers get."""
        return ObserveContext(
            site=self.site, run_dir=self.run_dir, today=TODAY, hardware=self.hardware, recipe=recipe or {}
        )

    def judging(self, gate: str) -> JudgeContext:
        """What judges get."""
        shared = shared_facts(self.run_dir, self.site) if gate == "fabric_validation" else {}
        return JudgeContext(gate=gate, site=self.site, today=TODAY, hardware=self.hardware, shared=shared)


def settle(
    world: World,
    directory: Path,
    *,
    faults: tuple[Fault, ...] = (),
    settings: dict[str, dict[str, Any]] | None = None,
    seed: int = 0,
) -> Place:
    """Return a world with these faults in it; `settings` are those of the rehearsal, over those of the site; `seed`
    draws the model, 0: as always.

    Raises:
        BringupError: the world is not valid.
    """
    hardware = world_hardware(world, directory / "world")
    spec = ModelSpec(name=NAME, seed=seed or _SEED, nodes=world.nodes, shapes=world.model, faults=faults)
    return Place(
        world=world, site=_site(world, directory, settings or {}), hardware=hardware,
        model=build_model(spec, hardware), healthy=healthy_cluster(spec, hardware), directory=directory,
    )  # fmt: skip


def _site(world: World, directory: Path, settings: dict[str, dict[str, Any]]) -> Site:
    stated = world.inventory
    options = {
        "group": GROUP, "site_name": NAME, "recipe_data": [str(directory / "world")] if world.hardware else [],
        "check_dirs": [],
        "settings": laid_over(stated.settings, settings), "set": [], "forced_settings": {},
        "criteria": {}, "default_criteria": dict(stated.criteria), "profile": stated.profile,
        "driver_owner": stated.driver_owner, "quarantine": [dict(entry) for entry in stated.quarantine],
        "gates": list(world.gates),
    }  # fmt: skip
    hosts = {
        node.name: {"gpufleet_sku": node.sku, "gpufleet_rack": node.rack}
        | ({"gpufleet_hcas": list(node.hcas)} if node.hcas else {})
        for node in world.inventory_nodes
    }
    inventory = Inventory(groups={GROUP: list(hosts)}, variables={**hosts, "localhost": {}}, simulated=True)
    return checked_inventory(options, inventory).site
