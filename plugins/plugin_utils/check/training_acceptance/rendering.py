# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How findings are told, and what stands before a verdict: no run, or what another check reports. Pure."""

from __future__ import annotations

from typing import Any

from ...outcome.model import Evidence, Measure, Outcome, Subject, SubjectKind, node_subject
from ...outcome.series import Axis, Bound, Series
from ..kit.answer import Answer
from .analysis import SkuCohort
from .model import PlannedHost, Problem

_POINTS = 400


def before_host(answer: Answer, cohort: SkuCohort, host: PlannedHost) -> Outcome | None:
    """Return the outcome for a host that has no figures, None if it has some."""
    if cohort.sku is None:
        return answer.unknown("sku-unknown", f"no hardware facts for SKU {host.sku!r}", "correct gpufleet_sku")
    if host.closed:
        return answer.blocked(by="training-gang-start", because=f"no run was possible: {host.closed}")
    problem = cohort.problem
    if problem is not None and (not cohort.complete or host.name in problem.hosts):
        return answer.blocked(by=problem.check, because=problem.text)
    if not cohort.complete:
        return answer.unknown("no-run", "no run was made", "run the gate again")
    return None


def before_cohort(answer: Answer, cohort: SkuCohort) -> Outcome | None:
    """Return the outcome for hosts that have no figures together, None if they have some."""
    details = {"more_subjects": nodes(host.name for host in cohort.hosts)}
    if cohort.sku is None:
        text = f"no hardware facts for SKU {cohort.sku_name!r}"
        return answer.unknown("sku-unknown", text, "correct gpufleet_sku", **details)
    if cohort.complete:
        return None
    if cohort.problem is not None:
        return answer.blocked(by=cohort.problem.check, because=cohort.problem.text, **details)
    if not cohort.open_hosts:
        return answer.blocked(by="training-gang-start", because="no host has room for a pod", **details)
    return answer.unknown("no-run", "no run was made", "run the gate again", **details)


def nodes(names: Any) -> tuple[Subject, ...]:
    """Return the subjects of hosts."""
    return tuple(node_subject(name) for name in names)


def gpus(names: Any) -> tuple[Subject, ...]:
    """Return the subjects of GPUs."""
    return tuple(Subject(SubjectKind.GPU, name, name.partition("/")[0]) for name in names)


def told(answer: Answer, problem: Problem, host: str, cohort: SkuCohort, hint: str) -> Outcome:
    """Return the outcome of a problem for a host that is to blame."""
    mine = gpus(gpu for gpu in problem.gpus if gpu.partition("/")[0] == host)
    make = answer.failed if problem.bad else answer.unknown
    return make(problem.cause, problem.text, hint, more_subjects=mine, evidence=evidence(cohort, host))


def evidence(cohort: SkuCohort, host: str = "") -> tuple[Evidence, ...]:
    """Return the logs that were read: those of a host, or of the first pod of every run."""
    found = []
    for run in cohort.runs:
        pods = [pod for pod in run.record.pods if pod.host == host] if host else run.record.pods[:1]
        command = " ".join(run.record.command[:1]) or "training"
        text = run.problem.text if run.problem else f"{run.record.world} ranks, {run.record.duration_s:.0f} s"
        found += [Evidence(f"{command}, run {run.record.attempt}", pod.host, text, pod.log) for pod in pods]
    return tuple(found)


def measures(cohort: SkuCohort) -> tuple[Measure, ...]:
    """Return what a baseline needs beside the figure."""
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
    limit = cohort.typical.step_s * (1 + cohort.results.plan.rules.judge.step_time_cv)
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
