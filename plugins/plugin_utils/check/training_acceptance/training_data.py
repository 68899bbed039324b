# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: no host's CPUs delay all others with the data of a step."""

from __future__ import annotations

from statistics import median
from typing import Any

from ...outcome.model import Basis, Expectation, Measure, Outcome, SubjectKind
from ..benchmark.preconditions import nodes, not_repeated
from ..benchmark.shared_cause import explained, slow_group
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import SkuCohort, cohorts_of
from .model import PlannedHost, Results
from .observe_training import OBSERVER
from .preconditions import before_host, judge_hosts
from .rendering import evidence

SPEC = CheckSpec(
    id="training-data",
    gate="training_acceptance",
    title="No host is slow at the data",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=900.0,
    applies=(needs("kubernetes"),),
    causes=("slow-data", "slow-group"),
)
_HINT = "the CPUs of the host are slow: cpupower frequency-info (governor), BIOS power profile, other processes, NUMA"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host. A cohort too uneven to name a host gets one together."""
    outcomes: list[Outcome] = []
    for cohort in cohorts_of(results, context.hardware):
        found = cohort.slow_data
        slow = found.slow or found.uneven
        bad = found.bad or [host for host in slow if found.cost[host] > cohort.results.plan.settings.judge.peer_bad]
        # A single fast host is no reference: of three or more, all but one are slow.
        alone = len(slow) > 1 and len(slow) == len(found.cost) - 1
        shared = explained(context, bad, found.cost, alone=alone) if cohort.confirmed and bad else None
        covered = shared.slow if shared else ()
        if shared is not None:
            cost = 100 * median(found.cost[host] for host in shared.slow)
            what = f"all wait for their data, {cost:.1f} % of a step"
            outcomes.append(slow_group(SPEC, context, shared, what, evidence=evidence(cohort)))
        elif cohort.complete and found.uneven:
            outcomes.append(_uneven(context, cohort))
            covered = tuple(host.name for host in cohort.hosts)
        outcomes += judge_hosts(SPEC, context, cohort, _judge_host, skip=covered)
    return tuple(outcomes)


def _judge_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    early = before_host(answer, cohort, host)
    if early is not None:
        return early
    seconds, proof = cohort.typical.data_s.get(host.name), evidence(cohort, host.name)
    if seconds is None:
        text = "this run did not record how long the data of a step took"
        return answer.unknown("not-recorded", text, "run the gate again", evidence=proof)
    found, judge = cohort.slow_data, cohort.results.plan.settings.judge
    cost = found.cost.get(host.name, 0.0)
    details: dict[str, Any] = {
        "measured": (
            Measure("data", round(1e3 * seconds, 3), "ms"),
            Measure("cost", round(100 * cost, 2), "% of a step"),
        ),
        "expected": _expected(cohort),
        "evidence": proof,
    }
    text = f"{1e3 * seconds:.3g} ms for the data of a step"
    if host.name not in found.slow:
        return answer.passed(text, **details)
    text = f"{text}, {1e3 * found.usual_s:.3g} ms elsewhere: all wait for it, {100 * cost:.1f} % of a step"
    if not cohort.confirmed:
        return not_repeated(answer, text, **details)
    if host.name in found.bad:
        return answer.failed("slow-data", text, _HINT, **details)
    over = f"bad from {100 * judge.peer_bad:g} % of a step on"
    return answer.marginal("slow-data-marginal", f"{text}; {over}", _HINT, **details)


def _uneven(context: JudgeContext, cohort: SkuCohort) -> Outcome:
    answer, found = Answer.about_cluster(SPEC, context), cohort.slow_data
    slow = found.uneven
    text = f"{len(slow)} of {len(cohort.hosts)} hosts are slower at the data, too many to blame: {', '.join(slow[:6])}"
    if found.alone:
        text = f"{found.alone} alone needs {1e3 * found.usual_s:.3g} ms for the data of a step, all others at least "
        text += f"{100 * min(found.cost[host] for host in slow):.1f} % of a step more: they are slow, or it is odd"
    details: dict[str, Any] = {
        "more_subjects": nodes(host.name for host in cohort.hosts), "expected": _expected(cohort),
        "evidence": evidence(cohort),
    }  # fmt: skip
    if not cohort.confirmed:
        return not_repeated(answer, text, **details)
    return answer.marginal("data-uneven", text, "compare BIOS profile, governor and kernel of these hosts", **details)


def _expected(cohort: SkuCohort) -> tuple[Expectation, ...]:
    found, judge = cohort.slow_data, cohort.results.plan.settings.judge
    if found.usual_s <= 0:
        return ()
    arithmetic = (
        f"({judge.peer_marginal:g} of a step later than {1e3 * found.usual_s:.3g} ms), "
        f"and under {judge.data_factor:g} times that"
    )
    return (Expectation("cost", "<=", round(100 * judge.peer_marginal, 2), Basis.PEERS, "% of a step", arithmetic),)


CHECK = Check(SPEC, OBSERVER, judge)
