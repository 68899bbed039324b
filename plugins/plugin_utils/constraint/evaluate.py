# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evaluation of constraints against measured values: a missing value is its own result and never a pass."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..outcome.errors import InputError
from .expression import Condition, parse_expression
from .model import Constraint, ConstraintResult, ConstraintStatus, Quantifier
from .version import parse_measured, parse_version

Measured = str | int | float | bool | None

_QUANTITY = re.compile(r"^([-+]?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%/]*)$")
# One factor a unit, within its family; units of different families never compare.
_UNITS: dict[str, tuple[str, float]] = {
    "": ("number", 1.0),
    "%": ("percent", 1.0),
    **{name: ("bytes", 1024.0**power) for power, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))},
    **{name: ("bytes", 1000.0**power) for power, name in enumerate(("", "KB", "MB", "GB", "TB")) if name},
    "W": ("watts", 1.0),
    "kW": ("watts", 1000.0),
    "C": ("celsius", 1.0),
    "MHz": ("hertz", 1e6),
    "GHz": ("hertz", 1e9),
    "GB/s": ("bytes/s", 1e9),
    "Gb/s": ("bits/s", 1e9),
    "Mb/s": ("bits/s", 1e6),
    "tokens/s": ("tokens/s", 1.0),
    "us": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1.0),
}


def _as_text(actual: Measured) -> str:
    if isinstance(actual, bool):
        return "true" if actual else "false"
    return "" if actual is None else str(actual)


def _order_holds(operator: str, comparison: int) -> bool:
    if operator == ">=":
        return comparison >= 0
    if operator == "<=":
        return comparison <= 0
    return comparison > 0 if operator == ">" else comparison < 0


def _equal(value: str, actual: str) -> bool:
    """Compare as versions if the constraint's value looks like one and both are, else as texts."""
    if "." in value and any(character.isdecimal() for character in value):
        try:
            return parse_version(value).padded == parse_version(actual).padded
        except InputError:
            return value == actual
    return value == actual


def _condition_holds(condition: Condition, actual: str) -> bool:
    if condition.operator == "":
        return condition.value == actual
    if condition.operator in ("in", "not in"):
        return (actual in condition.values) == (condition.operator == "in")
    if condition.operator in ("==", "!="):
        return _equal(condition.value, actual) == (condition.operator == "==")
    return _order_holds(condition.operator, parse_measured(actual).compare(parse_version(condition.value)))


def _quantity(text: str, unit: str) -> tuple[str, float]:
    """Return the family and the size in its base unit; a number without a unit has the constraint's unit."""
    match = _QUANTITY.match(text.strip())
    if match is None:
        raise InputError(f"value {text!r}", f"is not a number with an optional unit, which {unit} needs.")
    name = match.group(2) or unit
    if name not in _UNITS:
        raise InputError(f"value {text!r}", f"has the unknown unit {name!r}; known: {', '.join(sorted(_UNITS))[2:]}.")
    family, factor = _UNITS[name]
    return family, float(match.group(1)) * factor


def _quantity_holds(condition: Condition, actual: str, unit: str) -> bool:
    family, measured = _quantity(actual, unit)
    outcomes = []
    for value in condition.values:
        wanted_family, wanted = _quantity(value, unit)
        if wanted_family != family:
            raise InputError(f"value {actual!r}", f"is measured in {family}, the constraint in {wanted_family}.")
        outcomes.append((measured > wanted) - (measured < wanted))
    if condition.operator in ("", "==", "in"):
        return 0 in outcomes
    if condition.operator in ("!=", "not in"):
        return 0 not in outcomes
    return _order_holds(condition.operator, outcomes[0])


def satisfies(actual: Measured, expression: str, unit: str = "") -> bool:
    """Tell whether a measured value satisfies an expression.

    Raises:
        InputError: the expression or a version or quantity in it cannot be read.
    """
    text = _as_text(actual)
    conditions = parse_expression(expression).conditions
    if unit:
        return all(_quantity_holds(condition, text, unit) for condition in conditions)
    return all(_condition_holds(condition, text) for condition in conditions)


def evaluate(constraint: Constraint, actual: Measured) -> ConstraintResult:
    """Return what one value says to a constraint; None is a value that was never measured."""
    if actual is None:
        return ConstraintResult(
            constraint=constraint,
            status=ConstraintStatus.MISSING,
            reason=f"{constraint.name} was not measured; {constraint.value} is required.",
        )
    text = _as_text(actual)
    try:
        holds = satisfies(actual, constraint.value, constraint.unit)
    except InputError as error:
        return ConstraintResult(
            constraint=constraint, status=ConstraintStatus.ERROR, actual=text, reason=f"{error.subject} {error.reason}"
        )
    status = ConstraintStatus.PASS if holds else ConstraintStatus.FAIL
    reason = "" if holds else f"{constraint.name} is {text}; {constraint.value} is required."
    return ConstraintResult(constraint=constraint, status=status, actual=text, reason=reason)


def unmeasurable(constraint: Constraint, hint: str) -> ConstraintResult:
    """Return what becomes of a constraint that nothing of this release measures, with what to write in its place."""
    reason = f"{constraint.name} is measured by nothing in this release; {constraint.value} is required. {hint}"
    return ConstraintResult(constraint=constraint, status=ConstraintStatus.MISSING, reason=reason.strip())


def evaluate_nodes(constraint: Constraint, actual: Mapping[str, Measured]) -> ConstraintResult:
    """Return what the values of all GPU nodes say to a constraint; without a quantifier it is about all of them.

    A node that was not measured, or whose value cannot be read, decides before any other: it is never a pass.
    """
    if not actual:
        return evaluate(constraint, None)
    results = {node: evaluate(constraint, value) for node, value in sorted(actual.items())}
    for status in (ConstraintStatus.MISSING, ConstraintStatus.ERROR):
        unknown = tuple(node for node, result in results.items() if result.status is status)
        if unknown:
            reason = f"{constraint.name} of {', '.join(unknown)}: {results[unknown[0]].reason}"
            return ConstraintResult(constraint=constraint, status=status, reason=reason, nodes=unknown)
    return _quantified(constraint, results)


def _quantified(constraint: Constraint, results: Mapping[str, ConstraintResult]) -> ConstraintResult:
    holding = tuple(node for node, result in results.items() if result.status is ConstraintStatus.PASS)
    others = tuple(node for node in results if node not in holding)
    if constraint.nodes is Quantifier.ANY:
        holds, deciding = bool(holding), holding or others
    elif constraint.nodes is Quantifier.NONE:
        holds, deciding = not holding, holding
    else:
        holds, deciding = not others, others
    values = ", ".join(f"{node}={results[node].actual}" for node in deciding[:8])
    word = constraint.nodes.value or Quantifier.ALL.value
    reason = "" if holds else f"{constraint.name} must satisfy {constraint.value} on {word} of the nodes: {values}."
    status = ConstraintStatus.PASS if holds else ConstraintStatus.FAIL
    return ConstraintResult(constraint=constraint, status=status, actual=values, reason=reason, nodes=deciding)
