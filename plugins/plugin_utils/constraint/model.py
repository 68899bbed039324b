# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A declared constraint and what its evaluation found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """What a constraint that does not hold does: stop, or be told."""

    ERROR = "error"
    WARNING = "warning"


class Quantifier(str, Enum):
    """Of how many GPU nodes the condition must hold; NONE_GIVEN for a value of the whole cluster."""

    NONE_GIVEN = ""
    ALL = "all"
    ANY = "any"
    NONE = "none"


class ConstraintStatus(str, Enum):
    """The result: it holds, it does not, it could not be evaluated, or nothing was measured."""

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
    """What one constraint's evaluation found.

    `actual` is empty if nothing was measured; `nodes` names the nodes that decided it where it is about nodes, and
    `measured_on` is the number of nodes that it was measured on, None where it is not about nodes.
    """

    constraint: Constraint
    status: ConstraintStatus
    actual: str = ""
    reason: str = ""
    nodes: tuple[str, ...] = ()
    measured_on: int | None = None

    @property
    def blocks(self) -> bool:
        """It stops the run: anything but a pass, unless it is only a warning."""
        return self.status is not ConstraintStatus.PASS and self.constraint.severity is Severity.ERROR
