# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judge a latency: its percentile against the SLO, never scaled and without slack. Pure.

`without_bound` judges it where there is no SLO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...outcome.model import Basis, Expectation, Measure, Outcome
from ...probe.aiperf import AiperfExport, Distribution
from ..benchmark.preconditions import no_reference
from ..kit.answer import Answer
from ..spec import CheckSpec, JudgeContext
from .analysis import Figures
from .model import PlannedHost, Results
from .preconditions import no_figures
from .rendering import conditions, curve, load_evidence
from .settings import JudgeSettings, Slo

Details = Mapping[str, Any]
# The value offered for acceptance is this many times what was measured.
_ROOM = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One latency: its name, and how its distribution, percentile, bound and value are found."""

    name: str
    title: str
    cause: str
    hint: str
    of: Callable[[AiperfExport], Distribution]
    percentile: Callable[[JudgeSettings], int]
    bound: Callable[[Slo], float]
    value: Callable[[Figures, str], float]
    without_bound: Callable[[Answer, Figures, PlannedHost, str, Details], Outcome | None] | None = None


def judge_latency(spec: CheckSpec, latency: Latency, results: Results, context: JudgeContext) -> tuple[Outcome, ...]:
    """Return an outcome for every host."""
    figures = Figures(results)
    return tuple(
        _judge(Answer.about_host(spec, context, host.name), latency, results, figures, host)
        for host in results.plan.hosts
    )


def _judge(answer: Answer, latency: Latency, results: Results, figures: Figures, host: PlannedHost) -> Outcome:
    missing = no_figures(answer, results, host)
    if missing is not None:
        return missing
    value, (slo, source) = latency.value(figures, host.name), figures.slo(host.name)
    bound, percentile = latency.bound(slo), latency.percentile(results.plan.settings.judge)
    measured, export = figures.middle(host.name)
    found, loads = latency.of(export), figures.loads[host.name]
    name = f"{latency.name} p{percentile}"
    arithmetic = f"{source}; median of {len(loads)} runs, p{percentile} of {found.count} requests each; not scaled"
    details = {
        "measured": (
            Measure(latency.name, round(value, 2), "ms"),
            Measure("percentile", percentile, "%"),
            *(Measure(f"{latency.name} p{p}", round(found.at(p), 2), "ms") for p in (50, 90, 95, 99)),
            Measure(f"{latency.name} max", round(found.most, 2), "ms"),
            *conditions(results.plan, host, measured.load),
        ),
        "expected": (Expectation(name, "<=", bound, Basis.SLO, "ms", arithmetic),) if bound else (),
        "evidence": tuple(load_evidence(load) for load in loads),
        "series": (curve(latency.title, host.name, found, bound),),
    }
    text = f"{name} {value:,.1f} ms at {measured.load.concurrency} requests at a time"
    if bound and value > bound:
        return answer.failed(latency.cause, f"{text}, the SLO is {bound:g} ms", latency.hint, **details)
    if bound:
        return answer.passed(text, **details)
    without = latency.without_bound(answer, figures, host, text, details) if latency.without_bound else None
    if without is not None:
        return without
    hint = (
        f"nothing is published for this accelerator, model and load; a person can accept what was measured: "
        f"slo: {{{latency.name.lower()}_ms: {value * _ROOM:.0f}}} in gpufleet_settings.inference_acceptance"
    )
    return no_reference(answer, text, hint, **details)
