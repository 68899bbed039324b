# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: no rank is slower at its own part of a step than the others."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..benchmark.preconditions import nodes, not_repeated
from ..benchmark.shared_cause import explained, slow_group
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import SkuCohort, cohorts_of, slow_hosts
from .model import PlannedHost, Results
from .observe_training import OBSERVER
from .preconditions import before_host
from .rendering import evidence, gpus

SPEC = CheckSpec(
    id="training-stragglers",
    gate="training_acceptance",
    title="No slow rank",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=900.0,
    applies=(needs("kubernetes"),),
    causes=("slow-gpu", "slow-group", "slow-node"),
)
_HINTS = {
    "slow-gpu": "nvidia-smi -q -d PERFORMANCE,CLOCK,POWER,TEMPERATURE on the host says why it runs slowly",
    "slow-node": "look at what the GPUs of the host share: power cap, cooling, PCIe, other processes",
}


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host.

    Hosts that share the cause of their slowness get one together, and so does a cohort too uneven to name a host.
    """
    outcomes: list[Outcome] = []
    for cohort in cohorts_of(results, context.hardware):
        together, covered = _together(context, cohort)
        rest = replace(cohort, without=covered)
        outcomes += together
        if rest.complete and rest.slow.uneven:
            outcomes.append(_uneven(context, rest))
        else:
            outcomes += [_judge_host(context, rest, host) for host in rest.hosts if host.name not in covered]
    return tuple(outcomes)


def _together(context: JudgeContext, cohort: SkuCohort) -> tuple[list[Outcome], frozenset[str]]:
    """Return the outcome about slow hosts that share something which the others do not have, and these hosts."""
    if not cohort.complete or not cohort.slow.any:
        return [], frozenset()
    hosts, alike = slow_hosts(cohort.slow, cohort.rates)
    if hosts and all(gpu in cohort.held_down for gpu in cohort.rates if gpu.partition("/")[0] in hosts):
        # Heat or power already explains them.
        return [], frozenset()
    compared = dict.fromkeys(gpu.partition("/")[0] for gpu in cohort.rates)
    shared = explained(context, hosts, compared, alone=bool(cohort.slow.peers.undecided), alike=alike)
    if shared is None:
        return [], frozenset()
    rates = [rate for gpu, rate in cohort.rates.items() if gpu.partition("/")[0] in shared.slow]
    details: dict[str, Any] = {
        "measured": (Measure("middle rank of the slow hosts", round(median(rates), 4), "of the median"),),
        "expected": _expected(cohort),
        "evidence": evidence(cohort),
    }
    what = f"their ranks have {median(rates):.3f} of the usual rate at the own part of a step"
    if not cohort.confirmed:
        answer = Answer.about_cluster(SPEC, context)
        outcome = not_repeated(answer, f"{shared.text}: {what}", **details, more_subjects=nodes(shared.slow))
    else:
        outcome = slow_group(SPEC, context, shared, what, **details)
    return [outcome], frozenset(shared.slow)


def _judge_host(context: JudgeContext, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    answer = Answer.about_host(SPEC, context, host.name)
    early = before_host(answer, cohort, host)
    if early is not None:
        return early
    rates = cohort.rates_of(host.name)
    if not rates:
        return answer.blocked(by="training-step-time", because="its ranks slow down over the run, so they have no rate")
    slowest = min(rates, key=lambda gpu: rates[gpu])
    slow, whole = cohort.slow.of(host.name), host.name in cohort.slow.nodes
    details: dict[str, Any] = {
        "measured": (
            Measure("slowest rank", round(rates[slowest], 4), "of the median"),
            Measure("slowest GPU", slowest),
            Measure("ranks", len(rates), "count"),
        ),
        "expected": _expected(cohort),
        "evidence": evidence(cohort, host.name),
    }
    if whole or slow:
        return _slow(answer, cohort, host.name, rates, {**details, "more_subjects": gpus(slow)})
    if not cohort.slow.peers.evaluated:
        return answer.passed(
            f"{len(rates)} rank, with nobody to wait for; its speed is judged by training-mfu", **details
        )
    return answer.passed(f"the slowest of {len(rates)} ranks has {rates[slowest]:.3f} of the usual rate", **details)


def _slow(answer: Answer, cohort: SkuCohort, host: str, rates: dict[str, float], details: dict[str, Any]) -> Outcome:
    whole = host in cohort.slow.nodes
    names = (host,) if whole else cohort.slow.of(host)
    cause = "slow-node" if whole else "slow-gpu"
    rate = min(rates.values()) if whole else min(rates[gpu] for gpu in names)
    what = f"all {len(rates)} ranks of {host}" if whole else ", ".join(names)
    text = f"slow at the own part of a step: {what}, {rate:.3f} of the usual rate; all others wait"
    mine = list(rates) if whole else list(names)
    if all(gpu in cohort.held_down for gpu in mine):
        return answer.blocked(by="training-clocks", because=text, **details)
    text += cohort.explained(mine)
    if not cohort.confirmed:
        return not_repeated(answer, text, **details)
    text = f"{text}; in most of {len(cohort.complete)} runs"
    if cohort.slow.bad.isdisjoint(names):
        return answer.marginal(f"{cause}-marginal", text, _HINTS[cause], **details)
    return answer.failed(cause, text, _HINTS[cause], **details)


def _uneven(context: JudgeContext, cohort: SkuCohort) -> Outcome:
    answer = Answer.about_cluster(SPEC, context)
    names, slow = tuple(host.name for host in cohort.hosts), cohort.slow.uneven
    text = f"{len(slow)} of {len(cohort.rates)} ranks are slower, too many to blame them: {', '.join(slow[:6])}"
    text += f"; {cohort.slow.peers.undecided}" if cohort.slow.peers.undecided else ""
    details: dict[str, Any] = {
        "more_subjects": (*nodes(names), *gpus(slow[:64])), "expected": _expected(cohort), "evidence": evidence(cohort),
    }  # fmt: skip
    if not cohort.confirmed:
        return not_repeated(answer, text, **details)
    return answer.marginal(
        "ranks-uneven", text, "look at what these GPUs share: power, cooling, image, driver", **details
    )


def _expected(cohort: SkuCohort) -> tuple[Expectation, ...]:
    peers = cohort.slow.peers
    if not peers.evaluated:
        return ()
    return (Expectation("rate", ">=", round(peers.limit, 4), Basis.PEERS, "of the median", peers.arithmetic),)


CHECK = Check(SPEC, OBSERVER, judge)
