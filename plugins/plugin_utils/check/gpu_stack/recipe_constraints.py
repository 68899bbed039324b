# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the cluster meets the constraints of the recipe.

These are server version, operating system and kernel, and those of its validation sections that need the components
(version of the GPU operator, driver).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...constraint.declared import MEASURED, declared_constraint
from ...constraint.evaluate import Constraint, ConstraintResult, ConstraintStatus
from ...outcome.gates import READINESS
from ...outcome.model import Evidence, Measure, Outcome, SubjectKind
from ...outcome.wording import first_of
from ...recipe.measured import PER_NODE, evaluate_on
from ..kit.answer import Answer
from ..kit.constraint_answers import expectation_of, not_met
from ..spec import Check, CheckSpec, JudgeContext, needs
from .cluster_state import ClusterState
from .observe_cluster import OBSERVER
from .phase_constraints import phase_results
from .roots import blocked_by_permissions

SPEC = CheckSpec(
    id="recipe-constraints",
    gate="gpu_stack",
    title="The cluster satisfies the recipe's constraints",
    per=SubjectKind.CLUSTER,
    applies=(needs("kubernetes"),),
    causes=("constraint-not-met",),
)


def judge(observed: ClusterState, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome for each constraint that is not met. If all are, or there are none: one that passed."""
    answer = Answer.about_cluster(SPEC, context)
    hidden = blocked_by_permissions(answer, observed)
    if hidden:
        return (hidden,)
    if context.recipe is None or not observed.version:
        return (answer.unknown("no-data", "no recipe or no server version", "run gate gpu_stack again"),)
    results = [*_results(context.recipe, observed, context), *phase_results(context.recipe, observed, context)]
    bad = tuple(
        not_met(answer, result, (Evidence("GET /version; nodes status.nodeInfo", "cluster", result.reason),))
        for result in results
        if result.status is not ConstraintStatus.PASS
    )
    if bad:
        return bad
    absent = [host.node_name for host in context.site.in_scope if observed.node(host.node_name) is None]
    if absent and any(result.constraint.name in PER_NODE for result in results):
        return (answer.blocked(by="node-ready", because=f"the cluster has no node {first_of(absent, 8)}"),)
    on = sorted({result.measured_on for result in results if result.measured_on is not None})
    nodes = f", those of nodes on {' and '.join(map(str, on))} of them" if on else ""
    text = f"{len(results)} of {len(results)} constraints hold; server {observed.version}{nodes}"
    measured = tuple(Measure(result.constraint.name, result.actual) for result in results)
    return (answer.passed(text, measured=measured, expected=tuple(map(expectation_of, results))),)


def _results(recipe: Mapping[str, Any], observed: ClusterState, context: JudgeContext) -> list[ConstraintResult]:
    """Return the result of each constraint: those of the recipe for all hosts, those of a pool for its own hosts."""
    shared = [entry for entry in recipe.get("constraints") or [] if _is_open(entry, context)]
    nodes = {host.name: host.node_name for host in context.site.in_scope}
    results = [_evaluated(declared_constraint(entry), observed, tuple(nodes.values())) for entry in shared]
    for pool in recipe.get("pools") or []:
        # A pool that does not name its hosts may mean any host.
        own = tuple(nodes[name] for name in pool.get("hosts", nodes) if name in nodes)
        if own:
            configured = (entry for entry in pool.get("constraints") or [] if _is_open(entry, context))
            more = [entry for entry in configured if entry not in shared]
            results += [_evaluated(declared_constraint(entry), observed, own) for entry in more]
    return results


def _is_open(entry: Mapping[str, Any], context: JudgeContext) -> bool:
    """Return whether a constraint is judged here. Phase readiness has already judged what only a snapshot measures."""
    return entry.get("name") in MEASURED or READINESS not in context.passed_phases


def _evaluated(constraint: Constraint, cluster: ClusterState, names: tuple[str, ...]) -> ConstraintResult:
    nodes = {node.name: node for name in names if (node := cluster.node(name))}
    return evaluate_on(constraint, cluster.version, nodes)


CHECK = Check(SPEC, OBSERVER, judge)
