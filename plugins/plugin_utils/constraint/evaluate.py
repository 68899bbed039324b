# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parses and evaluates constraints and their versions. A missing value has its own result and never passes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ..outcome.errors import InputError

# Constraint expressions.
#
# One condition is an optional operator and a value (`>= 1.32.4`, `ubuntu`). This release adds conditions joined by a
# comma (`>= 1.30, < 1.36`: all must hold) and lists (`in [22.04, 24.04]`, `not in [...]`). Upstream both would be
# evaluation errors or literal texts, so no upstream expression changes its meaning.

OPERATORS = (">=", "<=", "!=", "==", ">", "<")
_LIST = re.compile(r"^(not in|in)\s*\[(.*)\]$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. The operator is one of OPERATORS, `in`, `not in`, or empty for an exact text."""

    operator: str
    values: tuple[str, ...]

    @property
    def value(self) -> str:
        """The value to compare with; only for conditions with a single value."""
        return self.values[0]


@dataclass(frozen=True, slots=True)
class Expression:
    """Conditions that must all hold."""

    text: str
    conditions: tuple[Condition, ...]


def _bad(text: str, reason: str) -> InputError:
    return InputError(f"constraint expression {text!r}", reason, "Write for example '>= 1.32.4' or 'ubuntu'.")


def _condition(part: str, whole: str) -> Condition:
    stripped = part.strip()
    for operator in OPERATORS:
        if stripped.startswith(operator):
            value = stripped[len(operator) :].strip()
            if not value:
                raise _bad(whole, f"the operator {operator} has no value.")
            return Condition(operator, (value,))
    if not stripped:
        raise _bad(whole, "it is empty.")
    return Condition("", (stripped,))


def parse_expression(text: str) -> Expression:
    """Return the conditions of an expression.

    Raises:
        InputError: empty, an operator without a value, or an empty list.
    """
    stripped = text.strip()
    listed = _LIST.match(stripped)
    if listed:
        values = tuple(item.strip().strip("'\"") for item in listed.group(2).split(",") if item.strip())
        if not values:
            raise _bad(text, "the list is empty.")
        return Expression(stripped, (Condition(listed.group(1), values),))
    if stripped.startswith(OPERATORS) and "," in stripped:
        return Expression(stripped, tuple(_condition(part, text) for part in stripped.split(",")))
    return Expression(stripped, (_condition(stripped, text),))


# Versions as constraints compare them: up to three numbers. Suffixes do not count.

# Azure Linux has a fourth number for rebuilds of a kernel, and a word on its virtualization hosts (`uname -r` there
# prints 6.6.57.1-7.azl3, 6.6.135.mshv2-1.azl3; CBL-Mariner before it 5.15.158.1-1.cm2). No other version has four
# parts.
_REBUILD = re.compile(r"(?<=\d)\.(?:\d+|mshv\d+)(?=-\S*\.(?:azl|cm)\d+\Z)")
_FIRST_THREE = re.compile(r"\d+\.\d+\.\d+")
_EXTRAS = re.compile(r"(?<=[0-9])[-+].*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Version:
    """One to three numbers. The text after the first `-` or `+` that follows a digit is dropped."""

    numbers: tuple[int, ...]

    @property
    def padded(self) -> tuple[int, int, int]:
        """The three numbers, with 0 for missing ones."""
        major, minor, patch = (*self.numbers, 0, 0)[:3]
        return major, minor, patch

    def compare(self, other: Version) -> int:
        """Return -1, 0 or 1 at the smaller precision of the two: 1.32 and 1.32.4 are equal."""
        precision = min(len(self.numbers), len(other.numbers))
        mine, theirs = self.numbers[:precision], other.numbers[:precision]
        return (mine > theirs) - (mine < theirs)


def parse_version(text: str) -> Version:
    """Return the version in a text (`v1.33.5-eks-3025e55` is 1.33.5).

    Raises:
        InputError: empty, more than three numbers, or a part that is not a number.
    """
    core = _EXTRAS.sub("", text.strip().removeprefix("v"))
    parts = core.split(".")
    if not core or len(parts) > 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise InputError(
            f"version {text!r}",
            "is not a version; one to three numbers with dots are expected, such as 1.32.4.",
        )
    return Version(tuple(int(part) for part in parts))


def parse_measured(text: str) -> Version:
    """Return the version of a measured text, as parse_version does.

    Of an Azure Linux kernel the first three numbers count.

    Raises:
        InputError: see parse_version.
    """
    first = _FIRST_THREE.match(text)
    if first and _REBUILD.match(text, first.end()):
        return parse_version(first.group())
    return parse_version(text)


# A declared constraint and its result.


class Severity(str, Enum):
    """Effect of a constraint that does not hold: it stops the run, or is only reported."""

    ERROR = "error"
    WARNING = "warning"


class Quantifier(str, Enum):
    """On how many GPU nodes the condition must hold. NONE_GIVEN is for a value of the whole cluster."""

    NONE_GIVEN = ""
    ALL = "all"
    ANY = "any"
    NONE = "none"


class ConstraintStatus(str, Enum):
    """Result: it holds, it does not hold, it could not be evaluated, or nothing was measured."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """One declared requirement on one measured value (`K8s.server.version`, `>= 1.32.4`)."""

    name: str
    value: str
    severity: Severity = Severity.ERROR
    remediation: str = ""
    unit: str = ""
    nodes: Quantifier = Quantifier.NONE_GIVEN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintResult:
    """Result of evaluating one constraint.

    - `actual`: the measured value; empty if nothing was measured.
    - `nodes`: for a constraint about nodes, those that decided it.
    - `measured_on`: for a constraint about nodes, how many were measured; else None.
    """

    constraint: Constraint
    status: ConstraintStatus
    actual: str = ""
    reason: str = ""
    nodes: tuple[str, ...] = ()
    measured_on: int | None = None

    @property
    def blocks(self) -> bool:
        """Whether it stops the run: all but a pass do, unless the severity is warning."""
        return self.status is not ConstraintStatus.PASS and self.constraint.severity is Severity.ERROR


# Evaluates constraints against measured values. A missing value has its own result and never passes.

Measured = str | int | float | bool | None

_QUANTITY = re.compile(r"^([-+]?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z%/]*)$")
# By unit its family and its factor there. Units of different families cannot be compared.
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
    """Compare two texts: as versions if the constraint's value looks like one and both can be parsed, else as text."""
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
    """Return the family of a quantity and its size in the base unit. Without a unit it has the constraint's unit."""
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
    """Return the result of a constraint for one value. None stands for a value that was never measured."""
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
    """Return the result of a constraint that this release cannot measure; `hint` is what to write in its place."""
    reason = f"{constraint.name} is measured by nothing in this release; {constraint.value} is required. {hint}"
    return ConstraintResult(constraint=constraint, status=ConstraintStatus.MISSING, reason=reason.strip())


def evaluate_nodes(constraint: Constraint, actual: Mapping[str, Measured]) -> ConstraintResult:
    """Return the result of a constraint for the values of all GPU nodes.

    Without a quantifier all of them have to satisfy it. A node that was not measured, or whose value cannot be parsed,
    decides before all others. It is never a pass.
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
