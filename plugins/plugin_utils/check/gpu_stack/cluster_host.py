# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host for the checks of gate gpu_stack: as a node of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...outcome.model import Outcome
from ..kit import host_context
from ..kit.finding import Report
from ..kit.told_once import told_once
from ..spec import CheckSpec, JudgeContext
from .cluster_state import ClusterState, NodeState
from .roots import blocked_by_permissions


@dataclass(frozen=True, slots=True)
class ClusterHost(host_context.HostContext[ClusterState]):
    """One host and its node. None: the cluster has no node of that name."""

    @property
    def node(self) -> NodeState | None:
        return self.seen.node(self.entry.node_name)


def per_host(
    spec: CheckSpec,
    observed: ClusterState,
    context: JudgeContext,
    judge_host: Callable[[ClusterHost], Report | Outcome],
    *,
    needs_sku: bool = True,
) -> tuple[Outcome, ...]:
    """Return the outcomes of every host in scope (see kit.host_context.per_host).

    What affects all hosts is reported once.
    """
    outcomes = host_context.per_host(
        ClusterHost, spec, observed, context, judge_host, before=_not_looked_at, needs_sku=needs_sku
    )
    return told_once(outcomes, (*context.site.waivers, *context.site.acceptances))


def _not_looked_at(host: ClusterHost) -> Outcome | None:
    blocked = blocked_by_permissions(host.answer, host.seen)
    if blocked is None and not host.seen.nodes:
        return host.answer.unknown("no-data", "the API server listed no nodes", "kubectl get nodes")
    return blocked
