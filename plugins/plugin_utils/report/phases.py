# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The phases of a validation one after the other: status, and what each validator answered, with its cause. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..check.registry import all_checks
from ..outcome.model import Outcome, Status
from ..outcome.phases import PHASES
from ..runtime.redaction import redact
from ..verdict.gate import GateVerdict
from .facts import RunFacts

# Beyond these a page cannot be read any more; the CTRF files hold every one of them.
MOST_REASONS = 8
_WORST_FIRST = (Status.FAILED, Status.OTHER, Status.PENDING, Status.SKIPPED, Status.PASSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a validator is not passed for one subject; `cause` is empty for what was left out."""

    cause: str
    subject: str
    summary: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorLine:
    """One validator: how many of its results have which status, the worst first, and why; `more` only counted."""

    id: str
    title: str
    counts: tuple[tuple[str, int], ...]
    reasons: tuple[Reason, ...]
    more: int

    @property
    def status(self) -> str:
        """The worst of its results."""
        return self.counts[0][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLine:
    """One phase; `ran` tells whether it was looked at in this run."""

    id: str
    status: str
    message: str
    ran: bool
    duration_s: float = 0.0
    validators: tuple[ValidatorLine, ...] = ()


def phase_lines(facts: RunFacts) -> tuple[PhaseLine, ...]:
    """Return the phases of a run in their order; of a validation also those that were not asked."""
    record = facts.record
    if not record.phases:
        return ()
    known = {check.spec.id: check.spec.title for check in all_checks()}
    asked = [verdict.gate for verdict in record.phases]
    names = [name for name in PHASES if name in asked or record.validates]
    return tuple(_line(name, facts, known) for name in (*names, *(name for name in asked if name not in PHASES)))


def _line(name: str, facts: RunFacts, titles: Mapping[str, str]) -> PhaseLine:
    verdict = facts.record.phase(name)
    if verdict is None:
        return PhaseLine(id=name, status=Status.PENDING.value, message="not asked in this run", ran=False)
    ran = verdict.status is not Status.PENDING
    return PhaseLine(
        id=name,
        status=verdict.status.value,
        message=redact(verdict.message),
        ran=ran,
        duration_s=verdict.duration_s,
        validators=_validators(verdict, facts.phase_outcomes.get(name, ()), titles) if ran else (),
    )


def _validators(
    verdict: GateVerdict, outcomes: tuple[Outcome, ...], titles: Mapping[str, str]
) -> tuple[ValidatorLine, ...]:
    counts: dict[str, Counter[Status]] = {}
    reasons: dict[str, list[Reason]] = {}
    for outcome in outcomes:
        counts.setdefault(outcome.check, Counter())[outcome.status] += 1
        if outcome.status is Status.SKIPPED:
            reasons.setdefault(outcome.check, []).append(
                Reason(cause="", subject=outcome.about, summary=redact(outcome.summary))
            )
    answered = frozenset(counts)
    for entry in verdict.blocking:
        # What holds a phase and has no result is a check that did not answer, or a file that cannot be read.
        if entry.check not in answered:
            counts.setdefault(entry.check, Counter())[entry.status] += 1
        reasons.setdefault(entry.check, []).append(
            Reason(cause=entry.cause, subject=entry.shown, summary=redact(entry.summary), hint=redact(entry.hint))
        )
    lines = [
        ValidatorLine(
            id=check,
            title=titles.get(check, ""),
            counts=tuple((status.value, found[status]) for status in _WORST_FIRST if found[status]),
            reasons=tuple(reasons.get(check, ())[:MOST_REASONS]),
            more=max(0, len(reasons.get(check, ())) - MOST_REASONS),
        )
        for check, found in counts.items()
    ]
    order = [status.value for status in _WORST_FIRST]
    return tuple(sorted(lines, key=lambda line: (order.index(line.status), line.id)))
