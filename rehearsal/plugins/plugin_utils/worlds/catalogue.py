# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The reference sites of rehearsal/recipes/worlds/: healthy sites, each a file named after its id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    InputError,
    NotFoundError,
    ProblemsError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.gates import GATE_IDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES, write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import (
    decode_file,
    nearest_hint,
    read_yaml,
)

from ..faults.catalogue import DRA, gives_out_by_claims, words_of_model
from ..model.spec import OtherAdapter, PlannedNode, Shape, rack_name
from ..model.values import ClusterModel

# A reference site: the shape of a real, healthy site, as changes to inventory, hardware facts and cluster model.


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGroup:
    """Hosts of one kind.

    - `hcas`, `others`: as in PlannedNode.
    - `racks`: the hosts take turns in these; by default four hosts per rack.
    - `outside`: the site has them, but not in the inventory.
    - `unit`: hosts of different units share no leaf.
    """

    sku: str
    count: int = 1
    racks: tuple[str, ...] = ()
    hcas: tuple[str, ...] = ()
    others: tuple[OtherAdapter, ...] = ()
    outside: bool = False
    unit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Variables of the site, as `gpufleet_<name>`. All others are as in any rehearsal."""

    profile: Literal["on_premises", "colocation", "cloud"] = "on_premises"
    driver_owner: Literal["host", "operator"] = "host"
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    criteria: dict[str, str] = field(default_factory=dict)
    quarantine: tuple[dict[str, str], ...] = ()
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareChange:
    """A SKU file of the site: the facts of SKU `like`, overridden by these."""

    like: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One healthy site.

    Args:
        title: its real property, in one line.
        sources: where it is documented.
        gates: the gates that it declares; every one of them must pass.
        hosts: its GPU hosts.
        inventory: its variables.
        hardware: its own SKUs, by name.
        model: patches to the simulated cluster.
        leaves_out: real properties that are not simulated, one line each.
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
        """Hosts in its inventory."""
        return tuple(node for node in self.nodes if not node.outside)

    @property
    def nodes(self) -> tuple[PlannedNode, ...]:
        """All hosts, named gpu01 and so on across all groups."""
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


# The SKU files of a reference site, beside those of the collection.

_HARDWARE = RECIPES / "hardware"


def write_hardware(world: World, directory: Path) -> tuple[Path, ...]:
    """Write the site's own SKUs below `directory`. Return it as recipe data of the site, empty if there are none.

    Raises:
        NotFoundError: a SKU is like one that recipes/hardware/ does not have.
        OSError: it cannot be written.
    """
    import yaml

    if not world.hardware:
        return ()
    for name, change in world.hardware.items():
        path = _HARDWARE / f"{change.like}.yaml"
        if not path.is_file():
            known = [file.stem for file in _HARDWARE.glob("*.yaml")]
            raise NotFoundError(
                f"hardware {name}", f"there is no SKU {change.like!r}.", nearest_hint(change.like, known)
            )
        facts = {key: value for key, value in read_yaml(path).items() if key != "aliases"} | change.facts
        target = directory / "hardware" / f"{name}.yaml"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, yaml.safe_dump(facts | {"name": name}, sort_keys=False))
    return (directory,)


def world_hardware(world: World, directory: Path) -> dict[str, Sku]:
    """Return every SKU, including the site's own, whose files are written below `directory`.

    Raises:
        ProblemsError: a fact is not valid.
        NotFoundError: see write_hardware.
    """
    return load_hardware([_HARDWARE, *(path / "hardware" for path in write_hardware(world, directory))])


LIST = "list"
HOSTS_WANTED = {"multi_node": 2, "three_hosts": 3, "eight_hosts": 8}
"""By word the number of hosts of one kind that a site needs, since hosts are compared with those of the same model."""


def load_worlds(directory: Path) -> dict[str, World]:
    """Return every reference site by id.

    Args:
        directory: the collection's rehearsal/recipes directory.

    Raises:
        ProblemsError: everything that is wrong with a file, with its line.
        InputError: there is no file.
    """
    found: dict[str, World] = {}
    problems: list[BringupError] = []
    for path in sorted((directory / "worlds").glob("*.yaml")):
        try:
            found[path.stem] = decode_file(World, path)
        except ProblemsError as error:
            problems.extend(error.problems)
        except BringupError as error:
            problems.append(error)
    if problems:
        raise ProblemsError("worlds", tuple(problems))
    if not found:
        raise InputError(str(directory / "worlds"), "holds no world (*.yaml).", "install the collection again")
    return found


def world_or_error(worlds: Mapping[str, World], name: str) -> World:
    """Return the reference site of that id.

    Raises:
        NotFoundError: there is none; the message names the nearest ones.
    """
    if name not in worlds:
        hint = f"{nearest_hint(name, worlds)} (playbook rehearse_worlds prints all)"
        raise NotFoundError(f"gpufleet_rehearsal_world {name!r}", "is not in rehearsal/recipes/worlds/.", hint)
    return worlds[name]


def offers(world: World, hardware: Mapping[str, Sku], model: ClusterModel) -> frozenset[str]:
    """Return the words that a site with its healthy model offers to faults, which list those that they need.

    The README of the faults explains the words.
    """
    skus = [hardware[group.sku] for group in world.hosts if not group.outside]
    aside = {entry["node"] for entry in world.inventory.quarantine}
    alike = max(Counter(node.sku for node in world.inventory_nodes if node.name not in aside).values())
    found = {
        **words_of_model(model, skus),
        DRA: gives_out_by_claims(world.inventory.overrides),
        "plan": world.plan and bool(model.infiniband.switches),
        # Adapters whose names differ from the plan are identified by the GUIDs that their host reports.
        "adapter_names": not (world.plan and model.infiniband.switches)
        or "{hca}" in model.infiniband.adapter_description,
        **{word: alike >= least for word, least in HOSTS_WANTED.items()},
        "gid_index": "NCCL_IB_GID_INDEX" in world.inventory.settings.get("fabric_validation", {}).get("env", {}),
        "sharp": bool(world.inventory.settings.get("nccl-all-nodes-bw", {}).get("sharp")),
        "host_driver": world.inventory.driver_owner == "host",
    }
    return frozenset({*world.gates, *(sku.fabric for sku in skus), *(word for word, there in found.items() if there)})


def worlds_table(worlds: Mapping[str, World]) -> str:
    """Return the list as text for a terminal: id, hosts, gates, title."""
    rows = [("WORLD", "HOSTS", "WHAT IS REAL ABOUT IT")]
    rows += [(name, _hosts(world), world.title) for name, world in worlds.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = ["  ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2]]) for row in rows]
    return "\n".join([*lines, "", "gpufleet_rehearsal_world (make: WORLD=): id", ""])


def worlds_page(worlds: Mapping[str, World]) -> str:
    """Return docs/reference/worlds.md."""
    lines = [
        "<!-- Generated from rehearsal/recipes/worlds/ (make reference). -->",
        "# Worlds: healthy sites to rehearse",
        "",
        "A world is the shape of a real site that is healthy: names of adapters, topology, what tools print there,",
        "what the cluster offers, what NCCL reaches. Each file names its sources. `make rehearse WORLD=<id>` runs the",
        "gates that the world declares, and all of them must pass; `WORLD=list` prints this list, `make worlds` judges",
        "all worlds.",
        "Faults can be put into a world: `make rehearse WORLD=<id> FAULTS=<what>`.",
        "",
        "| world | hosts | what is real about it | gates | left out |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, world in worlds.items():
        left = "; ".join(world.leaves_out)
        lines.append(f"| `{name}` | {_hosts(world)} | {world.title} | {', '.join(world.gates)} | {left} |")
    return "\n".join([*lines, "", "Sources:", "", *_sources(worlds), ""])


def _sources(worlds: Mapping[str, World]) -> list[str]:
    return [f"- `{name}`: {'; '.join(world.sources)}" for name, world in worlds.items()]


def _hosts(world: World) -> str:
    return ", ".join(f"{group.count} {group.sku}" for group in world.hosts)
