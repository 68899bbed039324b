# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judging a gate from its saved observations and deciding from the CTRF file that is read back."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from ..check.declare import Declaration
from ..check.judge import judge_gate
from ..outcome.errors import BringupError, InputError
from ..outcome.model import Outcome, Status
from ..report.ctrf import read_foreign_suite, read_suite, write_suite
from ..report.headline import headline, load_headlines
from ..report.junit import write_junit
from ..report.run_report import ctrf_path, junit_path
from ..runtime.clock import now_utc
from ..verdict.gate import Blocking, GateVerdict, decide
from ..verdict.run import RunRecord, require_open
from .run import Run
from .verb import collection_root
from .version import collection_version


def run_day(record: RunRecord) -> date:
    """Return the day of the run: decisions of people hold or end by it, also when it is judged again later."""
    return date.fromisoformat(record.started[:10])


def decide_gate(run: Run, gate: str) -> GateVerdict:
    """Judge the gate, write its CTRF and JUnit, decide from the CTRF that is read back, and record the verdict.

    Raises:
        BringupError: the gate is closed, or nothing could be written.
    """
    record = run.record
    require_open(record, gate)
    declaration = run.declaration(gate)
    outcomes = judge_gate(declaration, run.judge_context(gate, run_day(record)), run.path)
    write_suite(
        ctrf_path(run.path, gate),
        gate,
        outcomes,
        run_id=record.run_id,
        rehearsal=record.rehearsal,
        version=collection_version(),
    )
    write_junit(junit_path(run.path, gate), gate, outcomes, rehearsal=record.rehearsal)
    adopt_foreign_suites(run, gate)
    verdict = _timed(verdict_from_files(run, declaration), record)
    run.save_record(replace(record.with_gate(verdict), updated=now_utc()))
    return verdict


def refuse_gate(run: Run, gate: str, problem: str) -> GateVerdict:
    """Record that the gate could not be looked at because what it converges failed, and return that verdict.

    Raises:
        BringupError: the gate is closed.
    """
    record = run.record
    require_open(record, gate)
    entry = Blocking(
        check="converge",
        subject=run.site.name,
        status=Status.OTHER,
        cause="not-converged",
        summary=problem,
        hint="mend what it names and run the gate again",
    )
    verdict = GateVerdict(
        gate=gate, status=Status.OTHER, message=f"gate {gate} is not passed: {problem}", blocking=(entry,)
    )
    run.save_record(replace(record.with_gate(_timed(verdict, record)), updated=now_utc()))
    return verdict


def _timed(verdict: GateVerdict, record: RunRecord) -> GateVerdict:
    begun = datetime.fromisoformat(record.updated.replace("Z", "+00:00"))
    ended = datetime.fromisoformat(now_utc().replace("Z", "+00:00"))
    return replace(verdict, started=record.updated, duration_s=round((ended - begun).total_seconds(), 3))


def verdict_from_files(run: Run, declaration: Declaration) -> GateVerdict:
    """Return the verdict of a gate from its CTRF files; a file that cannot be read decides `other`."""
    gate, site = declaration.gate, run.site
    expected = {check.id: check.subjects for check in declaration.checks}
    expected |= dict.fromkeys(_foreign(run, gate), (site.name,))
    left_out = tuple(f"{entry.id} ({entry.reason})" for entry in declaration.not_declared)
    try:
        outcomes = gate_outcomes(run, gate)
    except InputError as error:
        return _unreadable(gate, error, len(expected), left_out)
    verdict = decide(gate, expected, outcomes, site, run_day(run.record), left_out)
    rules = load_headlines(collection_root() / "recipes" / "headlines.yaml")
    return replace(verdict, headline=headline(rules.get(gate), outcomes))


def gate_outcomes(run: Run, gate: str) -> tuple[Outcome, ...]:
    """Return every outcome of the gate, own and third parties', as its CTRF files say.

    Raises:
        InputError: a file cannot be read.
    """
    own = read_suite(ctrf_path(run.path, gate), gate)
    foreign = [
        outcome
        for name in _foreign(run, gate)
        for outcome in read_foreign_suite(foreign_path(run.path, gate, name), gate, name, run.site.name)
    ]
    return (*own, *foreign)


def _unreadable(gate: str, error: BringupError, checks: int, left_out: tuple[str, ...]) -> GateVerdict:
    entry = Blocking(
        check="ctrf",
        subject=gate,
        status=Status.OTHER,
        cause="results-unreadable",
        summary=f"{error.subject}: {error.reason}",
        hint=error.hint or "run the gate again",
    )
    return GateVerdict(
        gate=gate,
        status=Status.OTHER,
        message=f"gate {gate} is not passed: its results cannot be read back",
        checks=checks,
        blocking=(entry,),
        not_declared=left_out,
    )


def _foreign(run: Run, gate: str) -> dict[str, str]:
    """Return the third-party suites declared for a gate: gpufleet_settings.<gate>.ctrf, name to path."""
    declared: Any = run.site.settings.get(gate, {}).get("ctrf", {})
    if not isinstance(declared, dict):
        raise InputError(f"gpufleet_settings.{gate}.ctrf", "expected suite names with the paths of their CTRF files.")
    return {str(name): str(path) for name, path in declared.items()}


def foreign_path(run_dir: Path, gate: str, name: str) -> Path:
    """Return where the run keeps its copy of a third party's suite."""
    return run_dir / "ctrf" / f"{gate}.{name}.json"


def adopt_foreign_suites(run: Run, gate: str) -> None:
    """Copy declared third-party suites into the run directory. One that is not there is noticed when it is read."""
    for name, source in _foreign(run, gate).items():
        path = Path(source).expanduser()
        if path.is_file():
            shutil.copyfile(path, foreign_path(run.path, gate, name))
