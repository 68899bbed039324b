# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the model's own arithmetic uses as much of the GPUs' peak as it should."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Measure, Outcome, Subject, SubjectKind
from ..kit.answer import Answer
from ..spec import CheckSpec, Disturbance, JudgeContext
from .conclusion import Kind, kinds_of
from .mfu import Mfu, attention_share
from .model import Sight
from .telling import before_kind, evidence, measures, nodes

SPEC = CheckSpec(
    id="training-mfu",
    gate="training_acceptance",
    title="Model FLOP utilisation",
    observation="training",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=120.0,
    requires=("kubernetes",),
    causes=("mfu-low",),
)
_HINT = "all ranks are slow alike: look at power limits, clocks, the image, then at the time spent waiting"


def judge(sight: Sight, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every kind of hosts."""
    return tuple(_judge_kind(context, kind) for kind in kinds_of(sight, context.hardware))


def _judge_kind(context: JudgeContext, kind: Kind) -> Outcome:
    answer = Answer(SPEC, context, Subject(SubjectKind.CLUSTER, context.site.name))
    early = before_kind(answer, kind)
    if early is not None:
        return early
    mfu, rules = kind.mfu, kind.sight.plan.rules
    subjects = nodes(dict.fromkeys(rank.host for rank in kind.typical.run.ranks))
    if mfu is None:
        text = f"the peak of {kind.sku_name} for {rules.run.dtype} is not known"
        return answer.unknown("no-reference", text, "state peak_tflops in the settings", more_subjects=subjects)
    details = {
        "measured": (
            Measure("MFU", round(100 * mfu.value, 2), "%"),
            Measure("tokens per second and GPU", round(mfu.tokens_per_s, 1), "tokens/s"),
            Measure("compute", round(mfu.tflops, 3), "TFLOP/s"),
            *measures(kind),
        ),
        "expected": (_expectation(kind, mfu),),
        "evidence": evidence(kind),
        "more_subjects": subjects,
    }
    text = f"MFU {100 * mfu.value:.1f} % over {len(kind.typical.run.ranks)} GPUs, {mfu.tflops:.4g} TFLOP/s each"
    if mfu.value >= kind.target:
        return answer.passed(text, **details)
    # Who holds all others back is told by name elsewhere.
    if kind.slow.any:
        return answer.blocked(
            by="training-stragglers", because=f"{text}, but slow ranks hold back the others", **details
        )
    if not kind.steady:
        return answer.blocked(by="training-step-time", because=f"{text}, but the step time is not steady", **details)
    text = f"{text}; at least {100 * kind.target:g} % is expected"
    if not kind.confirmed:
        return answer.unknown("not-repeated", f"{text}; it was not run again", "run the gate again", **details)
    if mfu.value >= rules.judge.mfu_marginal * kind.target:
        return answer.marginal("mfu-marginal", text, _HINT, **details)
    return answer.failed("mfu-low", text, _HINT, **details)


def _expectation(kind: Kind, mfu: Mfu) -> Expectation:
    judge, setup = kind.sight.plan.rules.judge, kind.setup
    attention = f"; attention is {100 * attention_share(setup):.1f} % of it" if setup else ""
    arithmetic = f"{mfu.arithmetic}; bad under {judge.mfu_marginal:g} x the target{attention}"
    return Expectation("MFU", ">=", round(100 * kind.target, 2), Basis.RULE, "%", arithmetic)
