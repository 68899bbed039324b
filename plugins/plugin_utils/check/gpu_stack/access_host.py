# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host as the checks of GPU containers see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome
from ..kit import host_context
from ..kit.told_once import told_once
from ..spec import CheckSpec, JudgeContext
from .access import AccessResult, NodeAccess, seen_of_its_own

HELD_BACK = "kubectl get ns -l gpufleet.io/purpose=test; delete what the run left"


@dataclass(frozen=True, slots=True)
class AccessHost(host_context.HostContext[AccessResult]):
    """One host and what the containers on it saw, None if there was no test on it."""

    @property
    def node(self) -> NodeAccess | None:
        return self.seen.on(self.entry.node_name)

    def facts(self) -> dict[str, Any]:
        """Return measured values, expectation and evidence of the host's containers."""
        node = self.node
        if node is None:
            return {}
        seen = seen_of_its_own(node)
        without = sorted({device for entry in (node.plain, node.asking) if entry for device in entry.devices})
        return {
            "measured": (
                Measure("GPUs in the container with GPUs", seen, "count"),
                Measure("GPU devices in containers without GPUs", len(without), "count"),
            ),
            "expected": (
                Expectation("GPUs in the container with GPUs", "==", node.asked, Basis.RULE, "count"),
                Expectation("GPU devices in containers without GPUs", "==", 0, Basis.RULE, "count"),
            ),
            "evidence": (
                Evidence("nvidia-smi -L in the container", node.node, node.owner.printed if node.owner else ""),
                Evidence("/dev/nvidia* in containers without GPUs", node.node, ", ".join(without) or "none"),
            ),
        }


def per_host(
    spec: CheckSpec,
    seen: AccessResult,
    context: JudgeContext,
    judge_host: Callable[[AccessHost, NodeAccess], Outcome],
) -> tuple[Outcome, ...]:
    """Return the outcomes of every host in scope, what holds all hosts told once."""

    def judged(host: AccessHost) -> Outcome:
        node, answer = host.node, host.answer
        if seen.problem:
            return answer.unknown(seen.problem, f"not tried: {seen.reason}", seen.hint or "run the gate again")
        if node is None:
            return answer.unknown("no-data", "no container was tried on the node", "run the gate again")
        if node.closed:
            return answer.blocked(by="node-ready", because=f"no pod can be placed there: {node.closed}")
        if not node.asked <= node.free <= node.total:
            text = f"what was saved contradicts itself: {node.asked} asked for, {node.free} free of {node.total}"
            return answer.unknown("no-data", text, "run the gate again")
        return judge_host(host, node)

    outcomes = host_context.per_host(AccessHost, spec, seen, context, judged, needs_sku=False)
    return told_once(outcomes, (*context.site.waivers, *context.site.acceptances))
