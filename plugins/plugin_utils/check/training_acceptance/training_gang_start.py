# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the gang got all of its nodes at once, and the ranks of all of them started together."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..benchmark.preconditions import no_capacity, not_repeated
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import LOADED, READY, RESOLVED, STARTED, Late, SkuCohort, cohorts_of, lateness_of
from .model import PlannedHost, Results
from .observe_training import OBSERVER
from .preconditions import before_host, judge_hosts
from .rendering import blamed, evidence

SPEC = CheckSpec(
    id="training-gang-start",
    gate="training_acceptance",
    title="All ranks start together",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=900.0,
    applies=(needs("kubernetes"),),
    causes=("half-placed", "late-start"),
)
_HINTS = {
    "half-placed": "the pods are no gang: look at the gang scheduler and its PodGroup, then at what the node lacks",
    "not-started": "look at the pod's log and events and at the kubelet of the node; is PyTorch in the image?",
    "rendezvous-dns": "resolve a pod's name in a pod on that node: look at its CNI, DNS and network policy",
}
_LATE = {
    STARTED: ("its container began", "pull the image beforehand; look at the node's disk and its way to the registry"),
    RESOLVED: ("it found the others by their name", "look at the cluster's DNS as pods of that node see it"),
    LOADED: ("it had loaded PyTorch", "look at the node's disk; an image that is fetched as it is read is slow once"),
    READY: ("its GPUs were ready", "nvidia-smi on the host: persistence mode, and how long it takes"),
}


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    cohorts = cohorts_of(results, context.hardware)
    return tuple(outcome for cohort in cohorts for outcome in judge_hosts(SPEC, context, cohort, _judge_host))


def _judge_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    problem = cohort.problem
    if host.closed and cohort.sku is not None:
        return no_capacity(answer, host)
    if problem is not None and problem.check == SPEC.id:
        if host.name in problem.hosts:
            return blamed(answer, cohort, problem, host.name, _HINTS)
        return answer.blocked(by=SPEC.id, because=f"its pod had its place, but not those of all: {problem.text}")
    if not cohort.complete and problem is not None:
        return _of_broken_run(answer, cohort, host)
    early = before_host(answer, cohort, host)
    if early is not None:
        return early
    return _judge_start(answer, cohort, host, cohort.lateness.get(host.name))


def _of_broken_run(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    """Judge the start of a failed run. It is proven only if every rank of every host met the others."""
    problem, run = cohort.problem, cohort.runs[-1]
    if problem is not None and not run.met:
        return answer.blocked(by=problem.check, because=f"not all ranks met: {problem.text}")
    return _judge_start(answer, cohort, host, lateness_of(run).get(host.name))


def _judge_start(answer: Answer, cohort: SkuCohort, host: PlannedHost, late: Late | None) -> Outcome:
    limit = cohort.results.plan.settings.judge.start_s
    if late is None:
        text = "this run did not record when its pods and ranks were ready, so nothing is known of who was late"
        return answer.unknown("no-start-times", text, "run the gate again", evidence=evidence(cohort, host.name))
    what, hint = _LATE[late.phase]
    text = f"{what} {late.seconds:.1f} s after the first of all"
    details = {
        "measured": (Measure("lateness", round(late.seconds, 2), "s"), Measure("phase", late.phase)),
        "expected": (Expectation("lateness", "<=", limit, Basis.RULE, "s", "after the first host of the gang"),),
        "evidence": evidence(cohort, host.name),
    }
    if late.seconds <= limit:
        return answer.passed(text, **details)
    if not cohort.confirmed:
        return not_repeated(answer, text, **details)
    return answer.failed("late-start", f"{text}, in most of {len(cohort.complete)} runs", hint, **details)


CHECK = Check(SPEC, OBSERVER, judge)
