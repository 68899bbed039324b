# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Comparison of the passes in a history with the run directories. A history is a plain file without a signature: an
edited word makes a rehearsal's pass a real one, a removed row makes a failure unknown. The files of the runs, where
they are still there, are evidence: they can only take passes away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..check.comparison.specs import comparisons_of
from ..check.declare import GatePlan
from ..fingerprint.dependencies import DRIVER_FACTS
from ..outcome.errors import BringupError, InputError, NotFoundError, ProblemsError
from ..outcome.model import Outcome, Rating, Status, Subject, SubjectKind
from ..outcome.wording import count
from ..report.facts import ctrf_path, foreign_suites
from ..runtime.clock import moment_of
from ..runtime.files import RUN
from ..runtime.progress import Emit
from ..site.model import DriverOwner
from ..store.database import place_of
from ..store.freshness import FreshnessContext, GateFreshness, Needed, gate_freshness
from ..store.history import Store, open_store
from ..store.records import NonPass, Pass
from ..verdict.gate import GateVerdict
from ..verdict.run import unproven_before
from .decision import run_day
from .observing import observe_gate
from .rehearsed import signs_of_rehearsal
from .run import Run
from .site_state import collect_state

# Check and subject of a gate.
_Answer = tuple[str, str]


def borne_out(run: Run, passes: Sequence[Pass], non_passes: Sequence[NonPass], emit: Emit) -> list[Pass]:
    """Return the passes that the files of runs confirm, with the time in these files.

    A pass is left out if its own run does not have it, or if a later run of the same site did not pass the same check
    for the same subject, whether or not the history has that.

    Args:
        run: the run that would take them over; runs beside it are read.
        passes: those of the history.
        non_passes: results in the history that were no pass.
        emit: gets a line for each run that takes passes away and is not in the history as such.
    """
    kept = _of_their_runs(run, passes, emit)
    if not kept:
        return []
    known = {(entry.run_id, entry.gate) for entry in non_passes}
    gone: set[int] = set()
    reported: Counter[tuple[str, str]] = Counter()
    for name, gate, when, bad in _later_failures(run, kept, emit):
        mine = {
            number
            for number, entry in enumerate(kept)
            if entry.gate == gate and _is_about(bad, entry) and _is_before(entry.passed, when)
        }
        reported[name, gate] += len(mine - gone)
        gone |= mine
    for (name, gate), number in reported.items():
        if number and (name, gate) not in known:
            emit(f"resume: {count(number, 'earlier result')} of {gate} do not count: not passed since in run {name}")
    return [entry for number, entry in enumerate(kept) if number not in gone]


def _of_their_runs(run: Run, passes: Sequence[Pass], emit: Emit) -> list[Pass]:
    """Return the passes that their own runs have, with the time in these; all passes of a run whose files are gone."""
    paths = {entry.run_id: run.path.parent / entry.run_id for entry in passes}
    earlier = {name: path for name, path in paths.items() if (path / RUN).is_file()}
    why = {name: _otherwise(run, path) for name, path in sorted(earlier.items())}
    for name, text in why.items():
        if text:
            emit(f"resume: passes of run {name} do not count: {text}")
    results = {
        (name, gate): _passed(earlier[name], gate)
        for name, gate in dict.fromkeys((entry.run_id, entry.gate) for entry in passes)
        if name in earlier and not why[name]
    }
    kept = []
    for entry in passes:
        found = results.get((entry.run_id, entry.gate))
        if why.get(entry.run_id) or (found is not None and (entry.check, entry.subject) not in found):
            continue
        reported = [entry.passed, *([found[entry.check, entry.subject]] if found else [])]
        try:
            kept.append(replace(entry, passed=min(reported, key=moment_of)))
        except ValueError:
            emit(f"resume: a pass of {entry.check} in run {entry.run_id} does not count: {entry.passed!r} is no time")
    return kept


def _otherwise(run: Run, path: Path) -> str:
    """Return how the files of an earlier run contradict the history: its site, or its kind."""
    record = Run(path).record
    if record.site != run.site.name:
        return f"it is one of site {record.site}"
    signs = signs_of_rehearsal(path, record)
    if run.site.rehearsal or not (record.rehearsal or signs):
        return ""
    return f"it is a rehearsal{f' ({signs[0]})' if signs else ''}"


def _passed(path: Path, gate: str) -> dict[_Answer, str] | None:
    """Return when which check passed for which subject in a run, by its own results; None where it has none."""
    if not ctrf_path(path, gate).is_file():
        return None
    found = Run(path)
    return {
        (outcome.check, outcome.subjects[0].name): _when(found, gate, outcome)
        for outcome in found.outcomes(gate)
        if outcome.status is Status.PASSED
    }


def _when(run: Run, gate: str, outcome: Outcome | None = None) -> str:
    record = run.record
    return (outcome.started if outcome else "") or record.gate(gate).started or record.started


def _later_failures(run: Run, passes: Sequence[Pass], emit: Emit) -> Iterator[tuple[str, str, str, Outcome | None]]:
    """Yield run, gate, time and outcome of each result that is no pass, of runs beside this one, since the oldest pass.

    Where the results cannot be read there is no outcome, and it is about the whole gate.
    """
    gates = dict.fromkeys(entry.gate for entry in passes)
    oldest = min(moment_of(entry.passed) for entry in passes).timestamp()
    for path in sorted(run.path.parent.iterdir()):
        file = path / RUN
        if path == run.path or path.is_symlink() or not file.is_file() or file.stat().st_mtime < oldest:
            continue
        other = Run(path)
        try:
            record = other.record
            foreign = _otherwise(run, path) or (run.site.rehearsal and not record.rehearsal)
        except BringupError as error:
            emit(f"resume: nothing is known of run {path.name}: {error.subject}: {error.reason}")
            continue
        for gate in () if foreign else gates:
            if record.gate(gate).taken_over is None and ctrf_path(path, gate).is_file():
                yield from ((path.name, gate, *found) for found in _failures(other, gate))


def _failures(run: Run, gate: str) -> Iterator[tuple[str, Outcome | None]]:
    try:
        outcomes = run.outcomes(gate)
    except BringupError:
        yield _when(run, gate), None
        return
    for outcome in outcomes:
        if outcome.status in (Status.FAILED, Status.OTHER):
            yield _when(run, gate, outcome), outcome


def _is_before(passed: str, when: str) -> bool:
    """Whether a pass is older than a failure; a failure without a readable time counts as the newer one."""
    try:
        return moment_of(passed) < moment_of(when)
    except ValueError:
        return True


def _is_about(outcome: Outcome | None, entry: Pass) -> bool:
    """Whether a result that is no pass is about the subject of the pass."""
    if outcome is None:
        return True
    names = {name for subject in outcome.subjects for name in (subject.name, subject.node)}
    return outcome.check == entry.check and entry.subject in names


# What may be proven again on the way: only what changed since it passed, or everything that is stale; else nothing.
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
    # A gate that declares nothing here is run: it costs nothing and reports why it is empty.
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
    """Return the comparisons that a gate made before: one with a loss is not taken over with the rest."""
    return [
        Needed(check=entry.spec.id, kind=entry.spec.per, subject=run.site.name)
        for entry in comparisons_of(gate)
        if (gate, entry.spec.id) in made
    ]


def _look_again(run: Run, wanted: Sequence[GatePlan], emit: Emit) -> None:
    """Read the facility record anew; hosts and fabric were read by the plays before."""
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
