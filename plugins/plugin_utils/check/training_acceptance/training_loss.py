# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the loss is finite on every rank and falls, and all ranks learn the same."""

from __future__ import annotations

from collections.abc import Mapping

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ...verdict.majority import more_than_half
from ..benchmark.preconditions import nodes
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import SkuCohort, cohorts_of
from .figures import Fall, Figures, fall_of
from .model import PlannedHost, Rank, Results
from .observe_training import OBSERVER
from .preconditions import before_host
from .rendering import evidence, gpus, loss_series

SPEC = CheckSpec(
    id="training-loss",
    gate="training_acceptance",
    title="Loss finite, falling, and the same model everywhere",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=900.0,
    applies=(needs("kubernetes"),),
    causes=("loss-not-finite", "loss-not-falling", "weights-differ"),
)
_NOT_FINITE = "this GPU computes wrong, or its memory does: `dcgmi diag -r 4` on the host, look for XID and ECC errors"
_DIFFER = "weights that are updated alike must stay alike: this GPU computes wrong. Take it out of service"
_NOT_FALLING = "the data can be learned by any sound setup: look at the image (PyTorch, CUDA, cuDNN) and at the shape"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host. If no rank learns: one for all hosts of a SKU."""
    outcomes: list[Outcome] = []
    for cohort in cohorts_of(results, context.hardware):
        common = _common(context, cohort)
        outcomes += [common] if common else [_judge_host(context, cohort, host) for host in cohort.hosts]
    return tuple(outcomes)


def _common(context: JudgeContext, cohort: SkuCohort) -> Outcome | None:
    """Return the outcome if something that all ranks share is to blame. None: it is not."""
    if not cohort.complete:
        return None
    figures, answer = cohort.figures[-1], Answer.about_cluster(SPEC, context)
    details = {"more_subjects": nodes(host.name for host in cohort.hosts), "evidence": evidence(cohort)}
    ranks = len(figures.run.ranks)
    first = _first(figures.not_finite)
    if len(first) > max(1, ranks // 2) and ranks > 1:
        text = f"the loss of {len(first)} ranks became not finite in the same step"
        return answer.failed("loss-not-finite", text, _NOT_FALLING, **details)
    if figures.not_finite:
        return None
    fall, least = _fall(figures), cohort.results.plan.settings.judge.loss_fall
    if fall.enough(least):
        return None
    text = f"the loss went from {fall.first:.4g} to {fall.last:.4g}, by {100 * fall.part:.1f} %"
    return answer.failed(
        "loss-not-falling", text, _NOT_FALLING, measured=_measures(fall), expected=_expected(least),
        series=loss_series(cohort), **details,
    )  # fmt: skip


def _judge_host(context: JudgeContext, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    answer = Answer.about_host(SPEC, context, host.name)
    early = before_host(answer, cohort, host)
    if early is not None:
        return early
    figures, proof = cohort.figures[-1], evidence(cohort, host.name)
    first = _first(figures.not_finite)
    if first:
        mine = [gpu for gpu in first if gpu.partition("/")[0] == host.name]
        text = (
            f"the loss of {', '.join(mine or list(first)[:4])} was not finite from step {next(iter(first.values()))} on"
        )
        if mine:
            return answer.failed("loss-not-finite", text, _NOT_FINITE, more_subjects=gpus(mine), evidence=proof)
        return answer.blocked(by=SPEC.id, because=f"{text}, and with its gradients that of all others")
    return _differing(answer, cohort, figures, host) or _passed(answer, cohort, figures, host)


def _differing(answer: Answer, cohort: SkuCohort, figures: Figures, host: PlannedHost) -> Outcome | None:
    """Return the outcome of a host with ranks that ended with other weights than most. None: it has no such ranks."""
    mine = figures.odd_weights.get(host.name, ())
    if not mine:
        return None
    total, count = figures.weights.total(), max(figures.weights.values())
    text = f"{', '.join(mine)} ended with other weights than {count} of {total} ranks, although all were updated alike"
    details = {"more_subjects": gpus(mine), "evidence": evidence(cohort, host.name)}
    if more_than_half(figures.weights) is None:
        return answer.unknown("weights-unlike", f"{text}; no majority", _DIFFER, **details)
    return answer.failed("weights-differ", text, _DIFFER, **details)


def _passed(answer: Answer, cohort: SkuCohort, figures: Figures, host: PlannedHost) -> Outcome:
    least, proof = cohort.results.plan.settings.judge.loss_fall, evidence(cohort, host.name)
    mine = figures.run.ranks_of(host.name)
    falls = {rank.gpu: fall_of(_reported(rank)) for rank in mine}
    worst = min(falls, key=lambda gpu: falls[gpu].part)
    fall, details = falls[worst], {"measured": _measures(falls[worst]), "expected": _expected(least), "evidence": proof}
    text = f"{fall.first:.4g} at the beginning, {fall.last:.4g} at the end"
    if not fall.enough(least):
        text = f"the loss of {worst} does not fall, although that of all together does: {text}"
        return answer.failed("loss-not-falling", text, _NOT_FINITE, more_subjects=gpus([worst]), **details)
    # The curve is that of all ranks, so it is attached once.
    series = loss_series(cohort) if host.name == figures.run.ranks[0].host else ()
    return answer.passed(f"{len(mine)} ranks, loss {text}, the same weights as everywhere", series=series, **details)


def _reported(rank: Rank) -> list[float]:
    return [*(step.loss for step in rank.log.steps), *(window.loss for window in rank.log.windows)]


def _first(found: Mapping[str, int]) -> dict[str, int]:
    """Return the ranks whose loss was not finite first. From them it spreads with the gradients."""
    least = min(found.values(), default=0)
    return {gpu: number for gpu, number in found.items() if number == least}


def _fall(figures: Figures) -> Fall:
    return fall_of([loss for _number, loss in figures.losses])


def _measures(fall: Fall) -> tuple[Measure, ...]:
    return (Measure("first loss", round(fall.first, 4)), Measure("last loss", round(fall.last, 4)))


def _expected(least: float) -> tuple[Expectation, ...]:
    arithmetic = "1 - mean of the last quarter / mean of the first three steps"
    return (Expectation("fall of the loss", ">=", round(100 * least, 2), Basis.RULE, "%", arithmetic),)


CHECK = Check(SPEC, OBSERVER, judge)
