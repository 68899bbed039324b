# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Constraints of `validation.performance`: what the phase measured, against the bounds of the recipe. Pure.

The bounds hold as they are written, with operator and unit; upstream lets a floor be missed by a tenth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..constraint.declared import declared_constraint
from ..constraint.evaluate import evaluate
from ..constraint.model import Constraint, ConstraintStatus, Severity
from ..outcome.model import Basis, Expectation, Measure, Outcome, Rating, Status, Subject, SubjectKind
from ..outcome.phases import PERFORMANCE
from ..recipe.sections import section_of

CHECK = "performance-constraints"


@dataclass(frozen=True, slots=True)
class _Figure:
    """Which measure of which check answers; `unit` is its unit, `test` the program that it must be of."""

    check: str
    measure: str
    unit: str
    test: str = ""


_BANDWIDTH = _Figure("nccl-all-nodes-bw", "busbw", "GB/s", "all_reduce_perf")
_FIGURES = {
    "nccl-all-reduce-bw": _BANDWIDTH,
    "nccl-all-reduce-bw-net": _BANDWIDTH,
    "nccl-all-reduce-bw-nvls": _BANDWIDTH,
    "inference-throughput": _Figure("inference-throughput", "output throughput", "tokens/s"),
    "inference-ttft-p99": _Figure("inference-ttft", "TTFT p99", "ms"),
}


def stated_bounds(recipe: Mapping[str, Any] | None, phase: str) -> tuple[Constraint, ...]:
    """Return the constraints of a phase that this judges."""
    section = section_of(recipe, phase)
    return tuple(map(declared_constraint, section.get("constraints") or ())) if phase == PERFORMANCE else ()


def judge_bounds(
    bounds: Iterable[Constraint], outcomes: Iterable[Outcome], site: str, gate: str
) -> tuple[Outcome, ...]:
    """Return one outcome if all bounds are kept, else one for each that is not, or that nothing was measured for."""
    found, seen = list(outcomes), Subject(SubjectKind.SITE, site)
    kept: list[str] = []
    bad: list[Outcome] = []
    for bound in bounds:
        figure = _FIGURES[bound.name]
        values = _values(figure, found)
        measurable = replace(bound, unit=bound.unit or figure.unit)
        results = {name: evaluate(measurable, f"{value} {figure.unit}") for name, value in values.items()}
        failed = [name for name, result in results.items() if result.status is ConstraintStatus.FAIL]
        unknown = [name for name, result in results.items() if result.status is not ConstraintStatus.PASS]
        shown = ", ".join(f"{name} {values[name]} {figure.unit}" for name in (failed or unknown or list(values))[:8])
        if values and not unknown:
            kept.append(f"{bound.name} {bound.value}: {shown}")
            continue
        said = f"{bound.name} is to be {bound.value}, measured: {shown or 'nothing'}"
        cause = "constraint-not-met" if failed else "constraint-unmeasured"
        sure = bool(failed) and bound.severity is Severity.ERROR
        bad.append(
            Outcome(
                check=CHECK,
                gate=gate,
                status=Status.FAILED if sure else Status.OTHER,
                rating=Rating.BAD if sure else Rating.MARGINAL if failed else Rating.UNKNOWN,
                subjects=(seen,),
                summary=said,
                measured=tuple(
                    Measure(f"{figure.measure} {name}", value, figure.unit) for name, value in values.items()
                ),
                expected=(Expectation(bound.name, "satisfies", bound.value, Basis.RECIPE, figure.unit),),
                cause=cause,
                hint=bound.remediation or f"read what check {figure.check} says of it",
            )
        )
    told = "; ".join(kept) or "the recipe has none"
    passed = Outcome(
        check=CHECK, gate=gate, status=Status.PASSED, rating=Rating.GOOD, subjects=(seen,), summary=told
    )  # fmt: skip
    return tuple(bad) or (passed,)


def _values(figure: _Figure, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return the figure by what it was measured on."""
    values: dict[str, str] = {}
    for outcome in outcomes:
        measured = {measure.name: measure for measure in outcome.measured}
        test = measured.get("test")
        if outcome.check != figure.check or figure.measure not in measured:
            continue
        if figure.test and (test is None or test.value != figure.test):
            continue
        if measured[figure.measure].unit == figure.unit:
            value = measured[figure.measure].value
            values[outcome.subjects[-1].name] = "" if value is None else str(value)
    return {name: value for name, value in values.items() if value}
