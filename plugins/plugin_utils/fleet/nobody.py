# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes that nobody gives work to: before they join a cluster there is nothing to cordon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class NobodysNodes:
    """See engine.Orchestrator; what it says is that nothing is in the way."""

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

    def upgrade(self, nodes: Sequence[str], timeout_s: float) -> dict[str, str]:
        """Return that nobody upgrades drivers: operators live in Kubernetes."""
        del timeout_s
        return dict.fromkeys(nodes, self.upgrade_problem(nodes))

    def upgrade_problem(self, nodes: Sequence[str]) -> str:
        """Return that there is no operator."""
        del nodes
        return "there is no GPU operator without Kubernetes"

    def labels(self, nodes: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return no labels: nodes have them in Kubernetes alone."""
        return {node: {} for node in nodes}

    def ours(self, nodes: Sequence[str]) -> frozenset[str]:
        """Return all of them: nobody else gives them work."""
        return frozenset(nodes)

    def boots(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Return nothing: only the hosts themselves know."""
        del nodes
        return {}

    def await_others(self, nodes: Sequence[str]) -> None:
        """Do nothing: nobody else is known here."""

    def give_back(self, node: str) -> str:
        """Do nothing."""
        del node
        return ""

    def hold(self, node: str, reason: str, *, again: bool = False) -> None:
        """Do nothing: the journal alone holds the node."""
