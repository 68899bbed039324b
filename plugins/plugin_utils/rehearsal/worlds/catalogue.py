# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The worlds of recipes/rehearsal/worlds/: healthy sites, each a file that is called as its id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ...hardware.sku import Sku
from ...outcome.errors import BringupError, InputError, NotFoundError, ProblemsError
from ...runtime.strict import decode_file, nearest_hint
from ..faults.shown import DRA, gives_out_by_claims, words_of_model
from ..model.values import ClusterModel
from .model import World

LIST = "list"
HOSTS_WANTED = {"multi_node": 2, "three_hosts": 3, "eight_hosts": 8}
"""How many hosts of one kind a world must have for each word: hosts are compared with equal ones."""


def load_worlds(directory: Path) -> dict[str, World]:
    """Return every world by id.

    Args:
        directory: the collection's recipes/rehearsal directory.

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
    """Return the world of that id.

    Raises:
        NotFoundError: there is none; names the nearest ones.
    """
    if name not in worlds:
        hint = f"{nearest_hint(name, worlds)} (WORLD=list prints all)"
        raise NotFoundError(f"WORLD {name!r}", "is not in recipes/rehearsal/worlds/.", hint)
    return worlds[name]


def offers(world: World, hardware: Mapping[str, Sku], model: ClusterModel) -> frozenset[str]:
    """Return the words by which a fault says what it needs, for a world and its healthy model; the README of the faults
    explains them."""
    skus = [hardware[group.sku] for group in world.hosts if not group.outside]
    aside = {entry["node"] for entry in world.inventory.quarantine}
    alike = max(Counter(node.sku for node in world.inventory_nodes if node.name not in aside).values())
    found = {
        **words_of_model(model, skus),
        DRA: gives_out_by_claims(world.inventory.overrides),
        "plan": world.plan and bool(model.infiniband.switches),
        # Adapters that call themselves otherwise than the plan are known by the GUIDs that their host says.
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
    return "\n".join([*lines, "", "WORLD=id; make worlds runs all", ""])


def worlds_page(worlds: Mapping[str, World]) -> str:
    """Return docs/reference/worlds.md."""
    lines = [
        "<!-- Generated from recipes/rehearsal/worlds/ (make reference). -->",
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
