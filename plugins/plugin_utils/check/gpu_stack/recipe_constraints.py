# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the cluster satisfies what the recipe requires of it (server version, operating system, kernel)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...constraint.declared import declared_constraint
from ...constraint.evaluate import evaluate, evaluate_nodes
from ...constraint.model import Constraint, ConstraintResult, ConstraintStatus, Quantifier, Severity
from ...constraint.names import KERNEL_RELEASE, OS_ID, OS_VERSION, SERVER_VERSION
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, SubjectKind
from ...recipe.os_image import os_release
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, JudgeContext
from .cluster_state import ClusterState, NodeState
from .observe_cluster import OBSERVER
from .roots import blocked_by_permissions

SPEC = CheckSpec(
    id="recipe-constraints",
    gate="gpu_stack",
    title="The cluster satisfies the recipe's constraints",
    per=SubjectKind.CLUSTER,
    requires=("kubernetes",),
    causes=("constraint-not-met",),
)
_PER_NODE: dict[str, Callable[[NodeState], str | None]] = {
    OS_ID: lambda node: os_release(node.os_image)[0],
    OS_VERSION: lambda node: os_release(node.os_image)[1],
    KERNEL_RELEASE: lambda node: node.kernel or None,
}


def judge(seen: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """One outcome if all constraints hold (or there are none), else one for each that does not."""
    answer = Answer.about_cluster(SPEC, context)
    hidden = blocked_by_permissions(answer, seen)
    if hidden:
        return (hidden,)
    if context.recipe is None or not seen.version:
        return (answer.unknown("no-data", "no recipe or no server version", "run role gpu_stack"),)
    results = _results(context.recipe, seen, context)
    bad = tuple(_not_met(answer, result) for result in results if result.status is not ConstraintStatus.PASS)
    if bad:
        return bad
    text = f"{len(results)} of {len(results)} constraints hold; server {seen.version}"
    measured = tuple(Measure(result.constraint.name, result.actual) for result in results)
    expected = tuple(Expectation(r.constraint.name, "satisfies", r.constraint.value, Basis.RECIPE) for r in results)
    return (answer.passed(text, measured=measured, expected=expected),)


def _results(recipe: Mapping[str, Any], seen: ClusterState, context: JudgeContext) -> list[ConstraintResult]:
    """Return what became of each constraint: of the recipe for all hosts, of a pool for its own."""
    shared = recipe.get("constraints") or []
    nodes = {host.name: host.node_name for host in context.site.in_scope}
    results = [_evaluated(declared_constraint(entry), seen, tuple(nodes.values())) for entry in shared]
    for pool in recipe.get("pools") or []:
        # One that does not say whose they are may mean each.
        own = tuple(nodes[name] for name in pool.get("hosts", nodes) if name in nodes)
        if own:
            more = [entry for entry in pool.get("constraints") or [] if entry not in shared]
            results += [_evaluated(declared_constraint(entry), seen, own) for entry in more]
    return results


def _evaluated(constraint: Constraint, cluster: ClusterState, names: tuple[str, ...]) -> ConstraintResult:
    if constraint.name == SERVER_VERSION:
        return evaluate(constraint, cluster.version)
    read = _PER_NODE.get(constraint.name)
    if read is None:
        return evaluate(constraint, None)
    nodes = [node for name in names if (node := cluster.node(name))]
    # Who does not say of how many nodes means all.
    quantified = replace(constraint, nodes=Quantifier(constraint.nodes.value or Quantifier.ALL))
    return evaluate_nodes(quantified, {node.name: read(node) for node in nodes})


def _not_met(answer: Answer, result: ConstraintResult) -> Outcome:
    constraint = result.constraint
    details: dict[str, Any] = {
        "measured": (Measure(constraint.name, result.actual or None),),
        "expected": (Expectation(constraint.name, "satisfies", constraint.value, Basis.RECIPE),),
        "evidence": (Evidence("GET /version; nodes status.nodeInfo", "cluster", result.reason),),
    }
    text = result.reason or f"{constraint.name} does not satisfy {constraint.value}"
    hint = (
        constraint.remediation or f"bring the cluster to {constraint.name} {constraint.value}, or choose another recipe"
    )
    if result.status is not ConstraintStatus.FAIL:
        return answer.unknown("constraint-unmeasured", text, hint, **details)
    if constraint.severity is Severity.WARNING:
        return answer.marginal("constraint-not-met", text, hint, **details)
    return answer.failed("constraint-not-met", text, hint, **details)


CHECK = Check(SPEC, OBSERVER, judge)
