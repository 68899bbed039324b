# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: all hosts together reach what the topology allows."""

from __future__ import annotations

from ...outcome.model import Measure, Outcome, SubjectKind
from ..benchmark.preconditions import no_run, nodes, of_problem
from ..kit.answer import Answer
from ..kit.ways import BETWEEN_HOSTS, NVLS
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .analysis import SkuCohort, cohorts_of
from .model import Results
from .observe_nccl import OBSERVER
from .preconditions import unreferenced
from .rendering import figures, rate_text
from .settings import ALL_NODES, AllNodesSettings
from .sharp import sharp_of
from .transport import between_hosts, nvls_of, nvls_offered

SPEC = CheckSpec(
    id=ALL_NODES,
    gate="fabric_validation",
    title="Bandwidth over all hosts",
    per=SubjectKind.CLUSTER,
    disturbs=Disturbance.TEST_PODS,
    duration_s=600.0,
    requires=("kubernetes", "multi_node"),
    between_hosts=True,
    causes=("all-nodes-bandwidth-low", "sharp-not-used", "wrong-results"),
    settings=AllNodesSettings,
)
_HINTS = dict.fromkeys(
    ("wrong-results", "run-hung", "run-crashed", "output-incomplete", "not-validated"),
    "read the log; run the gate again, and bisect the hosts if it stays",
)
_HINT = "pairs are fine and the whole is not: look at spine links and adaptive routing, or bisect the hosts"


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every SKU."""
    alone = {host.sku for host in context.site.without_equal}
    cohorts = [found for sku, found in cohorts_of(results, context.hardware).items() if sku not in alone]
    sharp = context.settings_of(ALL_NODES, AllNodesSettings).sharp
    return tuple(_judge_cohort(Answer.about_cluster(SPEC, context), cohort, sharp) for cohort in cohorts)


def _judge_cohort(answer: Answer, cohort: SkuCohort, by_sharp: bool) -> Outcome:
    if not cohort.sound:
        return _not_run(answer, cohort)
    result = cohort.whole
    if result is None:
        return no_run(answer)
    details = {**figures(result, cohort.limits), "more_subjects": nodes(result.hosts)}
    if result.problem is not None:
        return of_problem(answer, result.problem, _HINTS, f"{len(result.hosts)} hosts", **details)
    run = result.best_run
    ways = (
        Measure(BETWEEN_HOSTS, between_hosts(run)),
        Measure(NVLS, nvls_of(run)),
        Measure("NVLS of the GPUs", nvls_offered(run)),
    )
    details["measured"] = (*details["measured"], *ways)
    text = f"{len(result.hosts)} hosts: {rate_text(result)}"
    if by_sharp:
        # Without it the figure is that of another way to reduce.
        sharp = sharp_of(run, fabric=cohort.sku.fabric)
        if sharp.proof == "unused":
            details["more_subjects"] = nodes(sharp.hosts)
            return answer.failed("sharp-not-used", f"{sharp.text}; {text}", sharp.hint, **details)
        if sharp.proof == "unknown":
            return answer.unknown("sharp-not-seen", sharp.text, sharp.hint, **details)
        if sharp.proof == "unchosen" and result.verdict != "bad":
            return answer.marginal("sharp-not-chosen", f"{sharp.text}; {text}", sharp.hint, **details)
        text = f"{text}, {sharp.text}"
    if result.verdict == "good":
        return answer.passed(text, **details)
    if result.verdict == "bad":
        text = f"{text}, in most of {len(result.runs)} runs"
        return answer.failed("all-nodes-bandwidth-low", text, _HINT, **details)
    if result.verdict == "marginal":
        cause = "unsaturated" if result.unsaturated else "all-nodes-bandwidth-marginal"
        hint = "measure with a larger size (largest)" if result.unsaturated else _HINT
        return answer.marginal(cause, text, hint, **details)
    return unreferenced(answer, cohort.sku_name, text, "published_busbw", **details)


def _not_run(answer: Answer, cohort: SkuCohort) -> Outcome:
    """Return the outcome where a run over all hosts would only show again what is known."""
    if any(host.closed for host in cohort.hosts) or any(s.problem for s in cohort.alone.members):
        return answer.blocked(by="nccl-results", because="not every host can take part")
    if cohort.alone.to_blame or any(s.verdict == "bad" for s in cohort.alone.members):
        return answer.blocked(by="nccl-intra-node-bw", because="hosts are slow by themselves")
    if cohort.without_rdma or cohort.broken:
        return answer.blocked(by="nccl-transport", because="not every host has RDMA")
    if cohort.blame.nodes and all(s.problem for name in cohort.blame.nodes for s in cohort.bad_pairs_of(name)):
        return answer.blocked(by="nccl-results", because="runs with some hosts give no figure")
    return answer.blocked(by="nccl-pair-bw", because="not every pair is good")


CHECK = Check(SPEC, OBSERVER, judge)
