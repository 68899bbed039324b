# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the step time is steady through the run."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..benchmark.preconditions import nodes, not_repeated
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import SkuCohort
from .model import Results
from .observe_training import OBSERVER
from .preconditions import judge_cohorts
from .rendering import evidence, gpus, measures, step_series

SPEC = CheckSpec(
    id="training-step-time",
    gate="training_acceptance",
    title="Steady step time",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=900.0,
    applies=(needs("kubernetes"),),
    causes=("step-time-growing", "step-time-unstable"),
)
_GROWING = "something fills up: look at temperatures and clocks over time, at memory and processes on the host"
_UNSTABLE = "look for other work on the hosts and in the network, for clocks that change, for pauses of the storage"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for the hosts of every SKU."""
    return judge_cohorts(SPEC, results, context, _judge_cohort)


def _judge_cohort(answer: Answer, cohort: SkuCohort) -> Outcome:
    judge, culprits = cohort.results.plan.settings.judge, _culprits(cohort)
    hosts = dict.fromkeys(gpu.partition("/")[0] for gpu in culprits) or dict.fromkeys(
        rank.host for rank in cohort.typical.run.ranks
    )
    details = {
        "measured": (
            Measure("variation", round(100 * cohort.variation, 2), "%"),
            Measure("growth", round(100 * cohort.growth, 2), "%"),
            *measures(cohort),
        ),
        "expected": _expected(cohort),
        "evidence": evidence(cohort),
        "series": step_series(cohort),
        "more_subjects": (*nodes(hosts), *gpus(culprits)),
    }
    text = f"{cohort.typical.step_s:.4g} s a step, varying by {100 * cohort.variation:.1f} %"
    if cohort.steady:
        return answer.passed(text, **details)
    if not cohort.confirmed:
        return not_repeated(answer, text, **details)
    who = f", by {', '.join(list(hosts)[:4])}" if culprits else ""
    if cohort.growth > judge.growth:
        text = f"{text}, growing by {100 * cohort.growth:.1f} % over the run{who}{cohort.explained(culprits)}"
        if cohort.held_down and set(culprits or cohort.growing) <= set(cohort.held_down):
            return answer.blocked(by="training-clocks", because=text, **details)
        return answer.failed("step-time-growing", text, _GROWING, **details)
    if cohort.variation <= judge.step_time_cv_bad:
        return answer.marginal("step-time-unsteady", f"{text}{who}", _UNSTABLE, **details)
    return answer.failed("step-time-unstable", f"{text}{who}", _UNSTABLE, **details)


def _culprits(cohort: SkuCohort) -> tuple[str, ...]:
    """Return the GPUs whose own part of the step grows or jumps. Empty: none do, or most do."""
    if cohort.steady:
        return ()
    ranks = len(cohort.typical.run.ranks)
    if cohort.growth > cohort.results.plan.settings.judge.growth:
        return tuple(cohort.growing) if len(cohort.growing) * 2 <= ranks else ()
    return cohort.typical.spoilers


def _expected(cohort: SkuCohort) -> tuple[Expectation, ...]:
    judge = cohort.results.plan.settings.judge
    line = "deviation of the step times from a straight line through them / their mean, median of the runs; within "
    line += "windows the median one"
    grown = "the line's end / its beginning - 1, where that is more than 4 times its uncertainty"
    return (
        Expectation("variation", "<=", round(100 * judge.step_time_cv, 2), Basis.RULE, "%", line),
        Expectation("growth", "<=", round(100 * judge.growth, 2), Basis.RULE, "%", grown),
    )


CHECK = Check(SPEC, OBSERVER, judge)
