# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Constraint expressions: parsed once, without a look at the machine.

One condition is an optional operator and a value (`>= 1.32.4`, `ubuntu`). Ours adds conditions joined by a comma
(`>= 1.30, < 1.36`: all must hold) and lists (`in [22.04, 24.04]`, `not in [...]`); both would be evaluation errors
or literal texts upstream, so no upstream expression changes its meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..outcome.errors import InputError

OPERATORS = (">=", "<=", "!=", "==", ">", "<")
_LIST = re.compile(r"^(not in|in)\s*\[(.*)\]$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; the operator is one of OPERATORS, `in`, `not in`, or empty for an exact text."""

    operator: str
    values: tuple[str, ...]

    @property
    def value(self) -> str:
        """The value compared with; only for conditions that have one."""
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
