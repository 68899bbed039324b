# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Looks whether the nodes of running jobs still answer: now and then, and twice before it believes that they do not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.conditions import condition
from ..clients.kube.kinds import NODES
from ..runtime.pool import map_bounded

_LOOK_S = 4.0
# Beyond that many one list is cheaper, and asked for less often.
_MANY, _MANY_LOOK_S = 48, 15.0
_WORKERS = 8
_GONE = "it is no more in the cluster"


@dataclass(slots=True)
class NodeWatch:
    """Remembers which nodes were silent when it looked last."""

    cluster: Cluster
    _silent: dict[str, str] = field(default_factory=dict)
    _lost: dict[str, str] = field(default_factory=dict)
    _looked_at: float = field(default_factory=time.monotonic)

    def lost(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the nodes, of these, that were not Ready at the last two looks, each with its own message."""
        wanted = sorted(names)
        pause_s = _LOOK_S if len(wanted) <= _MANY else _MANY_LOOK_S
        if time.monotonic() - self._looked_at >= pause_s:
            now = self._look(wanted)
            self._lost = {name: reason for name, reason in now.items() if name in self._silent}
            self._silent, self._looked_at = now, time.monotonic()
        return self._lost

    def _look(self, names: list[str]) -> dict[str, str]:
        if len(names) <= _MANY:
            nodes = map_bounded(lambda name: self.cluster.find(NODES, name), names, _WORKERS)
            found = dict(zip(names, nodes, strict=True))
        else:
            every = {node["metadata"]["name"]: node for node in self.cluster.list_objects(NODES)}
            found = {name: every.get(name) for name in names}
        reasons = {name: not_ready(node) for name, node in found.items()}
        return {name: reason for name, reason in reasons.items() if reason}


def not_ready(node: dict[str, Any] | None) -> str:
    """Return why a node is not Ready, or that it is not there; empty if it is Ready."""
    if node is None:
        return _GONE
    ready = condition(node, "Ready")
    if ready.get("status") == "True":
        return ""
    return f"{ready.get('reason', '')}: {ready.get('message', '')}".strip(": ") or "it has no condition Ready"
