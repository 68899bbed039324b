# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether what is ready stays so: how long pods have been ready, and how often they lost it while somebody looked.

A container that ends again and again is ready in between, and a pod whose probe comes and goes is ready at every other
look. Both show in the time of the condition Ready (Kubernetes API, PodCondition.lastTransitionTime): a container that
ends takes the readiness of its pod with it, whether anybody looks at that moment or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..clients.kube.conditions import condition

Json = dict[str, Any]


@dataclass(slots=True)
class ReadinessWatch:
    """Follows pods over several looks."""

    _since: dict[str, str] = field(default_factory=dict)
    _losses: dict[str, int] = field(default_factory=dict)

    def losses(self, pod: Json) -> int:
        """Return how often a pod lost its readiness since it was first looked at, this look included."""
        uid = str(pod["metadata"].get("uid") or pod["metadata"]["name"])
        before, now = self._since.get(uid, ""), _ready_since(pod)
        self._since[uid] = now
        if before and now != before:
            self._losses[uid] = self._losses.get(uid, 0) + 1
        return self._losses.get(uid, 0)

    def by_node(self, pods: Iterable[Json]) -> dict[str, int]:
        """Return, by node, how often the worst of its pods lost its readiness; nodes without a loss are not named."""
        found: dict[str, int] = {}
        for pod in pods:
            node, lost = str((pod.get("spec") or {}).get("nodeName") or ""), self.losses(pod)
            if lost:
                found[node] = max(lost, found.get(node, 0))
        return found


def ready_for_s(pods: Iterable[Json], now: datetime) -> float | None:
    """Return for how many seconds all pods have been ready, 0 where one is not or does not say since when; None
    where there is no pod."""
    ages = [age_s(_ready_since(pod), now) for pod in pods]
    return round(min(ages), 1) if ages else None


def unsteady_nodes(nodes: Iterable[Json], now: datetime, wanted_s: float) -> frozenset[str]:
    """Return the names of the nodes that have not been Ready for that long: what runs there comes or goes."""
    return frozenset(str(node["metadata"]["name"]) for node in nodes if age_s(_ready_since(node), now) < wanted_s)


def _ready_since(obj: Json) -> str:
    """Return since when a pod or a node is Ready; empty if it is not."""
    ready = condition(obj, "Ready")
    return str(ready.get("lastTransitionTime") or "") if ready.get("status") == "True" else ""


def age_s(since: str, now: datetime) -> float:
    """Return how many seconds ago a time of Kubernetes was, 0 for one that is none."""
    try:
        begun = datetime.fromisoformat(since.replace("Z", "+00:00"))
    except ValueError:
        return 0.0
    return max(0.0, (now - begun).total_seconds())
