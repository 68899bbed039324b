# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: before anything is installed, the cluster meets the constraints of recipe, validation section and pools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...constraint.declared import declared_constraint, unknown_name
from ...constraint.evaluate import ConstraintResult, ConstraintStatus, unmeasurable
from ...outcome.gates import READINESS
from ...outcome.model import Evidence, Measure, Outcome, SubjectKind, node_subject
from ...recipe.sections import section_of
from ...snapshot.measure import evaluate_in
from ..kit.answer import Answer
from ..kit.constraint_answers import expectation_of, held_words, not_met
from ..spec import Check, CheckSpec, JudgeContext, needs
from .nodes_in_scope import nodes_by_pool, nodes_in_scope
from .observe_snapshot import OBSERVER, SNAPSHOT, Readiness

SPEC = CheckSpec(
    id="readiness-constraints",
    gate=READINESS,
    title="The cluster satisfies every constraint of recipe, validation section and pools",
    per=SubjectKind.CLUSTER,
    applies=(needs("kubernetes"),),
    causes=("constraint-not-met",),
)
_MOST_NODES = 50


def judge(observed: Readiness, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return one outcome for each constraint that is not met, so that all are reported at once.

    If all are met, or there are none: one outcome that passed.
    """
    answer = Answer.about_cluster(SPEC, context)
    if context.recipe is None:
        return (
            answer.unknown("no-data", "no recipe is resolved", "resolve it, or name one: gpufleet_validate_recipe"),
        )
    results = _results(context.recipe, observed, context)
    bad = tuple(
        not_met(answer, result, _evidence(observed), tuple(map(node_subject, result.nodes[:_MOST_NODES])))
        for result in results
        if result.status is not ConstraintStatus.PASS
    )
    if bad:
        return bad
    on_hold = "; ".join(map(held_words, results[:6]))
    text = f"{len(results)} of {len(results)} constraints hold{f': {on_hold}' if on_hold else ''}"
    measured = tuple(Measure(result.constraint.name, result.actual) for result in results)
    return (
        answer.passed(
            text, measured=measured, expected=tuple(map(expectation_of, results)), evidence=_evidence(observed)
        ),
    )


def _results(recipe: Mapping[str, Any], observed: Readiness, context: JudgeContext) -> list[ConstraintResult]:
    own = section_of(recipe, READINESS).get("constraints") or []
    shared = [*(recipe.get("constraints") or []), *own]
    hosts = {host.node_name: host.name for host in context.site.hosts}
    results = [
        _evaluated(entry, observed, nodes_in_scope(observed.snapshot, context.site), hosts) for entry in _once(shared)
    ]
    for pool, nodes in nodes_by_pool(recipe, observed.snapshot, context.site):
        more = [entry for entry in pool.get("constraints") or [] if entry not in shared]
        results += [_evaluated(entry, observed, nodes, hosts) for entry in _once(more)]
    return results


def _once(entries: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [entry for number, entry in enumerate(entries) if entry not in entries[:number]]


def _evaluated(
    entry: Mapping[str, Any], observed: Readiness, nodes: tuple[str, ...], hosts: Mapping[str, str]
) -> ConstraintResult:
    constraint = declared_constraint(entry)
    if hint := unknown_name(constraint.name):
        return unmeasurable(constraint, hint)
    return evaluate_in(constraint, observed.snapshot, nodes, hosts)


def _evidence(observed: Readiness) -> tuple[Evidence, ...]:
    snapshot = observed.snapshot
    return (Evidence("snapshot", "cluster", f"taken {snapshot.taken} by {snapshot.made_by}", SNAPSHOT),)


CHECK = Check(SPEC, OBSERVER, judge)
