# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the model's own arithmetic uses as much of the GPUs' peak as it should."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..benchmark.preconditions import nodes, not_repeated
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import Mfu, SkuCohort, attention_share
from .model import Results
from .observe_training import OBSERVER
from .preconditions import judge_cohorts
from .rendering import evidence, measures

SPEC = CheckSpec(
    id="training-mfu",
    gate="training_acceptance",
    title="Model FLOP utilisation",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=900.0,
    applies=(needs("kubernetes"),),
    causes=("mfu-low",),
)
# Part of a measurement that is proposed as the limit, since the next one differs a little.
_LEAST = 0.95
_HINT = "all ranks are slow alike: look at power limits, clocks, the image, then at the time spent waiting"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for the hosts of every SKU."""
    return judge_cohorts(SPEC, results, context, _judge_cohort)


def _judge_cohort(answer: Answer, cohort: SkuCohort) -> Outcome:
    mfu, settings = cohort.mfu, cohort.results.plan.settings
    subjects = nodes(dict.fromkeys(rank.host for rank in cohort.typical.run.ranks))
    if mfu is None:
        return _without_peak(answer, cohort, more_subjects=subjects, evidence=evidence(cohort))
    details = {
        "measured": (
            Measure("MFU", round(100 * mfu.value, 2), "%"),
            Measure("tokens per second and GPU", round(mfu.tokens_per_s, 1), "tokens/s"),
            Measure("compute", round(mfu.tflops, 3), "TFLOP/s"),
            *measures(cohort),
        ),
        "expected": (_expectation(cohort, mfu),),
        "evidence": evidence(cohort),
        "more_subjects": subjects,
    }
    text = f"MFU {100 * mfu.value:.1f} % over {len(cohort.typical.run.ranks)} GPUs, {mfu.tflops:.4g} TFLOP/s each"
    if mfu.value >= cohort.target:
        return answer.passed(text, **details)
    # Another check names the hosts or GPUs that hold back all others.
    if cohort.slow.any:
        return answer.blocked(
            by="training-stragglers", because=f"{text}, but slow ranks hold back the others", **details
        )
    if not cohort.steady:
        return answer.blocked(by="training-step-time", because=f"{text}, but the step time is not steady", **details)
    if cohort.held_down:
        return answer.blocked(by="training-clocks", because=f"{text}, but heat or power holds GPUs down", **details)
    if cohort.slow_data.slow:
        return answer.blocked(by="training-data", because=f"{text}, but slow hosts hold back the others", **details)
    text = f"{text}{cohort.explained(list(cohort.rates)[:1])}; at least {100 * cohort.target:g} % is expected"
    if not cohort.confirmed:
        return not_repeated(answer, text, **details)
    if mfu.value >= settings.judge.mfu_marginal * cohort.target:
        return answer.marginal("mfu-marginal", text, _HINT, **details)
    return answer.failed("mfu-low", text, _HINT, **details)


def _without_peak(answer: Answer, cohort: SkuCohort, **details: Any) -> Outcome:
    """Return the outcome of hosts without a known peak. It proposes one at which their figure is what is expected."""
    text = f"the peak of {cohort.sku_name} for {cohort.results.plan.settings.run.dtype} is not known"
    hint = "state peak_tflops in the settings"
    reached = cohort.tflops
    if reached and cohort.target and cohort.steady and not cohort.slow.any:
        peak = Measure("proposed peak", round(_LEAST * reached / cohort.target, 1), "TFLOP/s")
        details["measured"] = (Measure("compute", round(reached, 3), "TFLOP/s"), peak, *measures(cohort))
        text = f"{text}; each GPU computes {reached:.4g} TFLOP/s"
        hint += (
            f", from the data sheet; a person can accept what was measured: peak_tflops: {peak.value} in "
            f"gpufleet_settings.training_acceptance, at which {_LEAST:g} times that is the expected "
            f"{100 * cohort.target:g} %"
        )
    return answer.unknown("no-reference", text, hint, **details)


def _expectation(cohort: SkuCohort, mfu: Mfu) -> Expectation:
    judge, setup = cohort.results.plan.settings.judge, cohort.setup
    attention = f"; attention is {100 * attention_share(setup):.1f} % of it" if setup else ""
    arithmetic = f"{mfu.arithmetic}; bad under {judge.mfu_marginal:g} x the target{attention}"
    return Expectation("MFU", ">=", round(100 * cohort.target, 2), Basis.RULE, "%", arithmetic)


CHECK = Check(SPEC, OBSERVER, judge)
