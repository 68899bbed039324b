# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: under load the tokens after the first come fast enough."""

from __future__ import annotations

from ...outcome.model import Basis, Expectation, Outcome, SubjectKind
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import Figures, tpot_fault
from .latency import Details, Latency, judge_latency
from .model import PlannedHost, Results
from .observe_inference import OBSERVER

SPEC = CheckSpec(
    id="inference-tpot",
    gate="inference_acceptance",
    title="Time per output token",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=1800.0,
    applies=(needs("kubernetes"),),
    causes=("tpot-high", "tpot-uneven"),
)
_HINT = (
    "one copy of the model may be slower than the others: "
    "look at the clocks of each GPU of the host, at memory errors and at power limits"
)


def _without_bound(answer: Answer, figures: Figures, host: PlannedHost, text: str, details: Details) -> Outcome | None:
    """Judge by the mean that the throughput bound implies, and by the host's own requests. None: neither decides."""
    fault, mean, floor = tpot_fault(figures, host.name), figures.tpot_mean_ms(host.name), figures.floor(host.name)
    middle, tail = figures.tpot_middle_ms(host.name), figures.plan.settings.judge.tpot_tail
    at_a_time = figures.plan.settings.load.concurrency_per_gpu
    if fault:
        text = f"{text}, more than {tail:g} times that of its middle request ({middle:,.1f} ms)"
        make = answer.failed if fault == "peers" else answer.marginal
        return make("tpot-high" if fault == "peers" else "tpot-uneven", text, _HINT, **details)
    if not floor:
        return None
    bound = 1000 * at_a_time / floor
    arithmetic = (
        f"{at_a_time} requests at a time / {floor:g} tokens/s per GPU: what each may take on average where the "
        "demanded throughput is reached; no figure for a percentile is published"
    )
    tails = f"{tail:g} x the median of the host's own requests, {middle:.1f} ms; its copies of the model are equals"
    name = f"TPOT p{figures.plan.settings.judge.tpot_percentile}"
    expected = (
        Expectation("TPOT mean", "<=", round(bound, 1), Basis.SLO, "ms", arithmetic),
        Expectation(name, "<=", round(tail * middle, 1), Basis.PEERS, "ms", tails),
    )
    more = {**details, "expected": expected}
    text = f"{text}, {mean:,.1f} ms on average"
    if mean > bound and "throughput" in figures.missed(host.name):
        return answer.blocked(by="inference-throughput", because=f"{text}, as the throughput already shows", **more)
    if mean > bound:
        hint = "read AIPerf's export: tokens cannot take so long where so many come; run the gate again"
        return answer.unknown("figures-contradict", f"{text}, which the throughput does not allow", hint, **more)
    return answer.passed(text, **more)


_LATENCY = Latency(
    name="TPOT",
    title="time per output token",
    cause="tpot-high",
    hint=_HINT,
    of=lambda export: export.tpot,
    percentile=lambda settings: settings.tpot_percentile,
    bound=lambda slo: slo.tpot_ms,
    value=Figures.tpot_ms,
    without_bound=_without_bound,
)


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return judge_latency(SPEC, _LATENCY, results, context)


CHECK = Check(SPEC, OBSERVER, judge)
