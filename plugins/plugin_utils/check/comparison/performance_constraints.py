# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare measured figures with the constraints in `validation.performance` of the recipe. Pure.

Bounds apply exactly as written, with operator and unit; upstream tolerates a floor that is missed by a tenth. A recipe
may also name the benchmark that its bounds are for (model, load). These are compared with how the run was made, since a
bound that is kept under another load proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...constraint.declared import OF_OTHER_BENCHMARKS, declared_constraint
from ...constraint.evaluate import Constraint, ConstraintStatus, Severity, evaluate
from ...outcome.gates import PERFORMANCE
from ...outcome.model import Basis, Expectation, Measure, Outcome, Rating, Status, Subject, SubjectKind
from ...recipe.sections import constraints_of
from ..kit.ways import BETWEEN_HOSTS, NETWORK, NVLINK, NVLS, USED

CHECK = "performance-constraints"
_FABRIC, _INFERENCE = "fabric_validation", "inference_acceptance"
Measured = Mapping[str, Measure]


@dataclass(frozen=True, slots=True)
class _Figure:
    """Which measure of which check a constraint is compared with.

    Attributes:
        gate: gate of the check.
        check: id of the check.
        measure: name of the measure.
        unit: its unit; empty accepts any.
        test: the program that must have measured it; empty accepts any.
        of: computes the figure from all measures of the result, where it is not the measure itself.
        how: setting behind a figure that describes the load and not the performance.
        proof: other measures of the same result, with the values that they must have. Otherwise the figure is of
            another measurement and proves nothing.
        way: the required measurement, as text.
    """

    gate: str
    check: str
    measure: str
    unit: str = ""
    test: str = ""
    of: Callable[[Measured], str] | None = None
    how: str = ""
    proof: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    way: str = ""

    def value(self, measured: Measured) -> str:
        """Return the figure from the measures of a result. Empty: the result does not have it."""
        own, test = measured.get(self.measure), measured.get("test")
        if own is None or own.value is None or (self.unit and own.unit != self.unit):
            return ""
        if self.test and (test is None or test.value != self.test):
            return ""
        if self.unproven(measured):
            return ""
        return self.of(measured) if self.of is not None else str(own.value)

    def unproven(self, measured: Measured) -> str:
        """Return which measures differ from the required proof, and their values. Empty: all are as required."""
        shown = {name: str(measured[name].value) if name in measured else "not recorded" for name in self.proof}
        return ", ".join(f"{name}: {value}" for name, value in shown.items() if value not in self.proof[name])


def _per_gpu(measured: Measured) -> str:
    load, gpus = measured["requests at a time"].value, measured["GPUs"].value if "GPUs" in measured else None
    if not isinstance(load, int | float) or not isinstance(gpus, int | float) or not gpus:
        return ""
    return f"{load / gpus:g}"


_BANDWIDTH = _Figure(_FABRIC, "nccl-all-nodes-bw", "busbw", "GB/s", "all_reduce_perf")
# Nodes with NVLink between hosts have two networks at once, and a run that chooses by itself exercises one of them
# (NVIDIA/aicr, recipes/validators/catalog.yaml, nccl-all-reduce-bw-net and -nvls): a figure of one proves nothing about
# the other. A plain TCP network is not the one that the bound is about.
_NETWORK = replace(
    _BANDWIDTH, proof={BETWEEN_HOSTS: (NETWORK,)}, way="a run over all hosts whose data goes over the network adapters"
)
_NVLS = replace(
    _BANDWIDTH,
    proof={BETWEEN_HOSTS: (NVLINK,), NVLS: (USED,)},
    way="a run over all hosts that NVLink carries between them, reduced in its switches (NVLS)",
)
_THROUGHPUT = "inference-throughput"
_FIGURES = {
    "nccl-all-reduce-bw": _BANDWIDTH,
    "nccl-all-reduce-bw-net": _NETWORK,
    "nccl-all-reduce-bw-nvls": _NVLS,
    "nccl-cre-all-reduce-bw": _BANDWIDTH,
    "inference-throughput": _Figure(_INFERENCE, _THROUGHPUT, "output throughput", "tokens/s"),
    "inference-ttft-p99": _Figure(_INFERENCE, "inference-ttft", "TTFT p99", "ms"),
    "inference-model": _Figure(_INFERENCE, _THROUGHPUT, "model", how="gpufleet_settings.inference_acceptance.model"),
    "inference-concurrency-per-gpu": _Figure(
        _INFERENCE,
        _THROUGHPUT,
        "requests at a time",
        of=_per_gpu,
        how="gpufleet_settings.inference_acceptance.concurrency_per_gpu",
    ),
}
# The gates for whose figures a recipe can set a bound. No constraint name is about training.
BOUND_GATES = frozenset(figure.gate for figure in _FIGURES.values())
_OTHER_WAY_HINT = (
    "make the run go that way (gpufleet_settings.fabric_validation.env: NCCL_MNNVL_ENABLE 0 for the adapters, 1 and "
    "NCCL_NVLS_ENABLE 1 for NVLink) and run the gate again, or judge the bound by a measurement of your own"
)
# Stands in for the figure of a constraint that no benchmark measures.
_NONE = _Figure("", "", "")


