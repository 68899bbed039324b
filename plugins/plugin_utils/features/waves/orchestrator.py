# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The scheduler of the nodes, as a roll uses it: Kubernetes, Slurm, or none before the nodes join a cluster.

What every scheduler has to do is abstract, so that no default reports a node as free. What only Kubernetes can do has a
default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence


class Orchestrator(ABC):
    """The scheduler of the nodes. Every method may be called again after a crash."""

    @abstractmethod
    def look(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return by node why it cannot be taken into a roll, empty if it can."""

    @abstractmethod
    def cordon(self, node: str, *, again: bool = False) -> str:
        """Take the node out of service, with our mark; return why not, empty if our cordon is set.

        `again`: its change is under way, so only a cordon of another party is a reason not to.
        """

    @abstractmethod
    def drain(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Drain the nodes within the time limit; return by node what blocks it, empty for a drained one."""

    @abstractmethod
    def preview(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return what would block each node now, empty for nothing; nothing is changed."""

    @abstractmethod
    def give_back(self, node: str) -> str:
        """Put the node back into service if we keep it out; return as text what others still keep on it."""

    @abstractmethod
    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        """Keep a node that is ours out of service and write the reason on it.

        `again`: only if no one gave it back meanwhile.
        """

    @abstractmethod
    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        """Return the nodes that this roll keeps out of service now."""

    def boots(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Return by node the boot id that it reports; a node that reports none is left out."""
        del nodes
        return {}

    def await_others(self, nodes: Sequence[str]) -> None:
        """Wait until no other program is at work on the nodes, where such programs are known."""
        del nodes

    def labels(self, nodes: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the labels of each node; only Kubernetes has any."""
        return {node: {} for node in nodes}

    def upgrade(self, nodes: Sequence[str], timeout_s: float) -> dict[str, str]:
        """Let the GPU operator upgrade the driver of nodes that are ours; return the problem by node."""
        del timeout_s
        return dict.fromkeys(nodes, self.upgrade_problem(nodes))

    def upgrade_problem(self, nodes: Sequence[str]) -> str:
        """Return why the operator cannot upgrade these nodes wave by wave; empty if it can."""
        del nodes
        return "there is no GPU operator without Kubernetes"


class ManualOrchestrator(Orchestrator):
    """Nodes without a scheduler: before they join a cluster nothing blocks a change."""

    def look(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return no reason: all can be taken into a roll."""
        return dict.fromkeys(nodes, "")

    def cordon(self, node: str, *, again: bool = False) -> str:
        """Do nothing."""
        del node, again
        return ""

    def drain(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Do nothing."""
        return dict.fromkeys(nodes, "")

    def preview(self, nodes: Sequence[str]) -> dict[str, str]:
        """Return that nothing blocks them."""
        return dict.fromkeys(nodes, "")

    def give_back(self, node: str) -> str:
        """Do nothing."""
        del node
        return ""

    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        """Do nothing: the journal alone holds the node."""

    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        """Return all of them: no scheduler gives them work."""
        return frozenset(nodes)
