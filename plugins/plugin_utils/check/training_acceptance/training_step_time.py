# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: a step takes as long as the one before it, all through the run."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, Subject, SubjectKind
from ..kit.answer import Answer
from ..spec import CheckSpec, Disturbance, JudgeContext
from .conclusion import Kind, kinds_of
from .model import Sight
from .telling import before_kind, evidence, gpus, measures, nodes, step_series

SPEC = CheckSpec(
    id="training-step-time",
    gate="training_acceptance",
    title="Steady step time",
    observation="training",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=120.0,
    requires=("kubernetes",),
    causes=("step-time-growing", "step-time-unstable"),
)
_GROWING = "something fills up: look at temperatures and clocks over time, at memory and processes on the host"
_UNSTABLE = "look for other work on the hosts and in the network, for clocks that change, for pauses of the storage"


def judge(sight: Sight, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every kind of hosts."""
    return tuple(_judge_kind(context, kind) for kind in kinds_of(sight, context.hardware))


def _judge_kind(context: JudgeContext, kind: Kind) -> Outcome:
    answer = Answer(SPEC, context, Subject(SubjectKind.CLUSTER, context.site.name))
    early = before_kind(answer, kind)
    if early is not None:
        return early
    judge, culprits = kind.sight.plan.rules.judge, _culprits(kind)
    hosts = dict.fromkeys(gpu.partition("/")[0] for gpu in culprits) or dict.fromkeys(
        rank.host for rank in kind.typical.run.ranks
    )
    details = {
        "measured": (
            Measure("variation", round(100 * kind.variation, 2), "%"),
            Measure("growth", round(100 * kind.growth, 2), "%"),
            *measures(kind),
        ),
        "expected": _expected(kind),
        "evidence": evidence(kind),
        "series": step_series(kind),
        "more_subjects": (*nodes(hosts), *gpus(culprits)),
    }
    text = f"{kind.typical.step_s:.4g} s a step, varying by {100 * kind.variation:.1f} %"
    if kind.steady:
        return answer.passed(text, **details)
    if not kind.confirmed:
        return answer.unknown("not-repeated", f"{text}; it was not run again", "run the gate again", **details)
    who = f", by {', '.join(list(hosts)[:4])}" if culprits else ""
    if kind.growth > judge.growth:
        text = f"{text}, growing by {100 * kind.growth:.1f} % over the run{who}"
        return answer.failed("step-time-growing", text, _GROWING, **details)
    if kind.variation <= judge.step_time_cv_bad:
        return answer.marginal("step-time-unsteady", f"{text}{who}", _UNSTABLE, **details)
    return answer.failed("step-time-unstable", f"{text}{who}", _UNSTABLE, **details)


def _culprits(kind: Kind) -> tuple[str, ...]:
    """The GPUs whose own part of the step grows or jumps; none where all do."""
    if kind.steady:
        return ()
    ranks = len(kind.typical.run.ranks)
    if kind.growth > kind.sight.plan.rules.judge.growth:
        return tuple(kind.growing) if len(kind.growing) * 2 <= ranks else ()
    return kind.typical.spoilers


def _expected(kind: Kind) -> tuple[Expectation, ...]:
    judge = kind.sight.plan.rules.judge
    line = "deviation of the step times from a straight line through them / their mean, median of the runs"
    grown = "the line's end / its beginning - 1, where that is more than 4 times its uncertainty"
    return (
        Expectation("variation", "<=", round(100 * judge.step_time_cv, 2), Basis.RULE, "%", line),
        Expectation("growth", "<=", round(100 * judge.growth, 2), Basis.RULE, "%", grown),
    )