def stated_bounds(recipe: Mapping[str, Any] | None, phase: str, gate: str = "") -> tuple[Constraint, ...]:
    """Return the constraints of a phase that are judged here.

    With `gate`: only those whose figures that gate measures.
    """
    configured = constraints_of(recipe, PERFORMANCE) if phase == PERFORMANCE else []
    judged = [bound for bound in map(declared_constraint, configured) if bound.name not in OF_OTHER_BENCHMARKS]
    # A constraint that no benchmark measures is reported once, by the first gate.
    gates = {bound.name: _FIGURES[bound.name].gate if bound.name in _FIGURES else _FABRIC for bound in judged}
    return tuple(bound for bound in judged if gate in ("", gates[bound.name]))


def unit_of(name: str) -> str:
    """Return the unit in which the figure of a constraint is measured. Empty: it has none."""
    return _FIGURES.get(name, _NONE).unit


def not_judged(recipe: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the constraints that only benchmarks of other parties can measure."""
    configured = (str(entry.get("name")) for entry in constraints_of(recipe, PERFORMANCE))
    return tuple(name for name in configured if name in OF_OTHER_BENCHMARKS)


def unasked(bounds: Iterable[Constraint], requested: Collection[str]) -> tuple[str, ...]:
    """Return the checks that measure these bounds and are not in `requested`."""
    checks = {_FIGURES[bound.name].check for bound in bounds if bound.name in _FIGURES}
    return tuple(sorted(checks - set(requested)))


def judge_bounds(
    bounds: Iterable[Constraint], outcomes: Iterable[Outcome], site: str, gate: str, check: str = CHECK
) -> tuple[Outcome, ...]:
    """Return one outcome for each bound that is missed or was not measured.

    If all are kept: one outcome that passed.
    """
    found, observed = list(outcomes), Subject(SubjectKind.SITE, site)
    kept: list[str] = []
    bad: list[Outcome] = []
    for bound in bounds:
        figure = _FIGURES.get(bound.name, _NONE)
        values = _values(figure, found)
        measurable = replace(bound, unit=bound.unit or figure.unit)
        results = {name: evaluate(measurable, f"{value} {figure.unit}".strip()) for name, value in values.items()}
        failed = [name for name, result in results.items() if result.status is ConstraintStatus.FAIL]
        unknown = [name for name, result in results.items() if result.status is not ConstraintStatus.PASS]
        reported = [f"{name} {values[name]} {figure.unit}".strip() for name in (failed or unknown or list(values))]
        if values and not unknown:
            kept.append(f"{bound.name} {bound.value}: {', '.join(reported[:8])}")
            continue
        answer = Outcome(
            check=check,
            gate=gate,
            subjects=(observed,),
            measured=tuple(Measure(f"{figure.measure} {name}", value, figure.unit) for name, value in values.items()),
            expected=(Expectation(bound.name, "satisfies", bound.value, Basis.RECIPE, figure.unit),),
            **_not_kept(bound, figure, reported, bool(failed), _other_ways(figure, found)),
        )
        bad.append(answer)
    text = "; ".join(kept) or "the recipe has none"
    passed = Outcome(
        check=check, gate=gate, status=Status.PASSED, rating=Rating.GOOD, subjects=(observed,), summary=text
    )
    return tuple(bad) or (passed,)


def _other_ways(figure: _Figure, outcomes: Iterable[Outcome]) -> str:
    """Return which other measurement the results of the check show, in place of the one that the figure needs."""
    own = [outcome for outcome in outcomes if outcome.check == figure.check and outcome.measured]
    shown = {o.subjects[-1].name: figure.unproven({measure.name: measure for measure in o.measured}) for o in own}
    return "; ".join(f"{name} shows {text}" for name, text in shown.items() if text)


def _not_kept(bound: Constraint, figure: _Figure, messages: list[str], failed: bool, other_ways: str) -> dict[str, Any]:
    """Return the fields of the outcome for a bound that is missed, or not known to be kept."""
    reported = f"{bound.name} is to be {bound.value}, measured: {', '.join(messages[:8]) or 'nothing'}"
    read = f"read what check {figure.check} says of it"
    if figure is _NONE:
        reported, read = f"{bound.name} is measured by no load", "state it below constraints of the recipe"
    if other_ways and not failed:
        return {
            "status": Status.OTHER, "rating": Rating.UNKNOWN, "cause": "constraint-unmeasured",
            "summary": f"{bound.name} is to be {bound.value}, which needs {figure.way}: {other_ways}",
            "hint": bound.remediation or _OTHER_WAY_HINT,
        }  # fmt: skip
    if figure.how and failed:
        return {
            "status": Status.OTHER, "rating": Rating.UNKNOWN, "cause": "other-benchmark",
            "summary": f"{reported}; the recipe's bounds are meant for the load that it states",
            "hint": f"take {figure.how} away, or state the recipe's value there, and run again",
        }  # fmt: skip
    sure = failed and bound.severity is Severity.ERROR
    return {
        "status": Status.FAILED if sure else Status.OTHER,
        "rating": Rating.BAD if sure else Rating.MARGINAL if failed else Rating.UNKNOWN,
        "cause": "constraint-not-met" if failed else "constraint-unmeasured",
        "summary": reported,
        "hint": bound.remediation or read,
    }


def _values(figure: _Figure, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return the figure by the name of the host or cluster that it was measured on."""
    own = [outcome for outcome in outcomes if outcome.check == figure.check]
    values = {o.subjects[-1].name: figure.value({measure.name: measure for measure in o.measured}) for o in own}
    return {name: value for name, value in values.items() if value}
