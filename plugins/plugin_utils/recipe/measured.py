# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a recipe's constraints are compared with: the server's version, and facts that nodes report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from ..constraint.declared import KERNEL_RELEASE, OS_ID, OS_VERSION, SERVER_VERSION
from ..constraint.evaluate import Constraint, ConstraintResult, evaluate, evaluate_nodes
from .os_image import os_release


class NodeInfo(Protocol):
    """The status.nodeInfo of a node. Missing values are empty."""

    @property
    def os_image(self) -> str:
        """The operating system as the kubelet reports it."""

    @property
    def kernel(self) -> str:
        """Release of the kernel."""


PER_NODE: Mapping[str, Callable[[NodeInfo], str | None]] = {
    OS_ID: lambda node: os_release(node.os_image)[0],
    OS_VERSION: lambda node: os_release(node.os_image)[1],
    KERNEL_RELEASE: lambda node: node.kernel or None,
}


def evaluate_on(
    constraint: Constraint, server_version: str | None, nodes: Mapping[str, NodeInfo] | None
) -> ConstraintResult:
    """Return whether a constraint is met. It is unmeasured where nothing here measures it.

    Args:
        constraint: the constraint.
        server_version: version of the API server, None if it is not known.
        nodes: the nodes that it applies to, by name; None if they are not known.
    """
    if constraint.name == SERVER_VERSION:
        return evaluate(constraint, server_version)
    read = PER_NODE.get(constraint.name)
    if read is None or nodes is None:
        return evaluate(constraint, None)
    result = evaluate_nodes(constraint, {name: read(node) for name, node in nodes.items()})
    return replace(result, measured_on=len(nodes))
