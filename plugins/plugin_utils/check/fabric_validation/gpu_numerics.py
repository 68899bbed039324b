# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every GPU computes correctly, the same every time, and the same as those of its model."""

from __future__ import annotations

import re
from typing import Any

from ...outcome.model import Measure, Outcome, Status, SubjectKind
from ...verdict.majority import LEAST
from ..benchmark.plan import BenchmarkHost
from ..benchmark.preconditions import leftovers_of, merged, no_run, nodes, of_problem, sku_unknown
from ..dl_unit.comparison import Comparison, DigestCohort
from ..dl_unit.model import Results, Run, counted, evidence, gpu_subjects
from ..dl_unit.reading import HINTS, GpuProblem
from ..kit.answer import Answer
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_dl_unit import OBSERVER

SPEC = CheckSpec(
    id="gpu-numerics",
    gate="fabric_validation",
    title="Every GPU computes right, and the same bits as its equals",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=180.0,
    applies=(needs("kubernetes|slurm"),),
    causes=(
        "arithmetic-wrong", "copy-wrong", "reference-differs", "digest-changes", "digest-differs", "gpu-missing",
    ),
)  # fmt: skip


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host.

    If no digest has a majority of the GPUs of a model, its hosts get one together.
    """
    compared = Comparison(results)
    split = [cohort for cohort in compared.cohorts.values() if cohort.found.split]
    covered = {host for cohort in split for host in cohort.hosts}
    reported = tuple(_nobody(context, cohort) for cohort in split)
    # A host of these is only judged if it has a problem of its own.
    hosts = [h for h in results.plan.hosts if h.name not in covered or any(r.problem for r in results.of(h.name))]
    alone = [(host, _judge(Answer.about_host(SPEC, context, host.name), compared, host)) for host in hosts]
    return (*reported, *_alike(results, alone))


def _alike(results: Results, judged: list[tuple[BenchmarkHost, Outcome]]) -> list[Outcome]:
    """Return the outcomes, with equal unknown ones merged, such as an image that none of the hosts can run."""
    reported: list[tuple[str, tuple[str, ...] | None, Outcome]] = []
    for host, outcome in judged:
        # Names of pods begin with that of their job, followed by random characters.
        names = [f"{re.escape(run.record.name)}[-a-z0-9]*" for run in results.of(host.name)]
        text = re.sub("|".join((*names, re.escape(host.node), re.escape(host.name))), "<host>", outcome.summary)
        same = outcome.status is Status.OTHER and not outcome.blocked_by
        reported.append((host.name, (outcome.cause, text) if same else None, outcome))
    return merged(reported)


def _nobody(context: JudgeContext, cohort: DigestCohort) -> Outcome:
    found = cohort.found
    text = f"of {found.total} equal GPUs at most {found.agreeing} gave the same bits, and nobody can be named"
    if found.total < LEAST:
        text += f": {LEAST} are needed for that"
    return Answer.about_cluster(SPEC, context).unknown(
        "digests-unlike", text, HINTS["digests-unlike"], more_subjects=nodes(cohort.hosts)
    )


def _judge(answer: Answer, compared: Comparison, host: BenchmarkHost) -> Outcome:
    sku = answer.context.hardware.get(host.sku)
    if sku is None:
        return sku_unknown(answer, host.sku)
    if host.closed:
        return answer.blocked(by="nccl-results", because=f"no run was possible: {host.closed}")
    runs = compared.results.of(host.name)
    if not runs:
        return no_run(answer)
    problem = _problem(compared, host.name, runs, sku.gpus)
    details: dict[str, Any] = {"evidence": evidence(runs)}
    if problem is not None:
        subjects = gpu_subjects(tuple((host.name, slot) for slot in problem.slots))
        return of_problem(answer, problem, HINTS, host.name, more_subjects=subjects, **details)
    return leftovers_of(answer, compared.results.leftovers) or _passed(answer, compared, host, **details)


def _problem(compared: Comparison, host: str, runs: tuple[Run, ...], gpus: int) -> GpuProblem | None:
    """Return what is wrong with a host. None: nothing is.

    Proof comes before what is only unknown, and the host's own runs before a comparison with peers.
    """
    found = [problem for run in runs if (problem := counted(run, gpus)) is not None]
    proven = next((problem for problem in found if problem.bad), None)
    # A run that was only not placed for a moment is replaced by the second one.
    unknown = [problem for problem in found if not problem.transient or len(found) == len(runs)]
    beside = [problem for cohort in compared.of(host) if (problem := cohort.problem(host)) is not None]
    differs = next((problem for problem in beside if problem.bad), None)
    return (
        proven
        or compared.changed(host)
        or differs
        or next(iter(unknown), None)
        or next(iter(beside), None)
    )  # fmt: skip


def _passed(answer: Answer, compared: Comparison, host: BenchmarkHost, **details: Any) -> Outcome:
    logs = compared.results.whole(host.name)
    text = "; ".join(cohort.text for cohort in compared.of(host.name))
    measured = (
        Measure("GPUs", len(logs[0].tests), "count"),
        Measure("times each operation was done", sum(log.repeats for log in logs), "count"),
        Measure("compared with", sum(cohort.found.total for cohort in compared.of(host.name)), "count"),
    )
    summary = f"{len(logs[0].tests)} GPUs gave the same bits {sum(log.repeats for log in logs)} times: {text}"
    return answer.passed(summary, measured=measured, **details)


CHECK = Check(SPEC, OBSERVER, judge)
