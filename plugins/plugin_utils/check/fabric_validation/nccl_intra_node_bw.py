# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the GPUs of a host reach each other as fast as their NVLinks allow, and as those of its peers do."""

from __future__ import annotations

from ...outcome.model import Outcome, SubjectKind
from ...verdict.shared import Shared
from ..benchmark.preconditions import nodes, not_repeated
from ..benchmark.shared_cause import explained, slow_group
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import SkuCohort, cohorts_of
from .bandwidth import BandwidthResult
from .model import PlannedHost, Results
from .observe_nccl import OBSERVER
from .preconditions import judge_hosts, unreferenced
from .rendering import figures, rate_text, steered

SPEC = CheckSpec(
    id="nccl-intra-node-bw",
    gate="fabric_validation",
    title="Bandwidth between the GPUs of a host",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=600.0,
    applies=(needs("kubernetes|slurm"),),
    causes=("cohort-slow", "slow-group", "slow-nvlink"),
)
_HINT = "`nvidia-smi nvlink -e` and `nvidia-smi topo -m` on the host; look for XID 74 and for links that retrain"
_COHORT_HINT = "all hosts share it: compare image, NCCL version, driver and fabric manager with a known good fleet"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host. If what slow hosts of a SKU share is to blame, they get one together."""
    outcomes: list[Outcome] = []
    covered: set[str] = set()
    for cohort in cohorts_of(results, context.hardware).values():
        slow = [s for s in cohort.alone.members if s.verdict in ("bad", "marginal")]
        # If a ceiling proves that they are slow, a faster host makes no difference.
        alone = bool(cohort.alone.peers.undecided) and all(s.rated is None for s in slow)
        compared = [s.hosts[0] for s in cohort.alone.members]
        names = [s.hosts[0] for s in slow]
        shared = explained(context, names, compared, alone=alone, alike=cohort.alone.as_slow(names))
        if shared is not None:
            outcomes.append(_slow_group(context, cohort, shared))
            covered |= set(shared.slow)
            slow = [s for s in slow if s.hosts[0] not in covered]
        unknown = [s for s in cohort.alone.members if s.verdict == "unknown" and s.problem is None]
        if unknown:
            outcomes.append(_unreferenced(context, cohort, unknown))
            covered |= {s.hosts[0] for s in unknown}
        if cohort.alone.to_blame and slow:
            outcomes.append(_judge_shared(context, cohort, slow))
            covered |= {name for s in slow for name in s.hosts}
    return (*outcomes, *judge_hosts(SPEC, results, context, _judge_host, skip=covered))


def _judge_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    if host.closed:
        return answer.blocked(by="nccl-results", because=f"no run was possible: {host.closed}")
    result = cohort.alone.find((host.name,))
    if result is None or result.problem is not None:
        return answer.blocked(by="nccl-results", because="the run gave no figure")
    if cohort.sku.gpus == 1:
        return answer.passed("one GPU: there is nothing within the host to measure")
    return _rated(answer, cohort, host, result)


def _rated(answer: Answer, cohort: SkuCohort, host: PlannedHost, result: BandwidthResult) -> Outcome:
    details = figures(result, cohort.limits)
    text = f"{host.name}: {rate_text(result)}"
    if result.verdict == "good":
        return answer.passed(text, **details)
    repeated = f"{text}, in {'the median' if result.like else 'most'} of {len(result.runs)} runs"
    if result.verdict == "bad":
        return answer.failed("slow-nvlink", repeated, _HINT, **details)
    if result.verdict == "marginal" and result.unsaturated:
        return answer.marginal("unsaturated", repeated, "measure with a larger size (largest)", **details)
    if result.verdict == "marginal":
        return answer.marginal("intra-node-bandwidth-marginal", repeated, _HINT, **details)
    return not_repeated(answer, text, **details)


def _unreferenced(context: JudgeContext, cohort: SkuCohort, members: list[BandwidthResult]) -> Outcome:
    """Return one outcome for all hosts of a SKU without a published figure."""
    slowest = min(members, key=lambda s: s.value)
    names = [s.hosts[0] for s in members]
    who = names[0] if len(names) == 1 else f"{len(names)} hosts, the slowest {slowest.hosts[0]}"
    text = f"{who}: {rate_text(slowest)}"
    details = {**figures(slowest, cohort.limits), "more_subjects": nodes(names)}
    answer = Answer.about_cluster(SPEC, context)
    return unreferenced(answer, cohort.sku_name, text, "intra_node_busbw_gbps", **details)


def _judge_shared(context: JudgeContext, cohort: SkuCohort, slow: list[BandwidthResult]) -> Outcome:
    answer = Answer.about_cluster(SPEC, context)
    middle = sorted(slow, key=lambda s: s.value)[len(slow) // 2]
    names = tuple(name for s in slow for name in s.hosts)
    text = f"{len(names)} hosts are slow alike, so what they share is to blame: {rate_text(middle)}"
    if cohort.alone.peers.undecided and middle.rated is None:
        text = f"{len(names)} hosts: {rate_text(middle)}; {cohort.alone.peers.undecided}"
    details = {**figures(middle, cohort.limits), "more_subjects": nodes(names)}
    make = answer.failed if any(s.verdict == "bad" for s in slow) else answer.marginal
    text += steered(middle)
    return make("cohort-slow", text, _COHORT_HINT, **details)


def _slow_group(context: JudgeContext, cohort: SkuCohort, shared: Shared) -> Outcome:
    slow = sorted((s for s in cohort.alone.members if s.hosts[0] in shared.slow), key=lambda s: s.value)
    middle = slow[len(slow) // 2]
    what = f"{middle.hosts[0]}: {rate_text(middle)}"
    return slow_group(SPEC, context, shared, what, **figures(middle, cohort.limits))


CHECK = Check(SPEC, OBSERVER, judge)
