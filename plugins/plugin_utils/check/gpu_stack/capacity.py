# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where tests may place pods: nodes in scope that work, and GPUs that nobody uses. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
_OPEN_TAINTS = ("nvidia.com/gpu",)


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


def working_nodes(nodes: Iterable[Json], names: Collection[str]) -> list[Json]:
    """Return the nodes of these names that are Ready and take GPU pods."""
    return [node for node in nodes if node["metadata"]["name"] in names and _takes_pods(node)]


def _takes_pods(node: Json) -> bool:
    spec = node.get("spec") or {}
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    closed = any(
        taint.get("effect") in ("NoSchedule", "NoExecute") and taint.get("key") not in _OPEN_TAINTS
        for taint in spec.get("taints") or []
    )
    return ready and not spec.get("unschedulable") and not closed


def free_gpus(nodes: Iterable[Json], pods: Iterable[Json]) -> dict[str, tuple[int, int]]:
    """Return (allocatable, free) GPUs of each node that has any."""
    used: Counter[str] = Counter()
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            used[node] += _asked(pod)
    found = {}
    for node in nodes:
        name = node["metadata"]["name"]
        text = str(((node.get("status") or {}).get("allocatable") or {}).get(GPU, "0"))
        total = int(text) if text.isdigit() else 0
        if total:
            found[name] = (total, max(0, total - used[name]))
    return found


def _asked(pod: Json) -> int:
    containers = (pod.get("spec") or {}).get("containers") or []
    asked = [((c.get("resources") or {}).get("limits") or {}).get(GPU, 0) for c in containers]
    return sum(int(value) for value in asked if str(value).isdigit())


def slots_of(free: dict[str, tuple[int, int]], most_nodes: int) -> Slots | None:
    """Return the room for the gang test: whole free nodes if there are two, else GPUs of the freest node.

    None if there is not even room for two pods: then nothing can be told about gangs.
    """
    whole = {name: total for name, (total, unused) in free.items() if total == unused}
    if whole:
        size = Counter(whole.values()).most_common(1)[0][0]
        alike = sorted(name for name, total in whole.items() if total == size)[:most_nodes]
        if len(alike) >= 2:
            return Slots(nodes=tuple(alike), count=len(alike), gpus=size)
    name, (_total, unused) = max(free.items(), key=lambda entry: entry[1][1], default=("", (0, 0)))
    return Slots(nodes=(name,), count=unused, gpus=1) if unused >= 2 else None
