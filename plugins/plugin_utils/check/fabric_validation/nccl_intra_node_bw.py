# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: the GPUs of a host reach each other as fast as their NVLinks allow, and as those of its peers do."""

from __future__ import annotations

from ...outcome.model import Outcome, Subject, SubjectKind, node_subject
from ..kit.answer import Answer
from ..spec import CheckSpec, Disturbance, JudgeContext
from .bandwidth import Standing
from .before import not_possible
from .conclusion import Conclusion, Kind
from .model import PlannedHost, Sight
from .telling import figures, nodes, rate_text

SPEC = CheckSpec(
    id="nccl-intra-node-bw",
    gate="fabric_validation",
    title="Bandwidth between the GPUs of a host",
    observation="nccl",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=600.0,
    requires=("kubernetes",),
    causes=("cohort-slow", "slow-nvlink"),
)
_HINT = "`nvidia-smi nvlink -e` and `nvidia-smi topo -m` on the host; look for XID 74 and for links that retrain"
_COHORT_HINT = "all hosts share it: compare image, NCCL version, driver and fabric manager with a known good fleet"


def judge(sight: Sight, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host; one for all of them if all are slow."""
    outcomes: list[Outcome] = []
    for kind in Conclusion.of(sight, context.hardware).kinds.values():
        slow = [s for s in kind.alone.standings if s.verdict in ("bad", "marginal")]
        if kind.alone.to_blame and slow:
            outcomes.append(_cohort(sight, context, slow))
            rest = [host for host in kind.hosts if not any(host.name in s.hosts for s in slow)]
        else:
            rest = list(kind.hosts)
        outcomes += [_judge_host(sight, context, host, kind) for host in rest]
    unknown = [host for host in sight.plan.hosts if host.sku not in context.hardware]
    return (*outcomes, *(_judge_host(sight, context, host, None) for host in unknown))


def _judge_host(sight: Sight, context: JudgeContext, host: PlannedHost, kind: Kind | None) -> Outcome:
    answer = Answer(SPEC, context, node_subject(host.name))
    impossible = not_possible(answer, kind, host)
    if kind is None or impossible is not None:
        return impossible or answer.unknown("sku-unknown", f"no hardware facts for SKU {host.sku!r}")
    standing = kind.alone.find((host.name,))
    if standing is None or standing.problem is not None:
        return answer.blocked(by="nccl-results", because="the run gave no figure")
    return _rated(answer, host, standing, sight)


def _rated(answer: Answer, host: PlannedHost, standing: Standing, sight: Sight) -> Outcome:
    details = figures(standing, sight.plan.rules.judge)
    text = f"{host.name}: {rate_text(standing)}"
    if standing.verdict == "good":
        return answer.passed(text, **details)
    repeated = f"{text}, in most of {len(standing.runs)} runs"
    if standing.verdict == "bad":
        return answer.failed("slow-nvlink", repeated, _HINT, **details)
    if standing.verdict == "marginal" and standing.unsaturated:
        return answer.marginal("unsaturated", repeated, "measure with a larger size (largest)", **details)
    if standing.verdict == "marginal":
        return answer.marginal("intra-node-bandwidth-marginal", repeated, _HINT, **details)
    if standing.verdict == "open":
        return answer.unknown("not-repeated", f"{text}; the repeats were not made", "run the gate again", **details)
    hint = "give the SKU intra_node_busbw_gbps, or judge at least four hosts of that kind"
    return answer.unknown("no-reference", f"{text}; nothing to hold it against", hint, **details)


def _cohort(sight: Sight, context: JudgeContext, slow: list[Standing]) -> Outcome:
    answer = Answer(SPEC, context, Subject(SubjectKind.CLUSTER, context.site.name))
    middle = sorted(slow, key=lambda s: s.value)[len(slow) // 2]
    names = tuple(name for s in slow for name in s.hosts)
    text = f"{len(names)} hosts are slow alike, so what they share is to blame: {rate_text(middle)}"
    details = {**figures(middle, sight.plan.rules.judge), "more_subjects": nodes(names)}
    make = answer.failed if any(s.verdict == "bad" for s in slow) else answer.marginal
    return make("cohort-slow", text, _COHORT_HINT, **details)
