# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where the gang test may place its pods. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ...workload.capacity import NodeCapacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Room for equal pods: on these nodes, `count` pods of `gpus` GPUs each can run at once, and no more."""

    nodes: tuple[str, ...]
    count: int
    gpus: int

    @property
    def gang(self) -> int:
        """Size of a gang of which one fits and two do not."""
        return self.count // 2 + 1


def slots_of(capacities: Iterable[NodeCapacity], most_nodes: int) -> Slots | None:
    """Return the node for the gang test: whole free nodes if there are two, else GPUs of the freest node.

    None if there is not even room for two pods: then nothing can be said about gangs.
    """
    # The gangs ask the device plugin for their GPUs.
    offered = sorted((node for node in capacities if node.total and not node.by_dra), key=lambda node: node.name)
    whole = [node for node in offered if node.free == node.total]
    if whole:
        size = Counter(node.total for node in whole).most_common(1)[0][0]
        alike = [node.name for node in whole if node.total == size][:most_nodes]
        if len(alike) >= 2:
            return Slots(nodes=tuple(alike), count=len(alike), gpus=size)
    freest = max(offered, key=lambda node: node.free, default=None)
    return Slots(nodes=(freest.name,), count=freest.free, gpus=1) if freest and freest.free >= 2 else None
