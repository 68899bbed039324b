# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every rank completed and reported all steps, and exited without an error."""

from __future__ import annotations

from ...outcome.model import Measure, Outcome, SubjectKind
from ..benchmark.preconditions import leftovers_of
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import SkuCohort, cohorts_of
from .model import PlannedHost, Results
from .observe_training import OBSERVER
from .preconditions import before_host, judge_hosts
from .rendering import blamed, evidence

SPEC = CheckSpec(
    id="training-completed",
    gate="training_acceptance",
    title="Training ends well on every rank",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=900.0,
    applies=(needs("kubernetes"),),
)
_HINTS = {
    "out-of-memory": "look for processes that hold GPU memory (nvidia-smi); else train a smaller model (shape)",
    "run-crashed": "read the log of the pod and the kernel log of the host (XID), then run the gate again",
    "run-hung": "read the logs and the kernel log of the host (XID), then run the gate again",
    "output-incomplete": "read the log; the output was cut, or something else wrote into it",
    "shm-too-small": "pods share memory through /dev/shm: mount an emptyDir with medium Memory there",
    "setups-differ": "use the same image on all nodes",
}


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    cohorts = cohorts_of(results, context.hardware)
    return tuple(outcome for cohort in cohorts for outcome in judge_hosts(SPEC, context, cohort, _judge_host))


def _judge_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    problem = cohort.problem
    if problem is not None and problem.check == SPEC.id and not host.closed:
        if host.name in problem.hosts:
            return blamed(answer, cohort, problem, host.name, _HINTS)
        if not problem.partial:
            return answer.blocked(by=SPEC.id, because=f"{', '.join(problem.hosts[:4])} ended the run: {problem.text}")
    return (
        before_host(answer, cohort, host)
        or leftovers_of(answer, cohort.results.leftovers)
        or _passed(answer, cohort, host)
    )


def _passed(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    ranks = cohort.complete[-1].ranks_of(host.name)
    steps = ranks[0].log.done
    return answer.passed(
        f"{len(ranks)} ranks did {steps} steps and ended well",
        measured=(Measure("ranks", len(ranks), "count"), Measure("steps", steps, "count")),
        evidence=evidence(cohort, host.name),
    )


CHECK = Check(SPEC, OBSERVER, judge)
