# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every run of NCCL ended, was whole, and computed the right values."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Measure, Outcome, SubjectKind, node_subject
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext
from .analysis import Analysis, SkuCohort
from .model import PlannedHost, Problem, Results
from .observe_nccl import OBSERVER
from .rendering import evidence, link

SPEC = CheckSpec(
    id="nccl-results",
    gate="fabric_validation",
    title="NCCL runs end, whole and with right values",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=600.0,
    requires=("kubernetes",),
    causes=("wrong-results",),
)
_HINTS = {
    "wrong-results": "take the host out of service; run `dcgmi diag -r 4` on it",
    "run-hung": "read the end of the log and the kernel log of the host (XID), then run the gate again",
    "run-crashed": "read the log; NCCL's own warnings name the call that failed",
    "output-incomplete": "read the log; the run ended early or something else wrote into it",
    "not-validated": "run nccl-tests with checking on (without -c 0)",
}


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    analysis = Analysis.of(results, context.hardware)
    return tuple(_judge_host(results, context, host, analysis.cohort_of(host)) for host in results.plan.hosts)


def _judge_host(results: Results, context: JudgeContext, host: PlannedHost, cohort: SkuCohort | None) -> Outcome:
    answer = Answer(SPEC, context, node_subject(host.name))
    if cohort is None:
        return answer.unknown("sku-unknown", f"no hardware facts for SKU {host.sku!r}", "correct gpufleet_sku")
    if host.closed:
        hint = f"kubectl describe node {host.node}; free its GPUs or quarantine the host"
        return answer.unknown("no-capacity", f"no run was possible: {host.closed}", hint)
    alone = cohort.alone.find((host.name,))
    if alone is None:
        return answer.unknown("no-run", "no run of this host was made", "run the gate again")
    if alone.problem is not None:
        return _told(answer, alone.problem, f"{host.name} by itself", evidence=tuple(map(evidence, alone.runs)))
    return _between(answer, results, cohort, host) or _passed(answer, results, host)


def _between(answer: Answer, results: Results, cohort: SkuCohort, host: PlannedHost) -> Outcome | None:
    """Return what went wrong between this host and others, if the host is to blame or nobody can be named."""
    if host.name in cohort.broken:
        spoiled = [s for s in cohort.pairs if host.name in s.hosts and s.problem]
        if spoiled:
            return answer.blocked(
                by="nccl-transport", because=f"its transport is broken: {cohort.broken[host.name].text}"
            )
        return None
    if host.name in cohort.blame.nodes:
        bad = [s for s in cohort.bad_pairs_of(host.name) if s.problem]
        if not bad or bad[0].problem is None:
            return None
        with_whom = ", ".join(name for s in bad for name in s.hosts if name != host.name)
        proof = tuple(evidence(run) for s in bad for run in s.runs)
        return _told(answer, bad[0].problem, f"{host.name} with {with_whom}", evidence=proof)
    for pair in (*cohort.blame.unclear, *cohort.blame.paths):
        result = next((s for s in cohort.pairs if s.hosts == pair), None)
        if host.name in pair and result is not None and result.problem is not None:
            proof = tuple(map(evidence, result.runs))
            return _told(answer, result.problem, " with ".join(pair), evidence=proof, more_subjects=(link(pair),))
    return None


def _told(answer: Answer, problem: Problem, what: str, **details: Any) -> Outcome:
    hint = _HINTS.get(problem.cause, "kubectl get events -A; mend what the message says, then run the gate again")
    make = answer.failed if problem.bad else answer.unknown
    return make(problem.cause, f"{what}: {problem.text}"[:500], hint, **details)


def _passed(answer: Answer, results: Results, host: PlannedHost) -> Outcome:
    runs = [run for run in results.with_host(host.name, ("node", "pair", "rail", "all")) if run.problem is None]
    if results.leftovers:
        hint = "kubectl get ns -l gpufleet.io/purpose=test; delete what the run left"
        return answer.unknown("cleanup-incomplete", f"left behind: {results.leftovers[0]}", hint)
    sizes = sum(len(run.test.rows) for run in runs if run.test)
    text = f"{len(runs)} runs ended well, the values of {sizes} sizes are right"
    return answer.passed(text, measured=(Measure("runs", len(runs), "count"), Measure("wrong values", 0, "count")))


CHECK = Check(SPEC, OBSERVER, judge)
