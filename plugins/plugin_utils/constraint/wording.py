# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a constraint can ever be judged as it is written, before anything is measured."""

from __future__ import annotations

import re

from ..outcome.errors import InputError
from .evaluate import satisfies
from .expression import parse_expression
from .model import Constraint
from .names import GPU_NODE_LABEL
from .version import parse_version

# What other tools write for an order, and ours would take for a text.
_FOREIGN_OPERATOR = re.compile(r"\s*(=>|=<|=(?!=)|~>|~=|~|\^|<>|!(?!=))")
_ORDERS = (">=", "<=", ">", "<")


def wrong_value(constraint: Constraint) -> str:
    """Return what is wrong with the value of a constraint, or an empty text."""
    if constraint.name == GPU_NODE_LABEL:
        # A label or, with `!`, its absence; no expression.
        return "" if constraint.value.removeprefix("!").strip() else f"{constraint.value!r} names no label."
    foreign = _FOREIGN_OPERATOR.match(constraint.value)
    if foreign:
        return (
            f"{constraint.value!r} begins with {foreign[1]}, which is no operator; there are >=, <=, >, <, ==, !=, in."
        )
    try:
        for condition in parse_expression(constraint.value).conditions:
            if constraint.unit:
                # Compared with itself: whether value and unit can be read.
                for value in condition.values:
                    satisfies(value, value, constraint.unit)
            elif condition.operator in _ORDERS:
                parse_version(condition.value)
    except InputError as error:
        return f"{constraint.value!r} can be compared with nothing: {error.subject} {error.reason}"
    return ""
