# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the gang got all of its nodes at once, and the ranks of all of them started together."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind, node_subject
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .analysis import SkuCohort, cohorts_of
from .model import PlannedHost, Results
from .observe_training import OBSERVER
from .rendering import before_host, evidence, told

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
    "launch-unschedulable": "the scheduler's words say what is missing; free it, or lower the requests of the gate",
    "launch-image": "make the image reachable from the node (mirror, pull secret), or state another one",
    "not-started": "look at the pod's events and at the kubelet of the node",
    "late-start": "pull the image beforehand; look at the node's disk and its way to the registry",
}


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return tuple(
        _judge_host(context, cohort, host) for cohort in cohorts_of(results, context.hardware) for host in cohort.hosts
    )


def _judge_host(context: JudgeContext, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    answer, problem = Answer(SPEC, context, node_subject(host.name)), cohort.problem
    if host.closed and cohort.sku is not None:
        hint = f"kubectl describe node {host.node}; free its GPUs or quarantine the host"
        return answer.unknown("no-capacity", f"no run was possible: {host.closed}", hint)
    if problem is not None and problem.check == SPEC.id:
        if host.name in problem.hosts:
            hint = _HINTS.get(
                problem.cause, "kubectl get events -A; mend what the message says, then run the gate again"
            )
            return told(answer, problem, host.name, cohort, hint)
        return answer.blocked(by=SPEC.id, because=f"its pod had its place, but not those of all: {problem.text}")
    if not cohort.complete and problem is not None:
        # The ranks met, or there would be another problem; when, is in the log of the run that ended early.
        return answer.passed("its ranks met those of all other hosts", evidence=evidence(cohort, host.name))
    return before_host(answer, cohort, host) or _judge_start(answer, cohort, host)


def _judge_start(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    limit, late_s = cohort.results.plan.rules.judge.start_s, cohort.lateness[host.name]
    text = f"the last of its ranks started {late_s:.1f} s after the first of all"
    details = {
        "measured": (Measure("lateness", round(late_s, 2), "s"),),
        "expected": (Expectation("lateness", "<=", limit, Basis.RULE, "s", "from the first rank of the gang"),),
        "evidence": evidence(cohort, host.name),
    }
    if late_s <= limit:
        return answer.passed(text, **details)
    if not cohort.confirmed:
        return answer.unknown("not-repeated", f"{text}; it was not run again", "run the gate again", **details)
    return answer.failed(
        "late-start", f"{text}, in most of {len(cohort.complete)} runs", _HINTS["late-start"], **details
    )


CHECK = Check(SPEC, OBSERVER, judge)
