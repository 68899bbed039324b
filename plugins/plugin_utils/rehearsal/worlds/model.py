# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A world: the shape of a real, healthy site, as changes to inventory, hardware facts and cluster model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ...outcome.errors import InputError
from ...outcome.gates import GATE_IDS
from ..model.spec import OtherAdapter, PlannedNode, Shape, rack_name


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGroup:
    """Hosts of one kind. `hcas` and `others` as in PlannedNode; `racks` are theirs in turn, else four hosts a rack;
    `outside`: the site has them and does not state them in the inventory; `unit`: those of another share no leaf."""

    sku: str
    count: int = 1
    racks: tuple[str, ...] = ()
    hcas: tuple[str, ...] = ()
    others: tuple[OtherAdapter, ...] = ()
    outside: bool = False
    unit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What the site states of itself, as `gpufleet_<name>`; what is not here is as in any rehearsal."""

    profile: Literal["on_premises", "colocation", "cloud"] = "on_premises"
    driver_owner: Literal["host", "operator"] = "host"
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    criteria: dict[str, str] = field(default_factory=dict)
    quarantine: tuple[dict[str, str], ...] = ()
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareChange:
    """A SKU file of the site's own: the facts of SKU `like`, with these in their place."""

    like: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One healthy site.

    Args:
        title: what is real about it, in one line.
        sources: where that can be read.
        gates: the gates that it declares; every one of them must pass.
        hosts: its GPU hosts.
        inventory: what it states of itself.
        hardware: SKUs of its own, by name.
        model: what the simulators draw in another way.
        leaves_out: what is real about it and not drawn, one line each.
        plan: whether the site keeps a cabling plan.
    """

    title: str
    sources: tuple[str, ...]
    gates: tuple[str, ...]
    hosts: tuple[HostGroup, ...]
    inventory: Inventory = Inventory()
    hardware: dict[str, HardwareChange] = field(default_factory=dict)
    model: tuple[Shape, ...] = ()
    leaves_out: tuple[str, ...] = ()
    plan: bool = True

    def __post_init__(self) -> None:
        for word in ("sources", "gates", "hosts"):
            if not getattr(self, word):
                raise InputError(word, "is empty.", "a world states its sources, its gates and its hosts")
        unknown = [gate for gate in self.gates if gate not in GATE_IDS]
        if unknown:
            raise InputError("gates", f"{unknown[0]!r} is not a gate.", f"the gates are {', '.join(GATE_IDS)}")
        if any(group.count < 1 for group in self.hosts):
            raise InputError("hosts", "a count is less than 1.", "leave the group out")

    @property
    def inventory_nodes(self) -> tuple[PlannedNode, ...]:
        """The hosts that its inventory states."""
        return tuple(node for node in self.nodes if not node.outside)

    @property
    def nodes(self) -> tuple[PlannedNode, ...]:
        """All hosts, called gpu01 and so on through all groups."""
        groups = [(group, place) for group in self.hosts for place in range(group.count)]
        width = max(2, len(str(len(groups))))
        return tuple(
            PlannedNode(
                name=f"gpu{number + 1:0{width}d}", sku=group.sku,
                rack=group.racks[place % len(group.racks)] if group.racks else rack_name(number),
                hcas=group.hcas, others=group.others, outside=group.outside, unit=group.unit,
            )
            for number, (group, place) in enumerate(groups)
        )  # fmt: skip
