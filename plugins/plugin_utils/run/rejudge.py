# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judging a saved run again: from its observations to outcomes, and from its CTRF files to verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..check.comparison.gate import compare_gate
from ..check.declare import Declaration
from ..check.judge import judge_gate
from ..check.selection import PhaseDeclaration
from ..outcome.errors import BringupError, InputError
from ..outcome.model import Outcome, Status, Subject, names_of
from ..outcome.phases import PHASE_GATES
from ..report.junit import write_junit
from ..report.run_report import REPORTS
from ..report.suites import ctrf_path, foreign_suites, junit_path, read_phase_outcomes
from ..runtime.run_dir import DECLARED
from ..site.model import Site
from ..verdict.gate import GateVerdict, NotDeclared
from ..verdict.run import RunRecord, is_decided
from .asked import asked_of
from .cycle_suite import cycle_outcomes, cycle_verdict
from .decision import run_day, verdict_of
from .digests import NONE_KEPT, changed_files, has_digests
from .first_checks import FIRST_CHECKS
from .own_limits import own_limits
from .record_again import record_differences
from .rehearsed import signs_of_rehearsal
from .run import Run
from .validation import declared_phase, phase_outcomes, phase_verdict

_Key = tuple[str, tuple[Subject, ...]]


def rejudge(run: Run) -> tuple[RunRecord, list[str]]:
    """Return the run's record as computed now, and every difference to what was recorded then.

    Raises:
        InputError: the directory holds a what-if.
    """
    record = run.record
    if record.what_if:
        raise InputError(
            str(run.path), "is a what-if, nothing that was recorded.", "judge the run that it was made from"
        )
    differences = [*changed_files(run.path, record), *record_differences(run)]
    for recorded in record.gates:
        if recorded.status is Status.PENDING:
            continue
        if recorded.taken_over is not None:
            differences.extend(_not_as_taken_over(run, recorded))
            continue
        try:
            verdict, changed = _again(run, recorded)
        except BringupError as error:
            verdict = replace(
                recorded, status=Status.OTHER, message=f"gate {recorded.gate} is not passed: {error.reason}"
            )
            changed = [f"gate {recorded.gate}: {error}"]
        differences.extend(changed)
        record = record.with_gate(verdict)
    for recorded in record.phases:
        if recorded.status is not Status.PENDING:
            verdict, changed = _phase_again(run, recorded)
            differences.extend(changed)
            record = record.with_phase(verdict)
    try:
        limits = own_limits(run) if is_decided(record) else record.own_limits
    except BringupError as error:
        limits, differences = record.own_limits, [*differences, str(error)]
    notes = record.notes if has_digests(record) or not is_decided(record) else (*record.notes, NONE_KEPT)
    rehearsal = record.rehearsal or bool(signs_of_rehearsal(run.path, record))
    record = replace(record, rehearsal=rehearsal, notes=notes, unconfirmed=len(differences), own_limits=limits)
    return record, differences


def _phase_again(run: Run, recorded: GateVerdict) -> tuple[GateVerdict, list[str]]:
    """Return a phase's verdict as computed now, and every difference to what was recorded."""
    phase = recorded.gate
    try:
        if phase not in PHASE_GATES:
            written, judged = read_phase_outcomes(run.path, phase, (phase,)), cycle_outcomes(run, phase)
            verdict = cycle_verdict(run, phase, judged, recorded.message)
        else:
            declaration, written = _phase_then(run, recorded)
            judged = phase_outcomes(run, declaration)
            verdict = phase_verdict(run, declaration, judged)
        changed = changed_results(phase, written, judged)
    except BringupError as error:
        text = f"phase {phase} is not passed: {error.reason}"
        return replace(recorded, status=Status.OTHER, message=text), [f"phase {phase}: {error}"]
    return _as_confirmed("phase", recorded, verdict, changed)


def _phase_then(run: Run, recorded: GateVerdict) -> tuple[PhaseDeclaration, tuple[Outcome, ...]]:
    """Return what a phase declared when it was judged (see declaration_then), and the results that it left."""
    declaration = declared_phase(run, asked_of(run), recorded.gate)
    written = read_phase_outcomes(run.path, recorded.gate, declaration.gates)
    known = {outcome.check for outcome in written}
    if has_digests(run.record):
        known = set(_declared_then(run, recorded.gate))
    elif len({outcome.check for outcome in written if outcome.status is not Status.SKIPPED}) != recorded.checks:
        return declaration, written
    return declaration.without_newer(known), written


def _as_confirmed(
    what: str, recorded: GateVerdict, computed: GateVerdict, changed: list[str]
) -> tuple[GateVerdict, list[str]]:
    """Return the verdict as computed, which opens nothing where its results are not those that were recorded."""
    name = recorded.gate
    if computed.status is not recorded.status:
        changed = [*changed, f"{what} {name}: recorded {recorded.status.value}, computed {computed.status.value}"]
    if changed and computed.opens_next:
        text = f"{what} {name} is not passed: {len(changed)} recorded result(s) cannot be confirmed"
        computed = replace(computed, status=Status.OTHER, message=text, key_figure="")
    return replace(computed, started=recorded.started, duration_s=recorded.duration_s), changed


