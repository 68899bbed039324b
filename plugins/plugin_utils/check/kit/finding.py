# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From findings to outcomes: a judge reports what is not good, and each cause becomes one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...outcome.model import Evidence, Expectation, Measure, Outcome, Subject, SubjectKind
from ...outcome.wording import first_of
from .answer import Answer

# How many further adapters a hint names behind its command.
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not good.

    `subjects` are what it is about beside the subject of the report. `measured` and `expected` are its own figures;
    without them those of the report apply.
    """

    cause: str
    text: str
    hint: str
    subjects: tuple[Subject, ...] = ()
    measured: tuple[Measure, ...] = ()
    expected: tuple[Expectation, ...] = ()
    marginal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a check found about one subject: without findings it passed, and `summary` says what is good."""

    summary: str
    findings: tuple[Finding, ...] = ()
    measured: tuple[Measure, ...] = ()
    expected: tuple[Expectation, ...] = ()
    evidence: tuple[Evidence, ...] = ()


def conclude(answer: Answer, report: Report) -> tuple[Outcome, ...]:
    """Return one outcome for every finding, failed ones first; without findings the one that passed."""
    if not report.findings:
        passed = answer.passed(
            report.summary, measured=report.measured, expected=report.expected, evidence=report.evidence
        )
        return (passed,)
    return tuple(
        (answer.marginal if finding.marginal else answer.failed)(
            finding.cause,
            finding.text,
            filled(finding.hint, finding.subjects),
            more_subjects=finding.subjects,
            measured=finding.measured or report.measured,
            expected=finding.expected or report.expected,
            evidence=report.evidence,
        )
        for finding in sorted(report.findings, key=lambda finding: finding.marginal)
    )


def filled(hint: str, subjects: Sequence[Subject]) -> str:
    """Return the hint with the names of its subjects in the place of `<hca>` and `<gpu>`.

    Without such subjects the placeholder stays, with the command that lists the names. A command takes one adapter, so
    the others are named behind it; `nvidia-smi -i` takes several GPUs.
    """
    adapters = [_part(subject).partition(":")[0] for subject in subjects if subject.kind is SubjectKind.HCA]
    gpus = [_part(subject).removeprefix("gpu") for subject in subjects if subject.kind is SubjectKind.GPU]
    if "<hca>" in hint:
        first, *more = dict.fromkeys(adapters) or ("<hca>",)
        hint = hint.replace("<hca>", first) + (f" (likewise {first_of(more, _NAMED)})" if more else "")
        hint += "" if adapters else " (<hca>: an adapter that `ibstat -l` lists)"
    if "<gpu>" in hint:
        hint = hint.replace("<gpu>", ",".join(dict.fromkeys(gpus)) or "<gpu>")
        hint += "" if gpus else " (<gpu>: its number in `nvidia-smi -L`)"
    return hint


def _part(subject: Subject) -> str:
    return subject.name.rpartition("/")[2]


def one_per_cause(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings of the same cause as one finding about all their subjects, with the hint of the first."""
    same: dict[str, list[Finding]] = {}
    for finding in findings:
        same.setdefault(finding.cause, []).append(finding)
    return tuple(
        replace(
            group[0],
            text="; ".join(dict.fromkeys(finding.text for finding in group)),
            subjects=tuple(dict.fromkeys(subject for finding in group for subject in finding.subjects)),
        )
        for group in same.values()
    )
