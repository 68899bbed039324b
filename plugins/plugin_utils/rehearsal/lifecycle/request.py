# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a rehearsal is asked for, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...outcome.errors import InputError
from ...runtime.inventory_values import StatedInventory
from ...runtime.recipe_files import RECIPES
from ..model.spec import PlannedNode, Shape, numbered_nodes, rack_name
from ..substitution.replacements import StatedSite


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalRequest:
    """What to rehearse.

    Args:
        directory: the rehearsal's own directory.
        cache: where built programs are kept.
        collection: root of the collection.
        nodes: the hosts to simulate.
        faults: fault ids or files.
        keep: leave it up after the controller's end.
        recipe_data: recipe directories of the site, beside the collection's own.
        shapes: how the healthy cluster differs from the one that follows from its hosts.
        plan: whether the site keeps a cabling plan.
        site: what else the site states.
        full: run for real what can run without the hardware, see `full_sets`.
        bmcs: names of the hosts whose BMC is simulated.
        pdus: whether the PDUs of their racks are, too.
        audit: whether the API server writes who changed what, into `audit.log` of the directory.
        settings: those of the world, beneath what the rehearsal replaces.
        notes: what is to be said before what the rehearsal replaces.
        inventory: what else the inventory of the rehearsal says.
        dra: whether GPUs may be given out by claims; false refuses faults of them.
    """

    directory: Path
    cache: Path
    collection: Path
    nodes: tuple[PlannedNode, ...]
    site_name: str = "rehearsal"
    faults: tuple[str, ...] = ()
    keep: bool = False
    recipe_data: tuple[Path, ...] = ()
    full: bool = False
    shapes: tuple[Shape, ...] = ()
    plan: bool = True
    site: StatedSite = field(default_factory=StatedSite)
    bmcs: tuple[str, ...] = ()
    pdus: bool = False
    audit: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    inventory: StatedInventory = field(default_factory=StatedInventory)
    dra: bool = True

    @property
    def recipes(self) -> tuple[Path, ...]:
        """Every directory of recipe data, the collection's own first."""
        return (RECIPES, *self.recipe_data)

    @property
    def hardware(self) -> tuple[Path, ...]:
        """The directories with SKUs of the site; a directory of recipe data need not have one, but has to be there."""
        found = ((path, path / "hardware") for path in self.recipe_data)
        return tuple(skus for path, skus in found if skus.is_dir() or not path.is_dir())

    @property
    def full_sets(self) -> Path | None:
        """Where `make setup-full` installs the programs that then run for real, a directory for each set."""
        return self.collection / ".cache" if self.full else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A rehearsal that is up.

    Args:
        settings: settings that are not the site's own in a run on it, for `gpufleet_forced_settings`.
        notes: what is not the site's own, one line each, for `gpufleet_notes`.
        programs: path of every program by name.
        bmcs: the URL of every simulated BMC by its host.
    """

    directory: Path
    kubeconfig: Path
    chart_mirror: Path
    nodes: tuple[PlannedNode, ...]
    programs: dict[str, str]
    version: str
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    bmcs: dict[str, str] = field(default_factory=dict)

    @property
    def hosts(self) -> tuple[PlannedNode, ...]:
        """Those of its nodes that the inventory has."""
        return tuple(node for node in self.nodes if not node.outside)


def planned_nodes(hosts: list[dict[str, Any]], count: int, sku: str) -> tuple[PlannedNode, ...]:
    """Return the hosts to simulate: those of an inventory, or `count` numbered ones when it has none.

    Args:
        hosts: `name`, `sku`, `rack` and `hcas` of each; an empty `sku` or `rack` gets the default.

    Raises:
        InputError: the count is less than 1 or a host has no name.
    """
    if not hosts:
        return numbered_nodes(count, sku)
    nodes = []
    for index, host in enumerate(hosts):
        name = str(host.get("name") or "")
        if not name:
            raise InputError("rehearsal hosts", f"entry {index + 1} has no name.", "give each host name, sku and rack")
        hcas = tuple(str(hca) for hca in host.get("hcas") or ())
        rack = str(host.get("rack") or rack_name(index))
        nodes.append(PlannedNode(name=name, sku=str(host.get("sku") or sku), rack=rack, hcas=hcas))
    return tuple(nodes)
