# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every NCCL run ended, was complete, and computed correct values."""

from __future__ import annotations

from functools import cache

from ...outcome.model import Measure, Outcome, SubjectKind
from ..benchmark.preconditions import leftovers_of, no_capacity, no_run, of_problem
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .analysis import SkuCohort
from .model import Phase, PlannedHost, Results
from .observe_nccl import OBSERVER
from .parse_run import failure_hints
from .preconditions import judge_hosts
from .rendering import evidence, link

SPEC = CheckSpec(
    id="nccl-results",
    gate="fabric_validation",
    title="NCCL runs end, whole and with right values",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=600.0,
    applies=(needs("kubernetes|slurm"),),
    causes=("wrong-results",),
)
_HINTS = {
    "wrong-results": "take the host out of service; run `dcgmi diag -r 4` on it; if it is right with "
    "NCCL_P2P_DISABLE=1 (settings: env), its platform delivers no copies between GPUs: look at firmware, IOMMU and "
    "ACS (check pcie-acs)",
    "run-hung": "read the end of the log and the kernel log of the host (XID), then run the gate again",
    "run-crashed": "read the log; the program's last words and NCCL's own warnings name the call that failed",
    "launcher-dns": "pods must resolve each other and the launcher by name: look at the cluster's DNS and policies",
    "shm-too-small": "pods share memory through /dev/shm: mount an emptyDir with medium Memory there",
    "output-incomplete": "read the log; the run ended early or something else wrote into it",
    "not-validated": "run nccl-tests with checking on (without -c 0)",
}


@cache
def _hints() -> dict[str, str]:
    """Return what to do by cause. Read on demand, since preflight must report a missing library before."""
    return _HINTS | failure_hints()


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return judge_hosts(SPEC, results, context, _judge_host)


def _judge_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    if host.closed:
        return no_capacity(answer, host)
    alone = cohort.alone.find((host.name,))
    if alone is None:
        return no_run(answer)
    if alone.problem is not None:
        proof = tuple(map(evidence, alone.runs))
        return of_problem(answer, alone.problem, _hints(), f"{host.name} by itself", evidence=proof)
    return (
        _between(answer, cohort, host)
        or leftovers_of(answer, cohort.results.leftovers)
        or _passed(answer, cohort, host)
    )


def _between(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome | None:
    """Return what went wrong between this host and others, if the host is to blame or none can be named."""
    if host.name in cohort.broken:
        spoiled = [s for s in cohort.pairs_of(host.name) if s.problem]
        if spoiled:
            return answer.blocked(
                by="nccl-transport", because=f"its transport is broken: {cohort.broken[host.name].text}"
            )
        return None
    if host.name in cohort.blame.nodes:
        bad = [s for s in cohort.bad_pairs_of(host.name) if s.problem]
        if not bad or bad[0].problem is None:
            return None
        partners = ", ".join(name for s in bad for name in s.hosts if name != host.name)
        proof = tuple(evidence(run) for s in bad for run in s.runs)
        return of_problem(answer, bad[0].problem, _hints(), f"{host.name} with {partners}", evidence=proof)
    for pair in (*cohort.unclear_of.get(host.name, ()), *cohort.paths_of.get(host.name, ())):
        result = next((s for s in cohort.pairs_of(host.name) if s.hosts == pair), None)
        if result is not None and result.problem is not None:
            proof = tuple(map(evidence, result.runs))
            what, subjects = " with ".join(pair), (link(pair),)
            return of_problem(answer, result.problem, _hints(), what, evidence=proof, more_subjects=subjects)
    return None


def _passed(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome:
    phases: tuple[Phase, ...] = ("node", "pair", "rail", "all")
    runs = [run for run in cohort.results.with_host(host.name, phases) if run.problem is None or cohort.sku.gpus == 1]
    sizes = sum(len(run.test.rows) for run in runs if run.test)
    text = f"{len(runs)} runs ended well, the values of {sizes} sizes are right"
    return answer.passed(text, measured=(Measure("runs", len(runs), "count"), Measure("wrong values", 0, "count")))


CHECK = Check(SPEC, OBSERVER, judge)
