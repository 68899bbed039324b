# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the gang got all of its nodes at once, and the ranks of all of them started together."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..benchmark.preconditions import answer_for_host, no_capacity, not_repeated
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .analysis import SkuCohort, cohorts_of
from .model import PlannedHost, Results
from .observe_training import OBSERVER
from .preconditions import before_host
from .rendering import blamed, evidence

SPEC = CheckSpec(
    id="training-gang-start",
    gate="training_acceptance",
    title="All ranks start together",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=120.0,
    requires=("kubernetes",),
    causes=("half-placed", "late-start"),
)
_HINTS = {
    "half-placed": "the pods are no gang: look at the gang scheduler and its PodGroup, then at what the node lacks",
    "not-started": "look at the pod's events and at the kubelet of the node",
    "late-start": "pull the image beforehand; look at the node's disk and its way to the registry",
}


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return tuple(
        _judge_host(answer_for_host(SPEC, context, host), cohort, host)
        for cohort in cohorts_of(results, context.hardware)
        for host in cohort.hosts
    )


def _judge_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    problem = cohort.problem
    if host.closed and cohort.sku is not None:
        return no_capacity(answer, host)
    if problem is not None and problem.check == SPEC.id:
        if host.name in problem.hosts:
            return blamed(answer, cohort, problem, host.name, _HINTS)
        return answer.blocked(by=SPEC.id, because=f"its pod had its place, but not those of all: {problem.text}")
    if not cohort.complete and problem is not None:
        # The ranks met, or there would be another problem; the log of the run that ended early says when.
        return answer.passed("its ranks met those of all other hosts", evidence=evidence(cohort, host.name))
    return before_host(answer, cohort, host) or _judge_start(answer, cohort, host)


def _judge_start(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    limit, late_s = cohort.results.plan.settings.judge.start_s, cohort.lateness[host.name]
    text = f"the last of its ranks started {late_s:.1f} s after the first of all"
    details = {
        "measured": (Measure("lateness", round(late_s, 2), "s"),),
        "expected": (Expectation("lateness", "<=", limit, Basis.RULE, "s", "from the first rank of the gang"),),
        "evidence": evidence(cohort, host.name),
    }
    if late_s <= limit:
        return answer.passed(text, **details)
    if not cohort.confirmed:
        return not_repeated(answer, text, **details)
    return answer.failed(
        "late-start", f"{text}, in most of {len(cohort.complete)} runs", _HINTS["late-start"], **details
    )


CHECK = Check(SPEC, OBSERVER, judge)
