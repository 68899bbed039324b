# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The verdict of a gate: passed only if every declared check of every subject is passed, waived or accepted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from ..outcome.decisions import Acceptance, Waiver
from ..outcome.model import NOT_OBSERVED, Outcome, Status, Subject, answered_by, most_specific, names_of
from ..outcome.wording import shortened
from ..site.model import Site

_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDeclared:
    """A check that does not apply at this site, and why."""

    id: str
    title: str
    reason: str

    def __str__(self) -> str:
        return f"{self.id} ({self.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """One reason why a gate did not pass.

    `subjects` are those of its outcome, none where there was no result; `subject` names all of them. `blocked_by` is
    the check whose result it waits for, if any.
    """

    check: str
    subject: str
    status: Status
    cause: str
    summary: str
    hint: str = ""
    blocked_by: str = ""
    subjects: tuple[Subject, ...] = ()

    @property
    def shown(self) -> str:
        """The subject as text."""
        return most_specific(self.subjects) if self.subjects else self.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedDecision:
    """An outcome that a person's decision keeps from blocking the gate; `subject` names its `subjects` as text."""

    check: str
    subject: str
    cause: str
    who: str
    reason: str
    until: str
    subjects: tuple[Subject, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """Passes of earlier runs that count for a gate that was not run.

    Which runs, from when (the oldest and the newest), how many results, and what was not looked at again.
    """

    runs: tuple[str, ...]
    oldest: str
    newest: str
    results: int
    not_looked_at: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """The origin of the passes as text."""
        more = f" and {len(self.runs) - 1} more" if len(self.runs) > 1 else ""
        return f"run {self.runs[0]}{more} of {self.oldest[:10]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateVerdict:
    """The verdict of a gate.

    `counts` are the outcomes by CTRF status: a waived failure stays a failure there. `status` is `pending` before the
    gate ran. It is `skipped` when the site's profile declares none of its checks, or when passes of earlier runs count
    for it (`taken_over`).
    """

    gate: str
    status: Status
    message: str
    checks: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    blocking: tuple[Blocking, ...] = ()
    waived: tuple[AppliedDecision, ...] = ()
    accepted: tuple[AppliedDecision, ...] = ()
    expired: tuple[AppliedDecision, ...] = ()
    not_declared: tuple[NotDeclared, ...] = ()
    taken_over: TakenOver | None = None
    key_figure: str = ""
    started: str = ""
    duration_s: float = 0.0
    schema_version: int = 2

    @property
    def opens_next(self) -> bool:
        """Whether the gates that depend on this one may run."""
        return self.status in (Status.PASSED, Status.SKIPPED)


def decide(
    gate: str,
    expected: Mapping[str, tuple[str, ...]],
    outcomes: Iterable[Outcome],
    site: Site,
    today: date,
    not_declared: tuple[NotDeclared, ...] = (),
) -> GateVerdict:
    """Return the verdict.

    Args:
        gate: gate id.
        expected: declared check id to the names of the subjects that each need a result.
        outcomes: every outcome read back from the gate's CTRF files.
        site: has waivers, acceptances and quarantine.
        today: day on which waivers must still be valid.
        not_declared: the checks that are left out.
    """
    about = [outcome for outcome in outcomes if not _quarantined(outcome, site)]
    counts = {status.value: sum(o.status is status for o in about) for status in Status}
    if not expected and not about:
        message = "no check is declared at this site: " + "; ".join(map(str, not_declared))
        # The first reason is enough in one line of text.
        because = not_declared[0].reason if not_declared else "it has none"
        return GateVerdict(
            gate=gate, status=Status.SKIPPED, message=message, counts=counts, not_declared=not_declared,
            key_figure=f"not declared here: {because}",
        )  # fmt: skip
    sorting = _Sorting(site, today)
    for outcome in about:
        sorting.add(outcome, declared=outcome.check in expected)
    # Failures first: an observed fault explains more than a missing observation.
    blocking = sorted([*_unanswered(expected, about, site), *sorting.blocking], key=_after_failures)
    status = _status(blocking)
    return GateVerdict(
        gate=gate,
        status=status,
        message=_message(gate, status, sorting, blocking),
        checks=len(expected),
        counts=counts,
        blocking=tuple(blocking),
        waived=tuple(sorting.waived),
        accepted=tuple(sorting.accepted),
        expired=tuple(sorting.expired),
        not_declared=not_declared,
    )


def _quarantined(outcome: Outcome, site: Site) -> bool:
    return all(subject.node in site.quarantined for subject in outcome.subjects)


def _unanswered(expected: Mapping[str, tuple[str, ...]], outcomes: list[Outcome], site: Site) -> Iterable[Blocking]:
    answered: dict[str, set[str]] = {}
    for outcome in outcomes:
        answered.setdefault(outcome.check, set()).update(answered_by(outcome, site.name))
    for check, subjects in expected.items():
        known = answered.get(check, set())
        for name in [s for s in subjects if s not in known] or ([] if known or subjects else ["-"]):
            yield Blocking(
                check=check,
                subject=name,
                status=Status.OTHER,
                cause="no-outcome",
                summary="declared, and no result came back.",
                hint="run the gate again and read its evidence",
            )


class _Sorting:
    """Sorts outcomes into what blocks and what a person decided about."""

    def __init__(self, site: Site, today: date) -> None:
        self._site, self._today = site, today
        self.blocking: list[Blocking] = []
        self.waived: list[AppliedDecision] = []
        self.accepted: list[AppliedDecision] = []
        self.expired: list[AppliedDecision] = []

    def add(self, outcome: Outcome, *, declared: bool) -> None:
        if not declared:
            self.blocking.append(
                _blocking(outcome, Status.OTHER, "undeclared-check", "result of a check that was not declared.")
            )
            return
        if outcome.status is Status.PASSED:
            return
        decision = self._decision(outcome)
        if decision is None:
            self.blocking.append(
                _blocking(outcome, outcome.status, outcome.cause or outcome.status.value, outcome.summary)
            )
        elif isinstance(decision, Acceptance):
            self.accepted.append(_applied(outcome, decision))
        else:
            self.waived.append(_applied(outcome, decision))

    def _decision(self, outcome: Outcome) -> Waiver | None:
        for decision in (*self._site.acceptances, *self._site.waivers):
            if not decision.covers(outcome):
                continue
            if decision.active_on(self._today):
                return decision
            self.expired.append(_applied(outcome, decision))
        return None


def _blocking(outcome: Outcome, status: Status, cause: str, summary: str) -> Blocking:
    return Blocking(
        check=outcome.check,
        subject=names_of(outcome.subjects),
        subjects=outcome.subjects,
        status=status,
        cause=cause,
        summary=summary,
        hint=outcome.hint,
        blocked_by=outcome.blocked_by,
    )


def _applied(outcome: Outcome, decision: Waiver) -> AppliedDecision:
    return AppliedDecision(
        check=outcome.check,
        subject=names_of(outcome.subjects),
        subjects=outcome.subjects,
        cause=outcome.cause,
        who=decision.who,
        reason=decision.reason,
        until=decision.until,
    )


def _after_failures(entry: Blocking) -> tuple[bool, bool]:
    """Failures first; a check that waits for another check's result explains nothing."""
    return entry.status is not Status.FAILED, bool(entry.blocked_by)


def _status(blocking: list[Blocking]) -> Status:
    if not blocking:
        return Status.PASSED
    failed = any(entry.status is Status.FAILED for entry in blocking)
    return Status.FAILED if failed else Status.OTHER


def _message(gate: str, status: Status, sorting: _Sorting, blocking: list[Blocking]) -> str:
    if status is Status.PASSED:
        decided = ((len(sorting.waived), "waived"), (len(sorting.accepted), "accepted as marginal"))
        return ", ".join(["every declared check passed", *(f"{count} {word}" for count, word in decided if count)])
    first = blocking[0]
    if first.cause == NOT_OBSERVED:
        # Every check of an observation that failed has the same summary; none of them is the reason.
        others = sum(entry.summary != first.summary for entry in blocking)
        return f"gate {gate} is not passed: {shortened(first.summary.rstrip('.'), _LONGEST_REASON)}{_more(others)}"
    return f"gate {gate} is not passed: {first.check} on {first.shown}: {first.cause}{_more(len(blocking) - 1)}"


def _more(results: int) -> str:
    """Return the words for other results that block the gate. A bare number would read as a count of what was named
    last."""
    if not results:
        return ""
    return f"; {results} more results are not passed" if results > 1 else "; 1 more result is not passed"
