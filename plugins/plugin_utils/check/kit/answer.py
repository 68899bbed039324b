# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a judge reports its result: an Outcome of its check about one subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...outcome.model import (
    Evidence,
    Expectation,
    Measure,
    Outcome,
    Rating,
    Series,
    Status,
    Subject,
    SubjectKind,
    blocked_cause,
    node_subject,
)
from ..spec import CheckSpec, JudgeContext

if TYPE_CHECKING:
    from ...collect.tool_reading import ProbeFailure

_LONGEST_REASON = 400


@dataclass(frozen=True, slots=True)
class Answer:
    """Makes the outcomes of one check about one subject, as in `Answer(SPEC, context, subject).passed("8 GPUs")`."""

    spec: CheckSpec
    context: JudgeContext
    subject: Subject

    @classmethod
    def about_site(cls, spec: CheckSpec, context: JudgeContext) -> Answer:
        return cls(spec, context, Subject(SubjectKind.SITE, context.site.name))

    @classmethod
    def about_cluster(cls, spec: CheckSpec, context: JudgeContext) -> Answer:
        return cls(spec, context, Subject(SubjectKind.CLUSTER, context.site.name))

    @classmethod
    def about_host(cls, spec: CheckSpec, context: JudgeContext, host: str) -> Answer:
        return cls(spec, context, node_subject(host))

    def passed(self, summary: str, **details: Any) -> Outcome:
        """Observed and good."""
        return self._outcome(Status.PASSED, Rating.GOOD, summary, **details)

    def failed(self, cause: str, summary: str, hint: str, **details: Any) -> Outcome:
        """Observed and bad."""
        return self._outcome(Status.FAILED, Rating.BAD, summary, cause=cause, hint=hint, **details)

    def marginal(self, cause: str, summary: str, hint: str, **details: Any) -> Outcome:
        """Observed, neither good nor bad: blocks the gate until a named person accepts it."""
        return self._outcome(Status.OTHER, Rating.MARGINAL, summary, cause=cause, hint=hint, **details)

    def unknown(self, cause: str, summary: str, hint: str = "", **details: Any) -> Outcome:
        """Attempted without a result: crash, timeout, unparsable or missing output."""
        return self._outcome(Status.OTHER, Rating.UNKNOWN, summary, cause=cause, hint=hint, **details)

    def skipped(self, summary: str, **details: Any) -> Outcome:
        """Not observed, with the reason; never a pass."""
        return self._outcome(Status.SKIPPED, Rating.UNKNOWN, summary, **details)

    def blocked(self, *, by: str, because: str, **details: Any) -> Outcome:
        """Not judged, because the result of check `by` (of any subject) already explains what is observed here."""
        hint = f"fix what check {by} reports first; this answer follows it"
        return self._outcome(
            Status.OTHER,
            Rating.UNKNOWN,
            f"not judged: {because}"[:_LONGEST_REASON],
            cause=blocked_cause(by),
            hint=hint,
            blocked_by=by,
            **details,
        )

    def tool_failure(self, failure: ProbeFailure, where: str, path: str) -> Outcome:
        """A tool gave nothing usable on host `where`.

        The check that owns the tool reports it; every other check is blocked by that one. `path` is the evidence file.
        """
        tool, text = failure.tool, failure.text[:_LONGEST_REASON]
        if tool.owner != self.spec.id:
            return self.blocked(by=tool.owner, because=f"`{tool.shown}` gave nothing usable")
        hint = f"`{tool.shown}` on {where}: {tool.advice[failure.kind]}"
        evidence = (Evidence(tool.shown, where, text, path),)
        return self.unknown(f"{tool.cause}-{failure.kind}", text, hint, evidence=evidence)

    def _outcome(
        self,
        status: Status,
        rating: Rating,
        summary: str,
        *,
        cause: str = "",
        hint: str = "",
        blocked_by: str = "",
        measured: tuple[Measure, ...] = (),
        expected: tuple[Expectation, ...] = (),
        evidence: tuple[Evidence, ...] = (),
        series: tuple[Series, ...] = (),
        more_subjects: tuple[Subject, ...] = (),
    ) -> Outcome:
        return Outcome(
            check=self.spec.id,
            gate=self.context.gate,
            status=status,
            rating=rating,
            subjects=(self.subject, *more_subjects),
            summary=summary,
            cause=cause,
            hint=hint,
            blocked_by=blocked_by,
            measured=measured,
            expected=expected,
            evidence=evidence,
            series=series,
        )
