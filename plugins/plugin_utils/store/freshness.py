# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a gate can be taken over from earlier runs: each result that it needs, fresh or why not. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from ..fingerprint.dependencies import Change, Dependencies, SiteState, changes, dependencies_of, in_words, unseen
from ..outcome.model import SubjectKind
from ..outcome.wording import first_of
from ..runtime.clock import moment_of
from ..site.model import Site
from ..verdict.gate import AppliedDecision, TakenOver
from .records import NonPass, Pass

# The most by which the clocks of two controllers may differ.
_CLOCKS_DIFFER = timedelta(minutes=10)


class Why(str, Enum):
    """Why an earlier result does not count.

    `changed`: it passed, and what it depends on has changed. With all others there is no earlier pass to count.
    """

    CHANGED = "changed"
    NEVER = "never passed"
    FAILED = "not passed since"
    EXPIRED = "of no age that counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """One result that the gate needs."""

    check: str
    kind: SubjectKind
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A needed result that no earlier run has, and why; `found` is what changed, if that is the reason."""

    needed: Needed
    why: Why
    text: str = ""
    found: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFreshness:
    """The results of earlier runs for a gate: those that count, that a person let through, and that are stale."""

    gate: str
    fresh: tuple[Pass, ...] = ()
    decided: tuple[AppliedDecision, ...] = ()
    stale: tuple[Stale, ...] = ()
    not_looked_at: tuple[str, ...] = ()

    @property
    def can_be_taken_over(self) -> bool:
        """Whether the gate need not run: some result counts and none is stale."""
        return bool(self.fresh) and not self.stale

    @property
    def only_changed(self) -> bool:
        """Whether all stale results passed before, with what was there then."""
        return all(entry.why is Why.CHANGED for entry in self.stale)

    @property
    def taken_over(self) -> TakenOver:
        """The passes from which the gate is taken over."""
        days = sorted(entry.passed for entry in self.fresh)
        newest_first = sorted(self.fresh, key=lambda entry: entry.passed, reverse=True)
        return TakenOver(
            runs=tuple(dict.fromkeys(entry.run_id for entry in newest_first)),
            oldest=days[0],
            newest=days[-1],
            results=len(self.fresh),
            not_looked_at=self.not_looked_at,
        )

    def reasons(self) -> list[str]:
        """Return why the gate is stale, the same reason of several subjects as one line."""
        lines = in_words({change for entry in self.stale for change in entry.found})
        others: dict[tuple[str, str], list[str]] = {}
        for entry in self.stale:
            if entry.why is not Why.CHANGED:
                others.setdefault((entry.why.value, entry.text), []).append(_name(entry.needed))
        lines += [f"{first_of(names, 2)} {why}{f': {text}' if text else ''}" for (why, text), names in others.items()]
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessContext:
    """The context in which passes are judged.

    The site and its currently observed facts, the time, how long a pass counts, and which facts of hosts cannot be
    observed without the tests.
    """

    site: Site
    state: SiteState
    now: datetime
    max_age_days: float
    not_looked_at: tuple[str, ...] = ()


def gate_freshness(
    gate: str,
    needed: Sequence[Needed],
    passes: Iterable[Pass],
    non_passes: Iterable[NonPass],
    context: FreshnessContext,
) -> GateFreshness:
    """Return what earlier runs have for a gate.

    Args:
        gate: gate id.
        needed: every result that the gate declares now.
        passes: the newest pass of every check and subject.
        non_passes: results that were no pass.
        context: the context in which they are judged.
    """
    mine = {(entry.check, entry.subject): entry for entry in passes if entry.gate == gate}
    bad = _Newest(entry for entry in non_passes if entry.gate == gate)
    fresh: list[Pass] = []
    decided: list[AppliedDecision] = []
    stale: list[Stale] = []
    blind: set[str] = set()
    for need in needed:
        found = mine.get((need.check, need.subject))
        non_pass = bad.about(need)
        if non_pass is not None and (found is None or non_pass.is_after(found)):
            decision = _decision(non_pass, need, context)
            if decision is not None:
                decided.append(decision)
            else:
                stale.append(Stale(needed=need, why=Why.FAILED, text=f"{non_pass.text} in run {non_pass.run_id}"))
        elif found is None:
            stale.append(Stale(needed=need, why=Why.NEVER))
        elif (problem := _problem(found, need, context)) is not None:
            stale.append(problem)
        else:
            fresh.append(found)
            blind |= unseen(found.dependencies, _now(found, need, context), context.not_looked_at)
    return GateFreshness(
        gate=gate,
        fresh=tuple(fresh),
        decided=tuple(decided),
        stale=tuple(stale),
        not_looked_at=tuple(sorted(blind)),
    )


def _problem(found: Pass, need: Needed, context: FreshnessContext) -> Stale | None:
    age = context.now - moment_of(found.passed)
    if age < -_CLOCKS_DIFFER:
        text = f"passed at {found.passed}, which is after now ({context.now:%Y-%m-%dT%H:%M:%SZ}): a clock was wrong"
        return Stale(needed=need, why=Why.EXPIRED, text=text)
    if age > timedelta(days=context.max_age_days):
        text = f"{age.days} days since run {found.run_id}, at most {context.max_age_days:g} count"
        return Stale(needed=need, why=Why.EXPIRED, text=text)
    different = changes(found.dependencies, _now(found, need, context), context.not_looked_at)
    return Stale(needed=need, why=Why.CHANGED, found=different) if different else None


def _now(found: Pass, need: Needed, context: FreshnessContext) -> Dependencies:
    return dependencies_of(
        found.gate, found.check, need.kind, need.subject, found.dependencies.hosts, context.site, context.state
    )


class _Newest:
    """The newest results of a gate that were no pass, by check and by the name of a subject or of its node.

    Also the newest time at which the whole gate left no result, which is about every subject.
    """

    def __init__(self, entries: Iterable[NonPass]) -> None:
        self._whole: NonPass | None = None
        self._by_subject: dict[tuple[str, str], NonPass] = {}
        for entry in sorted(entries, key=lambda entry: entry.order, reverse=True):
            if entry.outcome is None:
                self._whole = self._whole or entry
                continue
            for subject in entry.outcome.subjects:
                for name in {subject.name, subject.node} - {""}:
                    self._by_subject.setdefault((entry.outcome.check, name), entry)

    def about(self, need: Needed) -> NonPass | None:
        found = (self._by_subject.get((need.check, need.subject)), self._whole)
        return max((entry for entry in found if entry is not None), key=lambda entry: entry.order, default=None)


def _decision(non_pass: NonPass, need: Needed, context: FreshnessContext) -> AppliedDecision | None:
    """Return the decision of a person that lets this result through today, as it did or would have done then."""
    outcome, today = non_pass.outcome, context.now.date()
    if outcome is None:
        return None
    for decision in (*context.site.acceptances, *context.site.waivers):
        if decision.covers(outcome) and decision.active_on(today):
            return AppliedDecision(
                check=need.check,
                subject=need.subject,
                cause=outcome.cause,
                who=decision.who,
                reason=decision.reason,
                until=decision.until,
            )
    return None


def _name(need: Needed) -> str:
    return f"{need.check} on {need.subject}"
