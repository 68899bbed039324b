# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the GPUs of a host reach each other as fast as their NVLinks allow, and as those of its peers do."""

from __future__ import annotations

from ...outcome.model import Outcome, Subject, SubjectKind, node_subject
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .analysis import Analysis, SkuCohort
from .bandwidth import BandwidthResult
from .model import PlannedHost, Results
from .observe_nccl import OBSERVER
from .preconditions import not_possible
from .rendering import figures, nodes, rate_text

SPEC = CheckSpec(
    id="nccl-intra-node-bw",
    gate="fabric_validation",
    title="Bandwidth between the GPUs of a host",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=600.0,
    requires=("kubernetes",),
    causes=("cohort-slow", "slow-nvlink"),
)
_HINT = "`nvidia-smi nvlink -e` and `nvidia-smi topo -m` on the host; look for XID 74 and for links that retrain"
_COHORT_HINT = "all hosts share it: compare image, NCCL version, driver and fabric manager with a known good fleet"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host; one for all of them if all are slow."""
    outcomes: list[Outcome] = []
    for cohort in Analysis.of(results, context.hardware).cohorts.values():
        slow = [s for s in cohort.alone.members if s.verdict in ("bad", "marginal")]
        if cohort.alone.to_blame and slow:
            outcomes.append(_cohort(results, context, slow))
            rest = [host for host in cohort.hosts if not any(host.name in s.hosts for s in slow)]
        else:
            rest = list(cohort.hosts)
        outcomes += [_judge_host(results, context, host, cohort) for host in rest]
    unknown = [host for host in results.plan.hosts if host.sku not in context.hardware]
    return (*outcomes, *(_judge_host(results, context, host, None) for host in unknown))


def _judge_host(results: Results, context: JudgeContext, host: PlannedHost, cohort: SkuCohort | None) -> Outcome:
    answer = Answer(SPEC, context, node_subject(host.name))
    impossible = not_possible(answer, cohort, host)
    if cohort is None or impossible is not None:
        return impossible or answer.unknown("sku-unknown", f"no hardware facts for SKU {host.sku!r}")
    result = cohort.alone.find((host.name,))
    if result is None or result.problem is not None:
        return answer.blocked(by="nccl-results", because="the run gave no figure")
    return _rated(answer, host, result, results)


def _rated(answer: Answer, host: PlannedHost, result: BandwidthResult, results: Results) -> Outcome:
    details = figures(result, results.plan.rules.judge)
    text = f"{host.name}: {rate_text(result)}"
    if result.verdict == "good":
        return answer.passed(text, **details)
    repeated = f"{text}, in most of {len(result.runs)} runs"
    if result.verdict == "bad":
        return answer.failed("slow-nvlink", repeated, _HINT, **details)
    if result.verdict == "marginal" and result.unsaturated:
        return answer.marginal("unsaturated", repeated, "measure with a larger size (largest)", **details)
    if result.verdict == "marginal":
        return answer.marginal("intra-node-bandwidth-marginal", repeated, _HINT, **details)
    if result.verdict == "open":
        return answer.unknown("not-repeated", f"{text}; the repeats were not made", "run the gate again", **details)
    hint = "give the SKU intra_node_busbw_gbps, or judge at least four hosts of that kind"
    return answer.unknown("no-reference", f"{text}; nothing to hold it against", hint, **details)


def _cohort(results: Results, context: JudgeContext, slow: list[BandwidthResult]) -> Outcome:
    answer = Answer(SPEC, context, Subject(SubjectKind.CLUSTER, context.site.name))
    middle = sorted(slow, key=lambda s: s.value)[len(slow) // 2]
    names = tuple(name for s in slow for name in s.hosts)
    text = f"{len(names)} hosts are slow alike, so what they share is to blame: {rate_text(middle)}"
    details = {**figures(middle, results.plan.rules.judge), "more_subjects": nodes(names)}
    make = answer.failed if any(s.verdict == "bad" for s in slow) else answer.marginal
    return make("cohort-slow", text, _COHORT_HINT, **details)


CHECK = Check(SPEC, OBSERVER, judge)
