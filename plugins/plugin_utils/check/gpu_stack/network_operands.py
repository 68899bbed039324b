# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the network operator runs on the nodes, and where it fails."""

from __future__ import annotations

from ...component_stack.facts import stack_facts
from ...component_stack.workloads import Workload
from .cluster_state import ClusterState, OperandState


def network_operands(cluster: ClusterState) -> tuple[OperandState, ...]:
    """Return the operands of the network operator. Its DaemonSets belong to no release."""
    return tuple(
        OperandState(title=title, workload=workload)
        for workload in cluster.workloads or ()
        for title in [_title(workload)]
        if title
    )


def broken_network_operands(cluster: ClusterState, bad: frozenset[str]) -> tuple[OperandState, ...]:
    """Return those that are not ready on a working node. `bad` are nodes that do not work."""
    return tuple(
        operand
        for operand in network_operands(cluster)
        if operand.workload.state != "ready" and not (operand.workload.nodes and set(operand.workload.nodes) <= bad)
    )


def _title(workload: Workload) -> str:
    if workload.kind != "DaemonSet" or workload.release:
        return ""
    names = stack_facts().network_operands
    return next((title for start, title in names.items() if workload.name.startswith(start)), "")
