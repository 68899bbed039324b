# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: GPUs were loaded long enough, and neither heat nor the power supply throttled their clocks."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..benchmark.preconditions import nodes
from ..benchmark.shared_cause import explained, slow_group
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import DeviceState, SkuCohort, cohorts_of
from .model import PlannedHost, Results
from .observe_training import OBSERVER
from .preconditions import before_host, judge_hosts
from .rendering import evidence, gpus

SPEC = CheckSpec(
    id="training-clocks",
    gate="training_acceptance",
    title="GPUs keep their clocks under a long load",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=900.0,
    applies=(needs("kubernetes"),),
    causes=("gpu-throttled", "slow-group"),
)
_HINT = "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER on the host under load: fans, air or water, power supplies"
_ROOM = "so many at once share it: inlet temperature, flow, rack power, the brake signal of the power supplies"
# Fraction of the load that the steps themselves must make up. The rest is between them.
_LEAST_PART = 0.9


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host. If most hosts of a SKU are throttled: one for all of them."""
    outcomes: list[Outcome] = []
    for cohort in cohorts_of(results, context.hardware):
        on_hold = tuple(sorted({gpu.partition("/")[0] for gpu in cohort.held_down}))
        shared = explained(context, on_hold, (host.name for host in cohort.open_hosts))
        covered: tuple[str, ...] = ()
        if len(on_hold) > 2 and len(on_hold) * 2 > len(cohort.open_hosts):
            outcomes.append(_everywhere(context, cohort, on_hold))
            covered = tuple(host.name for host in cohort.hosts)
        elif shared is not None:
            outcomes.append(slow_group(SPEC, context, shared, _worst(cohort), evidence=evidence(cohort)))
            covered = shared.slow
        outcomes += judge_hosts(SPEC, context, cohort, _judge_host, skip=covered)
    return tuple(outcomes)


def _judge_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    early = before_host(answer, cohort, host)
    if early is not None:
        return early
    ranks = cohort.longest.ranks_of(host.name)
    states = {rank.gpu: cohort.states[rank.gpu] for rank in ranks}
    proof = evidence(cohort, host.name)
    if any(rank.log.version < 2 for rank in ranks):
        text = "this run did not record clocks and throttle reasons"
        return answer.unknown("not-recorded", text, "run the gate again", evidence=proof)
    missing = {gpu: state.missing for gpu, state in states.items() if state.missing}
    if missing:
        gpu, text = next(iter(missing.items()))
        hint = "NVML must be in the container: NVIDIA_DRIVER_CAPABILITIES with utility"
        return answer.unknown("not-sampled", f"{gpu}: {text}", hint, more_subjects=gpus(missing), evidence=proof)
    return _judge_states(answer, cohort, states, proof)


def _judge_states(answer: Answer, cohort: SkuCohort, states: dict[str, DeviceState], proof: Any) -> Outcome:
    judge, wanted_s = cohort.results.plan.settings.judge, cohort.results.plan.settings.run.load_s
    load_s = min(state.log.load_s for state in states.values())
    worst = max(states, key=lambda gpu: states[gpu].held_down[1])
    name, part = states[worst].held_down
    details: dict[str, Any] = {
        "measured": (
            Measure("load", round(load_s, 1), "s"), Measure("throttled", round(100 * part, 2), "%"),
            Measure("samples", min(state.samples for state in states.values()), "count"),
        ),
        "expected": (
            Expectation("load", ">=", wanted_s, Basis.RULE, "s", f"of which steps make up {100 * _LEAST_PART:g} %"),
            Expectation("throttled", "<=", round(100 * judge.throttled, 2), Basis.RULE, "%", "of the samples of a GPU"),
        ),
        "evidence": proof,
    }  # fmt: skip
    text = f"{worst} was held down by {name} in {100 * part:.1f} % of {states[worst].samples} samples"
    on_hold = [gpu for gpu, state in states.items() if state.held_down[1] > judge.throttled]
    more = f", so were {len(on_hold) - 1} more of its GPUs" if len(on_hold) > 1 else ""
    if part >= judge.throttled_bad and part > 0:
        text = f"{text}{more}{cohort.explained([worst])}"
        return answer.failed("gpu-throttled", text, _HINT, more_subjects=gpus(on_hold), **details)
    if load_s < _LEAST_PART * wanted_s:
        short = f"the GPUs were under load for {load_s:.0f} s, expected {wanted_s:g} s: heat may show later"
        return answer.unknown("load-too-short", short, "run the gate again; raise timeout_s", **details)
    if part > judge.throttled:
        text = f"{text}{more}{cohort.explained([worst])}"
        return answer.marginal("gpu-throttled-marginal", text, _HINT, more_subjects=gpus(on_hold), **details)
    first = next(iter(states))
    return answer.passed(f"{len(states)} GPUs under load for {load_s:.0f} s; {first} {states[first].text}", **details)


def _everywhere(context: JudgeContext, cohort: SkuCohort, on_hold: tuple[str, ...]) -> Outcome:
    text = f"GPUs of {len(on_hold)} of {len(cohort.open_hosts)} hosts were held down, {_worst(cohort)}"
    return Answer.about_cluster(SPEC, context).failed(
        "gpu-throttled",
        text,
        _ROOM,
        more_subjects=(*nodes(host.name for host in cohort.hosts), *gpus(cohort.held_down)),
        evidence=evidence(cohort),
    )


def _worst(cohort: SkuCohort) -> str:
    worst = max(cohort.held_down, key=lambda gpu: cohort.held_down[gpu])
    name, part = cohort.states[worst].held_down
    return f"{worst} by {name} in {100 * part:.0f} % of the samples{cohort.explained([worst])}"


CHECK = Check(SPEC, OBSERVER, judge)
