# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs beside a roll that take nodes of the cluster out of work or reboot them: who, by which mark, since when."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..clients.kube.cluster import Cluster
from ..clients.kube.kinds import DAEMON_SETS, NODES, PODS
from ..clients.kube.permission import Permission
from .kured import Kured, kureds
from .node_agents import at_work_on

Json = Mapping[str, Any]
# refuse: a node on which another agent is at work, or which kured may reboot, is spared; wait: as long as a drain may
# take, and only then; allow: kured may be running, what is at work on a node is still left to it.
OthersPolicy = Literal["refuse", "wait", "allow"]
RIGHTS = (Permission("list", "daemonsets", "apps"),)
# A wave looks at each of its nodes one after the other.
_FRESH_S = 5.0


@dataclass(frozen=True, slots=True)
class _Running:
    """One kured and the nodes that have a pod of it."""

    kured: Kured
    nodes: frozenset[str]
    why: str


class Others:
    """Asks the API server who else is at work, at most every few seconds."""

    def __init__(
        self, cluster: Cluster, policy: OthersPolicy = "refuse", *, own_upgrade: bool = False,
        locks: bool = True, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Ask that cluster.

        Args:
            cluster: where.
            policy: see OthersPolicy.
            own_upgrade: the roll itself has the GPU operator upgrade drivers.
            locks: kured is looked for, which needs RIGHTS; without, only marks of the nodes count.
            clock: seconds.
        """
        self.policy, self._locks = policy, locks
        self._cluster, self._own_upgrade, self._clock = cluster, own_upgrade, clock
        self._seen: tuple[_Running, ...] = ()
        self._until = float("-inf")

    def at_work(self, node: Json) -> str:
        """Return who else is at work on a node now, and by which mark that is seen; empty for nobody.

        Raises:
            BringupError: the API server does not answer.
        """
        name = node["metadata"]["name"]
        locks = [text for running in self._running() if (text := running.kured.holds(name))]
        return "; ".join(filter(None, (at_work_on(node, own_upgrade=self._own_upgrade), *locks)))

    def in_the_way(self, node: Json) -> str:
        """Return why a node is not taken into a wave: who is at work on it, or may reboot it at any moment.

        Raises:
            BringupError: the API server does not answer.
        """
        found = self.at_work(node)
        if found or self.policy == "allow":
            return found
        name = node["metadata"]["name"]
        return "; ".join(running.why for running in self._running() if running.why and name in running.nodes)

    def _running(self) -> tuple[_Running, ...]:
        if self._clock() >= self._until:
            self._seen = self._look()
            self._until = self._clock() + _FRESH_S
        return self._seen

    def _look(self) -> tuple[_Running, ...]:
        found = kureds(self._cluster.list_objects(DAEMON_SETS)) if self._locks else ()
        if not found:
            return ()
        nodes = frozenset(item["metadata"]["name"] for item in self._cluster.list_objects(NODES))
        return tuple(_Running(one, self._nodes_of(one) or nodes, one.may_reboot(nodes)) for one in found)

    def _nodes_of(self, kured: Kured) -> frozenset[str]:
        """Return the nodes with a pod of it; of pods that cannot be told nothing, and then it may be on every node."""
        if not kured.selector:
            return frozenset()
        wanted = ",".join(f"{key}={value}" for key, value in kured.selector)
        pods = self._cluster.list_objects(PODS, kured.namespace, labels=wanted)
        return frozenset(str((pod.get("spec") or {}).get("nodeName") or "") for pod in pods)
