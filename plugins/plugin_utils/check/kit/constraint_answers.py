# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Outcomes of a check that evaluates a recipe's constraints, for a constraint that is not met. Pure."""

from __future__ import annotations

from typing import Any

from ...constraint.evaluate import ConstraintResult, ConstraintStatus, Severity
from ...outcome.model import Basis, Evidence, Expectation, Measure, Outcome, Subject
from .answer import Answer


def expectation_of(result: ConstraintResult) -> Expectation:
    """Return what a constraint demands, with the recipe as its basis."""
    return Expectation(result.constraint.name, "satisfies", result.constraint.value, Basis.RECIPE)


def held_words(result: ConstraintResult) -> str:
    """Return the text of a constraint that is met, with the number of nodes where it was measured on nodes."""
    text = f"{result.constraint.name} {result.constraint.value}"
    if result.measured_on is None:
        return text
    return f"{text} on {result.measured_on} node{'s' if result.measured_on != 1 else ''}"


def not_met(
    answer: Answer, result: ConstraintResult, evidence: tuple[Evidence, ...], subjects: tuple[Subject, ...] = ()
) -> Outcome:
    """Return the outcome of a constraint that is not met.

    It is failed, marginal if the constraint is only a warning, and unknown if it was not measured.

    Args:
        answer: that of the check.
        result: what its evaluation found.
        evidence: where it was read.
        subjects: those that it is about beside the check's own.
    """
    constraint = result.constraint
    text = result.reason or f"{constraint.name} does not satisfy {constraint.value}"
    unmeasured = result.status is ConstraintStatus.MISSING
    bring = f"bring the cluster to {constraint.name} {constraint.value}, or choose another recipe"
    measure = f"have {constraint.name} measured on every node (the summary says what is missing), and judge again"
    hint = measure if unmeasured else constraint.remediation or bring
    details: dict[str, Any] = {
        "measured": (Measure(constraint.name, result.actual or None),),
        "expected": (expectation_of(result),),
        "evidence": evidence,
        "more_subjects": subjects,
    }
    if result.status is not ConstraintStatus.FAIL:
        return answer.unknown("constraint-unmeasured", text, hint, **details)
    if constraint.severity is Severity.WARNING:
        return answer.marginal("constraint-not-met", text, hint, **details)
    return answer.failed("constraint-not-met", text, hint, **details)