def rewrite_reports(run: Run, record: RunRecord, differences: Sequence[str]) -> bool:
    """Write every report of the run again, as judged now, and return whether one of them changed.

    What the run observed and recorded stays as it is: observations, CTRF files and run.json.

    Raises:
        OSError: the directory cannot be written.
    """
    paths = [run.path / name for name in REPORTS]
    paths += [junit_path(run.path, verdict.gate) for verdict in record.gates]
    before = [path.read_bytes() if path.is_file() else b"" for path in paths]
    for verdict in record.gates:
        if ctrf_path(run.path, verdict.gate).is_file():
            _rewrite_junit(run, verdict.gate, rehearsal=record.rehearsal)
    run.write_report(record, tuple(differences))
    return before != [path.read_bytes() if path.is_file() else b"" for path in paths]


def _rewrite_junit(run: Run, gate: str, *, rehearsal: bool) -> None:
    try:
        outcomes = run.own_outcomes(gate)
    except BringupError:
        # The page says that the file cannot be read; what JUnit says of it is left alone.
        return
    write_junit(junit_path(run.path, gate), gate, outcomes, rehearsal=rehearsal)


def _not_as_taken_over(run: Run, recorded: GateVerdict) -> list[str]:
    """Return what the file of a gate that was not run says beyond that. The passes are judged in their own runs."""
    try:
        written = run.own_outcomes(recorded.gate)
    except InputError as error:
        return [f"gate {recorded.gate}: {error}"]
    wrong = sum(outcome.status is not Status.SKIPPED for outcome in written)
    text = f"gate {recorded.gate}: taken over, and yet {wrong} of {len(written)} results are not skipped"
    return [text] if wrong or len(written) != recorded.counts.get(Status.SKIPPED.value) else []


def _again(run: Run, recorded: GateVerdict) -> tuple[GateVerdict, list[str]]:
    gate = recorded.gate
    declaration, judged = declaration_then(run, gate), judged_again(run, gate)
    changed = [*changed_results(gate, run.own_outcomes(gate), judged), *_failing_without_results(run, gate)]
    return _as_confirmed("gate", recorded, verdict_of(run, declaration, judged), changed)


def declaration_then(run: Run, gate: str) -> Declaration:
    """Return what the gate declared when it was judged: without the checks that are newer than the run.

    The run wrote that down (declared.json). Of a release that did not, a check without a result is newer only if the
    run recorded just as many checks as there are results of: else the results of a check were removed since.
    """
    declaration, recorded = run.declaration(gate), run.record.gate(gate)
    if has_digests(run.record):
        known = set(_declared_then(run, gate))
    else:
        known = {outcome.check for outcome in run.own_outcomes(gate)}
        if len(known) + len(foreign_suites(run.site, gate)) != recorded.checks:
            return declaration
    newer = tuple(
        NotDeclared(id=check.id, title=check.title, reason="the check is newer than the run")
        for check in declaration.checks
        if check.id not in known
    )
    kept = tuple(check for check in declaration.checks if check.id in known)
    return replace(declaration, checks=kept, not_declared=(*declaration.not_declared, *newer))


def _declared_then(run: Run, gate: str) -> list[str]:
    """Return the checks that a gate or phase declared when it was judged.

    Raises:
        InputError: the run does not say.
    """
    declared = (run.declared or {}).get(gate)
    if declared is None:
        raise InputError(
            str(run.path / DECLARED), f"does not say what {gate} declared, and its release wrote it.", "run it again"
        )
    return declared


def _failing_without_results(run: Run, gate: str) -> list[str]:
    """Return the checks that fail on what was observed and of which there is no result, in a run that did not write
    down what it declared: its release had these checks, so somebody took the results out."""
    if has_digests(run.record):
        return []
    kept = {check.id for check in declaration_then(run, gate).checks}
    whole = run.declaration(gate)
    left = replace(whole, checks=tuple(c for c in whole.checks if c.id in FIRST_CHECKS and c.id not in kept))
    if not left.checks:
        return []
    found = judge_gate(left, run.judge_context(gate, run_day(run.record)), run.path)
    return changed_results(gate, (), tuple(outcome for outcome in found if outcome.status is Status.FAILED))


def judged_again(run: Run, gate: str, site: Site | None = None) -> tuple[Outcome, ...]:
    """Return what the judges of a gate say of its saved observations now; `site` if it is not the run's own."""
    context = run.judge_context(gate, run_day(run.record))
    if site is not None:
        context = replace(context, site=site)
    outcomes = judge_gate(declaration_then(run, gate), context, run.path)
    return (*outcomes, *compare_gate(gate, outcomes, context).outcomes)


def changed_results(
    gate: str,
    written: tuple[Outcome, ...],
    judged: tuple[Outcome, ...],
    words: tuple[str, str] = ("recorded", "computed"),
) -> list[str]:
    """Return a line for each check and subject of which the two say different things; `words` call them so."""
    then, now = _by_subjects(written), _by_subjects(judged)
    return [
        f"{gate}: {check} on {names_of(subjects)}: {words[0]} {_word(then, key)}, {words[1]} {_word(now, key)}"
        for key in sorted(then.keys() | now.keys())
        if then.get(key) != now.get(key)
        for check, subjects in [key]
    ]


def _by_subjects(outcomes: tuple[Outcome, ...]) -> dict[_Key, list[tuple[str, str]]]:
    found: dict[_Key, list[tuple[str, str]]] = {}
    for outcome in outcomes:
        found.setdefault((outcome.check, outcome.subjects), []).append((outcome.status.value, outcome.cause))
    return found


def _word(found: dict[_Key, list[tuple[str, str]]], key: _Key) -> str:
    return ", ".join(f"{status} {cause}".strip() for status, cause in found.get(key, [])) or "nothing"
