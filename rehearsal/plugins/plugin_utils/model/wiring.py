# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Cabling of a simulated InfiniBand fabric: two levels, rail k of every host of a group on leaf k of the group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .values import Node

SPINES = 4
# A switch addresses its ports with eight bits, so very large clusters get larger groups.
_GROUP, _LARGE_GROUP, _MANY = 32, 128, 512
_MIN_PORTS = 40


@dataclass(frozen=True, slots=True, order=True)
class Port:
    """One port of a switch."""

    switch: str
    number: int

    def __str__(self) -> str:
        return f"{self.switch}:{self.number}"


@dataclass(frozen=True, slots=True)
class Wiring:
    """Intended place of every cable.

    - `switches`: number of ports by name.
    - `hosts`: port by adapter (`gpu01/mlx5_0`).
    - `uplinks`: pairs of a leaf's and a spine's port.
    """

    switches: dict[str, int]
    hosts: dict[str, Port]
    uplinks: tuple[tuple[Port, Port], ...]


def wire(nodes: Sequence[Node]) -> Wiring:
    """Return the wiring of these hosts; empty if none has an InfiniBand adapter."""
    connected = [node for node in nodes if any(hca.link_layer == "InfiniBand" for hca in node.hcas)]
    size = _GROUP if len(connected) <= _MANY else _LARGE_GROUP
    units: dict[int, list[Node]] = {}
    for node in connected:
        units.setdefault(node.unit, []).append(node)
    groups = [members[at : at + size] for members in units.values() for at in range(0, len(members), size)]
    hosts = {
        f"{node.name}/{hca.name}": Port(f"leaf-g{number}-rail{hca.index}", place)
        for number, group in enumerate(groups, 1)
        for place, node in enumerate(group, 1)
        for hca in node.hcas
        if hca.link_layer == "InfiniBand"
    }
    leaves = sorted({port.switch for port in hosts.values()}, key=_natural)
    uplinks = tuple(
        (Port(leaf, size + spine), Port(f"spine{spine}", place))
        for place, leaf in enumerate(leaves, 1)
        for spine in range(1, SPINES + 1)
    )
    spine_ports = max(_MIN_PORTS, len(leaves) + 2)
    switches = {leaf: max(_MIN_PORTS, size + SPINES) for leaf in leaves}
    if leaves:
        switches |= {f"spine{spine}": spine_ports for spine in range(1, SPINES + 1)}
    return Wiring(switches, hosts, uplinks)


def _natural(leaf: str) -> tuple[int, int]:
    group, rail = leaf.removeprefix("leaf-g").split("-rail")
    return int(group), int(rail)
