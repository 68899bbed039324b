# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where the gang test may place its pods. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...workload.capacity import GPU, NodeCapacity, node_capacity
from ...workload.nodes import Toleration

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Room for equal pods: on these nodes, exactly `count` pods with `gpus` of `resource` each can run at once.

    `by_dra`: they get whole GPUs by claims.
    """

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
    """Return the nodes for the gang test.

    These are whole free nodes if there are two; else the node with the most free GPUs; else, if all nodes split their
    GPUs, the node with the fewest parts. None: there is no room for even two pods, so gangs cannot be tested.

    Args:
        capacities: the nodes in scope.
        most_nodes: most nodes that the test uses.
        gpus: GPUs of each node. A node that offers more than that splits them.
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


def room_left(
    slots: Slots,
    objects: tuple[list[Json], list[Json], list[Json], list[Json]],
    namespace: str,
    tolerations: tuple[Toleration, ...] | None = None,
) -> int:
    """Return for how many pods of the test its nodes have room now, including those already placed.

    Args:
        slots: where the test places its pods.
        objects: all nodes, pods, claims and slices, as `read_gpu_objects` returns them.
        namespace: the namespace of the test.
        tolerations: what its pods tolerate.
    """
    nodes, pods, claims, slices = objects
    users, claimed = [
        [item for item in items if item["metadata"].get("namespace") != namespace] for items in (pods, claims)
    ]
    found = node_capacity(nodes, map(_where_it_will_be, users), claimed, slices, slots.nodes, tolerations)
    free = (node.free if slots.resource == GPU else node.free_parts.get(slots.resource, 0) for node in found.values())
    return sum(number // slots.gpus for number in free)


def _where_it_will_be(pod: Json) -> Json:
    """Return a pod with the node that it will get.

    If it is nominated to a node, pods of lower priority are being evicted from there (kubernetes.io, "Pod Priority and
    Preemption": user exposed information).
    """
    spec, nominated = pod.get("spec") or {}, (pod.get("status") or {}).get("nominatedNodeName")
    return pod if spec.get("nodeName") or not nominated else {**pod, "spec": {**spec, "nodeName": nominated}}


def one_alone(slots: Slots, bound: Mapping[str, int]) -> bool:
    """Return whether one gang is placed as a whole and the other not at all.

    A change of free room cannot cause that.
    """
    return sorted(bound.values()) == [0, slots.gang]


def moved(slots: Slots, room: int, bound: Mapping[str, int]) -> dict[str, Any]:
    """Return problem, reason and hint if other workloads changed the free room during the test.

    Empty: they did not affect it. Pure.

    Args:
        slots: the room when the test began.
        room: the room when it ended (`room_left`).
        bound: placed pods by gang.
    """
    both = min(bound.values(), default=0) >= slots.gang
    if one_alone(slots, bound) or ((room <= slots.count) if both else (room >= slots.count)):
        return {}
    placed = ", ".join(f"{name} {count} of {slots.gang}" for name, count in bound.items())
    reason = (
        f"the room changed meanwhile: for {slots.count} pods of the test when it began, for {room} when it ended, so "
        f"that {placed} bound says nothing of the scheduler"
    )
    where = ", ".join(slots.nodes)
    hint = f"run the gate again while nobody starts or ends work, or sets nodes aside: {where}"
    return {"problem": "room-changed", "reason": reason, "hint": hint}


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
    """Return room for pods of one part each.

    Two parts may be of one GPU, so a plugin may refuse to give both to a pod.
    """
    fitting = [
        Slots(nodes=(node.name,), count=free, gpus=1, resource=resource)
        for node, resource, free in parts
        if free >= 2 and free // 2 + 1 <= node.pods_free
    ]
    return min(fitting, key=lambda slots: (slots.count, slots.nodes, slots.resource), default=None)
