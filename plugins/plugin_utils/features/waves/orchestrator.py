# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What gives work to nodes, as a roll talks to it: Kubernetes, Slurm, or nothing before the nodes join a cluster.

What every one of them has to do is abstract, so that none says by default that a node is free. What only Kubernetes can
do has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence


class Orchestrator(ABC):
    """What gives work to the nodes. Every method may be called again after a crash."""

    @abstractmethod
    def look(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return by node what keeps it from being taken into a roll, empty for nothing."""

    @abstractmethod
    def cordon(self, node: str, *, again: bool = False) -> str:
        """Let the node get no new work, with our mark; return why not, empty if it gets none by our hand.

        `again`: its change is under way, so only a cordon of somebody else is a reason not to.
        """

    @abstractmethod
    def drain(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Free the nodes of work within the time limit; return by node what is in the way, empty for a free one."""

    @abstractmethod
    def preview(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return what is in the way of each node now, empty for nothing; nothing is changed."""

    @abstractmethod
    def give_back(self, node: str) -> str:
        """Let the node get work again if it is kept from it by us; return what is left of others, for people."""

    @abstractmethod
    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        """Keep a node that is ours out of work and write on it why; `again`: only if nobody gave it back meanwhile."""

    @abstractmethod
    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        """Return those that are kept from work by this roll now."""

    def boots(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Return by node the boot id that it reports; nothing of one that reports none."""
        del nodes
        return {}

    def await_others(self, nodes: Sequence[str]) -> None:
        """Wait until no other program is at work on the nodes, where such programs are known."""
        del nodes

    def labels(self, nodes: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the labels of each node; only Kubernetes has any."""
        return {node: {} for node in nodes}

    def upgrade(self, nodes: Sequence[str], timeout_s: float) -> dict[str, str]:
        """Let the GPU operator upgrade the driver of nodes that are ours; return by node what went wrong."""
        del timeout_s
        return dict.fromkeys(nodes, self.upgrade_problem(nodes))

    def upgrade_problem(self, nodes: Sequence[str]) -> str:
        """Return why the operator cannot upgrade these nodes wave by wave; empty if it can."""
        del nodes
        return "there is no GPU operator without Kubernetes"


class ManualOrchestrator(Orchestrator):
    """Nodes that no orchestrator gives work to: before they join a cluster nothing is in the way of a change."""

    def look(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return that nothing keeps them from being taken into a roll."""
        return dict.fromkeys(nodes, "")

    def cordon(self, node: str, *, again: bool = False) -> str:
        """Do nothing."""
        del node, again
        return ""

    def drain(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Do nothing."""
        return dict.fromkeys(nodes, "")

    def preview(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return that nothing is in their way."""
        return dict.fromkeys(nodes, "")

    def give_back(self, node: str) -> str:
        """Do nothing."""
        del node
        return ""

    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        """Do nothing: the journal alone holds the node."""

    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        """Return all of them: no one else gives them work."""
        return frozenset(nodes)
