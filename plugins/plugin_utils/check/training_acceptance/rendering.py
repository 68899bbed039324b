# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Findings as parts of outcomes: subjects, evidence, measures and curves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...outcome.model import Axis, Bound, Evidence, Measure, Outcome, Series, Subject, SubjectKind
from ..benchmark.preconditions import of_problem
from ..kit.answer import Answer
from .analysis import SkuCohort
from .model import HostProblem

_POINTS = 400


def gpus(names: Iterable[str]) -> tuple[Subject, ...]:
    """Return GPUs as subjects."""
    return tuple(Subject(SubjectKind.GPU, name, name.partition("/")[0]) for name in names)


def blamed(answer: Answer, cohort: SkuCohort, problem: HostProblem, host: str, hints: Mapping[str, str]) -> Outcome:
    """Return the outcome for a host that is to blame for a problem."""
    mine = gpus(gpu for gpu in problem.gpus if gpu.partition("/")[0] == host)
    return of_problem(answer, problem, hints, more_subjects=mine, evidence=evidence(cohort, host))


def evidence(cohort: SkuCohort, host: str = "") -> tuple[Evidence, ...]:
    """Return the logs of a host. Without a host: those of the first pod of every run."""
    found = []
    for run in cohort.runs:
        pods = run.pods_of(host) if host else run.record.pods[:1]
        command = " ".join(run.record.command[:1]) or "training"
        text = run.problem.text if run.problem else f"{run.record.world} ranks, {run.record.duration_s:.0f} s"
        found += [Evidence(f"{command}, run {run.record.attempt}", pod.host, text, pod.log) for pod in pods]
    return tuple(found)


def measures(cohort: SkuCohort) -> tuple[Measure, ...]:
    """Return what a baseline of the figure depends on."""
    setup, figures = cohort.setup, cohort.typical
    ranks = len(figures.run.ranks)
    facts = [
        Measure("step time", round(figures.step_s, 6), "s"),
        Measure("ranks", ranks, "count"),
        Measure("nodes", len({rank.host for rank in figures.run.ranks}), "count"),
        Measure("runs", len(cohort.complete), "count"),
    ]
    if setup is not None:
        facts += [
            Measure("parameters", setup.parameters, "count"),
            Measure("layers", setup.layers, "count"),
            Measure("hidden", setup.hidden, "count"),
            Measure("sequence", setup.sequence, "count"),
            Measure("batch", setup.batch, "count"),
            Measure("type", setup.dtype),
            Measure("torch", setup.torch),
        ]
    return tuple(facts)


def step_series(cohort: SkuCohort) -> tuple[Series, ...]:
    """Return the step times of every run."""
    limit = cohort.typical.step_s * (1 + cohort.results.plan.settings.judge.step_time_cv)
    return tuple(
        Series(
            figure="training step time",
            name=_run_name(cohort, number),
            x=Axis(name="step"),
            y=Axis(name="step time", unit="s"),
            points=_thin(figures.steps),
            bounds=(Bound(name="mean and limit of variation", value=round(limit, 6)),) if number == 0 else (),
        )
        for number, figures in enumerate(cohort.figures)
    )


def loss_series(cohort: SkuCohort) -> tuple[Series, ...]:
    """Return the mean loss of all ranks of every run."""
    return tuple(
        Series(
            figure="training loss",
            name=_run_name(cohort, number),
            x=Axis(name="step"),
            y=Axis(name="loss"),
            points=_thin(figures.losses),
        )
        for number, figures in enumerate(cohort.figures)
        if figures.losses
    )


def _run_name(cohort: SkuCohort, number: int) -> str:
    ranks = len(cohort.figures[number].run.ranks)
    return f"{cohort.sku_name}, {ranks} ranks" + (f", run {number + 1}" if len(cohort.figures) > 1 else "")


def _thin(points: tuple[tuple[int, float], ...]) -> tuple[tuple[float, float], ...]:
    step = -(-len(points) // _POINTS)
    return tuple((float(number), round(value, 6)) for number, value in points[::step])
