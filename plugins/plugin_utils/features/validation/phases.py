# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A validation of a cluster: the request, decided phase by phase. It decides no gate."""

from __future__ import annotations

from dataclasses import replace

from ...check.comparison.performance_constraints import CHECK as BOUNDS
from ...check.comparison.performance_constraints import judge_bounds, stated_bounds
from ...check.judge import judge_gate
from ...check.selection import PhaseDeclaration, declare_phase
from ...check.validators.judge import validator_outcomes
from ...outcome.errors import BringupError, InputError
from ...outcome.gates import READINESS
from ...outcome.model import Outcome, Rating, Status, Subject, SubjectKind
from ...outcome.wording import count, first_of
from ...run.decision import run_day
from ...run.run import Run, components_of
from ...runtime.clock import now_utc, seconds_since
from ...verdict.gate import Blocking, GateVerdict, decide
from .requested import ValidationRequest, requested_of

# The report lists all of them.
_SHOWN = 3
NO_CLUSTER = "no-cluster mode: nothing but the snapshot is looked at"


def closed_by(run: Run, requested: ValidationRequest, phase: str) -> str:
    """Return why a phase is not observed: readiness did not pass, or with fail_fast an earlier phase; else empty."""
    before = requested.phases[: requested.phases.index(phase)] if phase in requested.phases else ()
    for name in before:
        verdict = run.record.phase(name)
        if verdict is not None and not verdict.opens_next and (name == READINESS or requested.fail_fast):
            return f"phase {phase}: not reached, phase {name} is {verdict.status.value}"
    return ""


def declared_phase(run: Run, requested: ValidationRequest, phase: str) -> PhaseDeclaration:
    """Return what a phase of that run declares."""
    return declare_phase(
        phase,
        run.site,
        run.recipe,
        components=components_of(run.recipe),
        skip=requested.skip_checks,
        images=requested.images,
    )


def decide_phase(run: Run, phase: str) -> GateVerdict:
    """Judge the observations of a phase, write its CTRF and JUnit, decide from the CTRF as read back, and record it.

    Raises:
        BringupError: nothing could be written.
    """
    requested, begun = requested_of(run), run.record.updated
    closed = closed_by(run, requested, phase)
    if closed:
        verdict = GateVerdict(gate=phase, status=Status.PENDING, message=closed)
    else:
        declaration = declared_phase(run, requested, phase)
        run.save_declared(phase, declaration.expected)
        outcomes = phase_outcomes(run, declaration)
        try:
            verdict = phase_verdict(run, declaration, run.save_phase(phase, outcomes, declaration.gates))
        except InputError as error:
            verdict = _unreadable(phase, error)
    verdict = replace(verdict, started=begun, duration_s=seconds_since(begun))
    run.save_record(replace(run.record.with_phase(verdict), updated=now_utc()))
    return verdict


def phase_outcomes(run: Run, declaration: PhaseDeclaration) -> tuple[Outcome, ...]:
    """Return the outcomes of a phase from its saved observations, and what was left out, each with its reason."""
    requested = requested_of(run)
    found: list[Outcome] = []
    live = not requested.no_cluster or declaration.phase == READINESS
    for part in declaration.parts:
        if live and part.checks:
            found += judge_gate(part, run.judge_context(part.gate, run_day(run.record)), run.path)
        elif not live:
            found += [_skipped(run, part.gate, check.id, NO_CLUSTER) for check in part.checks]
    first = declaration.parts[0].gate
    if live:
        found += validator_outcomes(declaration.images, declaration.phase, run.path, run.site.name, first)
    else:
        found += [_skipped(run, first, image.name, NO_CLUSTER) for image in declaration.images]
    found += [_skipped(run, first, entry.id, entry.reason) for entry in declaration.skipped]
    for name in declaration.unknown:
        found.append(_without_check(run, first, name) if live else _skipped(run, first, name, NO_CLUSTER))
    bounds = stated_bounds(run.recipe, declaration.phase)
    if bounds and live:
        found += judge_bounds(bounds, found, run.site.name, first)
    elif bounds:
        found.append(_skipped(run, first, BOUNDS, NO_CLUSTER))
    return tuple(found)


def _skipped(run: Run, gate: str, check: str, reason: str) -> Outcome:
    return Outcome(
        check=check, gate=gate, status=Status.SKIPPED, rating=Rating.UNKNOWN, subjects=_about(run), summary=reason
    )  # fmt: skip


def _without_check(run: Run, gate: str, name: str) -> Outcome:
    return Outcome(
        check=name,
        gate=gate,
        status=Status.OTHER,
        rating=Rating.UNKNOWN,
        subjects=_about(run),
        summary="the recipe asks for it, and this release has no check for it",
        cause="check-not-in-release",
        hint=f"take it out of the recipe's validation section, or leave it out by name: gpufleet_skip_checks: [{name}]",
    )


def _about(run: Run) -> tuple[Subject, ...]:
    return (Subject(SubjectKind.SITE, run.site.name),)


def phase_verdict(run: Run, declaration: PhaseDeclaration, outcomes: tuple[Outcome, ...]) -> GateVerdict:
    """Return the verdict over these outcomes. A check that was left out by name blocks nothing, and is never a pass."""
    skipped = {outcome.check for outcome in outcomes if outcome.status is Status.SKIPPED}
    expected = {check: subjects for check, subjects in declaration.expected.items() if check not in skipped}
    others = {*declaration.unknown, *(image.name for image in declaration.images)} - skipped
    expected |= dict.fromkeys(others, (run.site.name,))
    if stated_bounds(run.recipe, declaration.phase) and BOUNDS not in skipped:
        expected[BOUNDS] = (run.site.name,)
    observed = [outcome for outcome in outcomes if outcome.status is not Status.SKIPPED]
    phase = declaration.phase
    verdict = decide(phase, expected, observed, run.site, run_day(run.record), declaration.not_declared)
    verdict = replace(verdict, message=verdict.message.replace(f"gate {phase}", f"phase {phase}", 1))
    if not skipped:
        return verdict
    reasons: dict[str, list[str]] = {}
    for outcome in sorted(outcomes, key=lambda entry: entry.check):
        if outcome.status is Status.SKIPPED:
            reasons.setdefault(outcome.summary, []).append(outcome.check)
    named = "; ".join(f"{first_of(checks, _SHOWN)} ({reason})" for reason, checks in reasons.items())
    counts = verdict.counts | {Status.SKIPPED.value: len(skipped)}
    reported = f"{count(len(skipped), 'check')} skipped, so phase {phase} is not passed: {named}"
    if verdict.opens_next:
        return replace(verdict, status=Status.SKIPPED, message=reported, counts=counts, key_figure="")
    return replace(verdict, message=f"{verdict.message}; {reported}", counts=counts)


def _unreadable(phase: str, error: BringupError) -> GateVerdict:
    entry = Blocking(
        check="ctrf",
        subject=phase,
        status=Status.OTHER,
        cause="results-unreadable",
        summary=f"{error.subject}: {error.reason}",
        hint=error.hint or "run the phase again",
    )
    text = f"phase {phase} is not passed: its results cannot be read back"
    return GateVerdict(gate=phase, status=Status.OTHER, message=text, blocking=(entry,))
