# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check: every host writes to the shared volume, and reads back what it wrote."""

from __future__ import annotations

from ...outcome.model import Measure, Outcome, SubjectKind
from ..benchmark.plan import BenchmarkHost
from ..benchmark.preconditions import leftovers_of, no_capacity, no_run, of_problem, sku_unknown
from ..kit.answer import Answer
from ..shared_storage.analysis import Results
from ..shared_storage.judging import evidence
from ..shared_storage.run import CORRUPT, HINTS, IO_ERROR
from ..shared_storage.settings import KEY, StorageSettings
from ..spec import Check, CheckSpec, Disturbance, JudgeContext, needs
from .observe_storage import OBSERVER

SPEC = CheckSpec(
    id=KEY,
    gate="training_acceptance",
    title="Data on the shared volume come back as written",
    per=SubjectKind.NODE,
    disturbs=Disturbance.TEST_PODS,
    duration_s=120.0,
    applies=(needs("kubernetes", "shared_volume"),),
    causes=(CORRUPT, IO_ERROR),
    settings=StorageSettings,
)


def judge(results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    return tuple(_judge(Answer.about_host(SPEC, context, host.name), results, host) for host in results.plan.hosts)


def _judge(answer: Answer, results: Results, host: BenchmarkHost) -> Outcome:
    if host.sku not in answer.context.hardware:
        return sku_unknown(answer, host.sku)
    if host.closed:
        return no_capacity(answer, host)
    runs = results.of(host.name)
    if not runs:
        return no_run(answer)
    problems = [run.reading.problem for run in runs if run.reading.problem is not None]
    # A single corrupt block is proof, however often the data were correct.
    proven = next((problem for problem in problems if problem.bad), None)
    if proven is not None or len(problems) == len(runs):
        return of_problem(answer, proven or problems[-1], HINTS, evidence=evidence(runs))
    settings = results.plan.settings
    written = settings.size_mib * settings.threads
    return leftovers_of(answer, results.leftovers) or answer.passed(
        f"{written} MiB were written, read back and compared (crc32c)",
        measured=(Measure("written and compared", written, "MiB"), Measure("runs", len(runs), "count")),
        evidence=evidence(runs),
    )


CHECK = Check(SPEC, OBSERVER, judge)
