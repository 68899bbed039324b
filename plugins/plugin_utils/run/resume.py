# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starting in the middle: which gates before gpufleet_from_gate are taken over, and which are proven again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..check.comparison.specs import comparisons_of
from ..check.declare import GatePlan
from ..fingerprint.dependencies import DRIVER_FACTS
from ..outcome.errors import BringupError, InputError, NotFoundError, ProblemsError
from ..outcome.model import Outcome, Rating, Status, Subject, SubjectKind
from ..outcome.wording import count
from ..report.facts import foreign_suites
from ..runtime.clock import moment_of
from ..runtime.progress import Emit
from ..site.model import DriverOwner
from ..store.database import place_of
from ..store.freshness import FreshnessContext, GateFreshness, Needed, gate_freshness
from ..store.history import Store, open_store
from ..verdict.gate import GateVerdict
from ..verdict.run import unproven_before
from .decision import run_day
from .observing import observe_gate
from .run import Run
from .site_state import collect_state
from .witnesses import borne_out

# What may be proven again on the way: what only changed since it passed, or everything that is stale; else nothing.
CHANGED, PROVE = "changed", "prove"


def resume(run: Run, options: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Decide for every gate before from_gate whether it is taken over from earlier runs, and write that into the run.

    Raises:
        BringupError: there is no history, or a gate can neither be taken over nor proven again; nothing was run then.
    """
    site = run.site
    earlier = site.before_from_gate
    found = _freshness(run, _history(options["store"]), float(options["max_age_days"]), emit) if earlier else []
    again = [entry for entry in found if not entry.can_be_taken_over]
    _refuse(site.from_gate, again, options["stale"])
    lines = [*(_stands_line(entry) for entry in found if entry.can_be_taken_over), *_again_lines(again)]
    record = replace(run.record, resumed=tuple(lines))
    for entry in found:
        if entry.can_be_taken_over:
            record = record.with_gate(_take_over(run, entry))
    run.save_record(record)
    for line in lines:
        emit(f"resume: {line}")
    taken = [entry.gate for entry in found if entry.can_be_taken_over]
    emit(f"resume: {count(len(taken), 'gate')} taken over, {len(again)} proven again before {site.from_gate}")
    scope = [gate for gate in site.gates if gate not in taken]
    return {"gates": scope, "taken_over": taken, "proven_again": [entry.gate for entry in again]}


def _history(store: str | None) -> Store:
    hint = "run without gpufleet_from_gate, or set gpufleet_store to the history of the runs that passed"
    if not store:
        raise InputError("gpufleet_from_gate", "needs a history, and gpufleet_store is empty.", hint)
    place = place_of(store)
    if isinstance(place, Path) and not place.is_file():
        raise NotFoundError(f"history {place}", "no such file, so nothing has passed yet.", hint)
    return open_store(place)


def _freshness(run: Run, store: Store, max_age_days: float, emit: Emit) -> list[GateFreshness]:
    site, record = run.site, run.record
    declared = [run.declaration(gate) for gate in site.before_from_gate]
    # A gate that declares nothing here is run: it costs nothing and says why it is empty.
    wanted = [entry for entry in declared if entry.checks or foreign_suites(site, entry.gate)]
    _look_again(run, wanted, emit)
    context = FreshnessContext(
        site=site,
        state=collect_state(run, tuple(entry.gate for entry in wanted), run_day(record)),
        now=moment_of(record.started),
        max_age_days=max_age_days,
        not_looked_at=DRIVER_FACTS if site.driver_owner is DriverOwner.OPERATOR else (),
    )
    non_passes = store.non_passes(site.name, "", rehearsal=site.rehearsal)
    passes = borne_out(run, store.last_passes(site.name, rehearsal=site.rehearsal), non_passes, emit)
    if not passes:
        known = ", ".join(store.sites(rehearsal=site.rehearsal)) or "none"
        emit(f"resume: {store.path} knows no pass of site {site.name}; sites with a history there: {known}")
    made = {(entry.gate, entry.check) for entry in passes}
    made |= {(entry.gate, entry.outcome.check) for entry in non_passes if entry.outcome is not None}
    needed = {entry.gate: [*_needed(run, entry), *_compared(run, entry.gate, made)] for entry in wanted}
    return [gate_freshness(gate, answers, passes, non_passes, context) for gate, answers in needed.items()]


def _compared(run: Run, gate: str, made: Collection[tuple[str, str]]) -> list[Needed]:
    """Return the comparisons that were made of a gate before: one that found a loss is not taken over with the rest."""
    return [
        Needed(check=entry.spec.id, kind=entry.spec.per, subject=run.site.name)
        for entry in comparisons_of(gate)
        if (gate, entry.spec.id) in made
    ]


def _look_again(run: Run, wanted: Sequence[GatePlan], emit: Emit) -> None:
    """Read the facility record anew; hosts and fabric were looked at by the plays before."""
    context = run.observe_context(run_day(run.record), emit)
    for declaration in wanted:
        if declaration.gate == "facility":
            observe_gate(declaration, context, check_mode=False)


def _needed(run: Run, declaration: GatePlan) -> list[Needed]:
    own = [
        Needed(check=check.id, kind=check.spec.per, subject=subject)
        for check in declaration.checks
        for subject in check.subjects
    ]
    suites = foreign_suites(run.site, declaration.gate)
    return own + [Needed(check=name, kind=SubjectKind.SITE, subject=run.site.name) for name in suites]


def _refuse(from_gate: str, again: Sequence[GateFreshness], policy: str) -> None:
    """Raise if a gate that cannot be taken over may not be proven again."""
    # Gate 8 does not depend on gate 7: what such a gate lacks is proven on the way, and refuses nothing.
    needed = unproven_before((from_gate,))
    refused = [entry for entry in again if entry.gate in needed and not _may_run_again(entry, policy)]
    if not refused:
        return
    # The earliest of all that must run: a run that starts later would prove the others before it.
    first = again[0].gate
    hint = f"start at {first}: -e gpufleet_from_gate={first}, or let what is stale run: -e gpufleet_stale={PROVE}"
    problems: list[BringupError] = [
        InputError(
            f"gate {entry.gate}", f"cannot be taken over: {_because(entry)}.", hint if entry is refused[0] else ""
        )
        for entry in refused
    ]
    raise ProblemsError(f"a start at gate {from_gate}", tuple(problems))


def _may_run_again(entry: GateFreshness, policy: str) -> bool:
    return policy == PROVE or (policy == CHANGED and entry.only_changed)


def _because(entry: GateFreshness, shown: int = 5) -> str:
    reasons = entry.reasons() or ["nothing of it passed by itself"]
    more = [f"and {len(reasons) - shown} more"] if len(reasons) > shown else []
    return "; ".join([*reasons[:shown], *more])


def _stands_line(entry: GateFreshness) -> str:
    over = entry.taken_over
    let_through = f", {len(entry.decided)} let through by a person" if entry.decided else ""
    blind = f"; not looked at again: {', '.join(over.not_looked_at)}" if over.not_looked_at else ""
    return f"{entry.gate} taken over from {over.origin}: {over.results} results{let_through}{blind}"


def _again_lines(again: Sequence[GateFreshness]) -> list[str]:
    return [
        f"{entry.gate} is proven again, {len(entry.stale)} of {len(entry.stale) + len(entry.fresh)} results are stale: "
        f"{_because(entry)}"
        for entry in again
    ]


def _take_over(run: Run, entry: GateFreshness) -> GateVerdict:
    """Write the gate's files, in which every result is skipped and names its pass, and return the verdict."""
    outcomes = _outcomes(run, entry)
    gate = entry.gate
    run.save_outcomes(gate, outcomes)
    declaration = run.declaration(gate)
    line = _stands_line(entry).removeprefix(f"{gate} ")
    return GateVerdict(
        gate=gate,
        status=Status.SKIPPED,
        message=line,
        checks=len(declaration.checks),
        counts={status.value: len(outcomes) if status is Status.SKIPPED else 0 for status in Status},
        waived=entry.decided,
        not_declared=declaration.not_declared,
        taken_over=entry.taken_over,
        key_figure=line,
    )


def _outcomes(run: Run, entry: GateFreshness) -> tuple[Outcome, ...]:
    kinds = {(need.check, need.subject): need.kind for need in _needed(run, run.declaration(entry.gate))}
    kinds |= {(compared.spec.id, run.site.name): compared.spec.per for compared in comparisons_of(entry.gate)}
    rows = [(p.check, p.subject, f"not run: passed in run {p.run_id} at {p.passed}") for p in entry.fresh]
    rows += [(d.check, d.subject, f"not run: {d.cause} let through by {d.who} until {d.until}") for d in entry.decided]
    return tuple(
        Outcome(
            check=check,
            gate=entry.gate,
            status=Status.SKIPPED,
            rating=Rating.UNKNOWN,
            subjects=(_subject(kinds[check, name], name),),
            summary=text,
        )
        for check, name, text in rows
    )


def _subject(kind: SubjectKind, name: str) -> Subject:
    return Subject(kind, name, name if kind is SubjectKind.NODE else "")
