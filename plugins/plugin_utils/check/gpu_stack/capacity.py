# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where the gang test may place its pods. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...workload.capacity import GPU, NodeCapacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Room for equal pods: on these nodes, `count` pods of `gpus` of `resource` each can run at once, and no more;
    `by_dra`: they get whole GPUs by claims."""

    nodes: tuple[str, ...]
    count: int
    gpus: int
    resource: str = GPU
    by_dra: bool = False

    @property
    def gang(self) -> int:
        """Size of a gang of which one fits and two do not."""
        return self.count // 2 + 1


def slots_of(
    capacities: Iterable[NodeCapacity], most_nodes: int, gpus: Mapping[str, int] | None = None
) -> Slots | None:
    """Return the node for the gang test: whole free nodes if there are two, else GPUs of the freest node; where all
    give their GPUs out in parts, single parts of the node that has the fewest.

    None if there is not even room for two pods: then nothing can be said about gangs.

    Args:
        capacities: the nodes in scope.
        most_nodes: most nodes that the test uses.
        gpus: by node how many GPUs it has; one that offers more gives them out in parts.
    """
    capacities = list(capacities)
    has = {node.name: (gpus or {}).get(node.name, node.total) for node in capacities}
    offered = sorted((node for node in capacities if node.total), key=lambda node: node.name)
    # A claim names whole GPUs, whatever else is listed beside them.
    exclusive = [node for node in offered if node.by_dra or node.total <= has[node.name]]
    for by_dra in (False, True):
        found = _whole_slots([node for node in exclusive if node.by_dra is by_dra], most_nodes)
        if found is not None:
            return replace(found, by_dra=by_dra)
    shared = [(node, GPU, node.free) for node in offered if node not in exclusive]
    return _part_slots([*shared, *((node, *part) for node in capacities for part in node.free_parts.items())])


def _whole_slots(nodes: list[NodeCapacity], most_nodes: int) -> Slots | None:
    whole = [node for node in nodes if node.free == node.total]
    if whole:
        size = Counter(node.total for node in whole).most_common(1)[0][0]
        alike = [node.name for node in whole if node.total == size][:most_nodes]
        if len(alike) >= 2:
            return Slots(nodes=tuple(alike), count=len(alike), gpus=size)
    freest = max(nodes, key=lambda node: node.free, default=None)
    return Slots(nodes=(freest.name,), count=freest.free, gpus=1) if freest and freest.free >= 2 else None


def _part_slots(parts: Iterable[tuple[NodeCapacity, str, int]]) -> Slots | None:
    """Return room for pods of one part each: two parts may lie on one GPU, so a plugin may refuse to give a pod two."""
    fitting = [
        Slots(nodes=(node.name,), count=free, gpus=1, resource=resource)
        for node, resource, free in parts
        if free >= 2 and free // 2 + 1 <= node.pods_free
    ]
    return min(fitting, key=lambda slots: (slots.count, slots.nodes, slots.resource), default=None)
