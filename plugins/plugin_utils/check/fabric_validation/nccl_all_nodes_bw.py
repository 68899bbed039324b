# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: all hosts together reach what the topology allows."""

from __future__ import annotations

from ...outcome.model import Outcome, Subject, SubjectKind
from ..kit.answer import Answer
from ..spec import CheckSpec, Disturbance, JudgeContext
from .conclusion import Conclusion, Kind
from .model import Sight
from .telling import figures, nodes, rate_text

SPEC = CheckSpec(
    id="nccl-all-nodes-bw",
    gate="fabric_validation",
    title="Bandwidth over all hosts",
    observation="nccl",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=600.0,
    requires=("kubernetes", "multi_node"),
    causes=("all-nodes-bandwidth-low", "wrong-results"),
)
_HINT = "pairs are fine and the whole is not: look at spine links and adaptive routing, or bisect the hosts"


def judge(sight: Sight, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every kind of hosts."""
    kinds = Conclusion.of(sight, context.hardware).kinds.values()
    return tuple(_judge_kind(sight, context, kind) for kind in kinds)


def _judge_kind(sight: Sight, context: JudgeContext, kind: Kind) -> Outcome:
    answer = Answer(SPEC, context, Subject(SubjectKind.CLUSTER, context.site.name))
    if not kind.sound:
        return _not_run(answer, kind)
    standing = kind.whole
    if standing is None:
        return answer.unknown("no-run", "no run over all hosts was made", "run the gate again")
    details = {**figures(standing, sight.plan.rules.judge), "more_subjects": nodes(standing.hosts)}
    if standing.problem is not None:
        make = answer.failed if standing.problem.bad else answer.unknown
        hint = "read the log; run the gate again, and bisect the hosts if it stays"
        return make(standing.problem.cause, f"{len(standing.hosts)} hosts: {standing.problem.text}", hint, **details)
    text = f"{len(standing.hosts)} hosts: {rate_text(standing)}"
    if standing.verdict == "good":
        return answer.passed(text, **details)
    if standing.verdict == "bad":
        text = f"{text}, in most of {len(standing.runs)} runs"
        return answer.failed("all-nodes-bandwidth-low", text, _HINT, **details)
    if standing.verdict == "marginal":
        cause = "unsaturated" if standing.unsaturated else "all-nodes-bandwidth-marginal"
        hint = "measure with a larger size (largest)" if standing.unsaturated else _HINT
        return answer.marginal(cause, text, hint, **details)
    return answer.unknown("no-reference", f"{text}; nothing to hold it against", "complete the SKU's facts", **details)


def _not_run(answer: Answer, kind: Kind) -> Outcome:
    """Return the outcome where a run over all hosts would only tell again what is known."""
    if any(host.closed for host in kind.hosts) or any(s.problem for s in kind.alone.standings):
        return answer.blocked(by="nccl-results", because="not every host can take part")
    if kind.alone.to_blame or any(s.verdict == "bad" for s in kind.alone.standings):
        return answer.blocked(by="nccl-intra-node-bw", because="hosts are slow by themselves")
    if kind.without_rdma or kind.broken:
        return answer.blocked(by="nccl-transport", because="not every host has RDMA")
    if kind.blame.nodes and all(s.problem for name in kind.blame.nodes for s in kind.bad_pairs_of(name)):
        return answer.blocked(by="nccl-results", because="runs with some hosts give no figure")
    return answer.blocked(by="nccl-pair-bw", because="not every pair is good")
