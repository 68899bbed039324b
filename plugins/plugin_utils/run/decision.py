# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judging a gate from its saved observations and deciding from the CTRF file as read back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

from ..check.comparison.gate import compare_gate
from ..check.declare import GatePlan
from ..check.judge import judge_gate
from ..outcome.errors import BringupError, InputError
from ..outcome.model import Outcome, Status
from ..report.facts import adopt, foreign_path, foreign_suites, key_figure, load_key_figures, read_foreign_outcomes
from ..runtime.clock import now_utc, seconds_since
from ..runtime.files import RECIPES
from ..runtime.interpreter import collector_held
from ..runtime.redaction import redact
from ..site.model import Site
from ..verdict.gate import Blocking, GateVerdict, decide
from ..verdict.run import RunRecord, require_open
from .not_reached import write_refused_suites
from .run import Run


def run_day(record: RunRecord) -> date:
    """Return the day of the run. Decisions of people are valid or expired as of that day, also in a later judgement."""
    return date.fromisoformat(record.started[:10])


def decide_gate(run: Run, gate: str) -> GateVerdict:
    """Judge the gate, write its CTRF and JUnit, decide from the CTRF as read back, and record the verdict.

    Raises:
        BringupError: the gate is closed, or nothing could be written.
    """
    record = run.record
    require_open(record, gate)
    with collector_held():
        declaration = run.declaration(gate)
        run.save_declared(gate, (check.id for check in declaration.checks))
        context = run.judge_context(gate, run_day(record))
        outcomes = judge_gate(declaration, context, run.path)
        run.save_outcomes(gate, (*outcomes, *compare_gate(gate, outcomes, context).outcomes))
        adopt_foreign_suites(run, gate)
        verdict = _timed(verdict_from_files(run, declaration), record)
        run.save_record(replace(record.with_gate(verdict), updated=now_utc()))
    return verdict


def preview_gate(run: Run, gate: str) -> list[str]:
    """Return as lines what check mode found about a gate without a test. Nothing is written."""
    declaration = run.declaration(gate)
    outcomes = judge_gate(declaration, run.judge_context(gate, run_day(run.record)), run.path)
    found = Counter(outcome.status for outcome in outcomes)
    counts = ", ".join(f"{found[status]} {status.value}" for status in Status if found[status])
    failed = [outcome for outcome in outcomes if outcome.status is Status.FAILED]
    return [
        f"not decided; of {len(outcomes)} results without tests: {counts or 'none'}",
        *(f"would fail: {entry.check}: {entry.cause}: {redact(entry.summary)}" for entry in failed[:10]),
    ]


def refuse_gate(run: Run, gate: str, problem: str) -> GateVerdict:
    """Record that the gate was not observed because its converge step failed, and return that verdict.

    Raises:
        BringupError: the gate is closed.
    """
    record = run.record
    require_open(record, gate)
    hint = "fix what it names and run the gate again"
    write_refused_suites(run, gate, problem, hint)
    entry = Blocking(
        check="converge",
        subject=run.site.name,
        status=Status.OTHER,
        cause="not-converged",
        summary=problem,
        hint=hint,
    )
    verdict = GateVerdict(
        gate=gate, status=Status.OTHER, message=f"gate {gate} is not passed: {problem}", blocking=(entry,)
    )
    run.save_record(replace(record.with_gate(_timed(verdict, record)), updated=now_utc()))
    return verdict


def _timed(verdict: GateVerdict, record: RunRecord) -> GateVerdict:
    return replace(verdict, started=record.updated, duration_s=seconds_since(record.updated))


def verdict_from_files(run: Run, declaration: GatePlan) -> GateVerdict:
    """Return the verdict of a gate from its CTRF files; with a file that cannot be read it is `other`."""
    gate = declaration.gate
    try:
        return verdict_of(run, declaration, run.own_outcomes(gate))
    except InputError as error:
        return _unreadable(gate, error, len(_expected(declaration, run.site)), declaration)


def verdict_of(run: Run, declaration: GatePlan, own: tuple[Outcome, ...]) -> GateVerdict:
    """Return the verdict of a gate from these outcomes of its own checks, and from the suites of third parties.

    Raises:
        InputError: the suite of a third party cannot be read.
    """
    gate, site = declaration.gate, run.site
    expected = _expected(declaration, site)
    outcomes = (*own, *read_foreign_outcomes(run.path, gate, site))
    compared = compare_gate(gate, own, run.judge_context(gate, run_day(run.record)))
    expected |= dict.fromkeys(compared.declared, (site.name,))
    left_out = (*declaration.not_declared, *compared.not_declared)
    verdict = decide(gate, expected, outcomes, site, run_day(run.record), left_out)
    rules = load_key_figures(RECIPES / "key_figures.yaml")
    return replace(verdict, key_figure=verdict.key_figure or key_figure(rules.get(gate), outcomes))


def _expected(declaration: GatePlan, site: Site) -> dict[str, tuple[str, ...]]:
    """Return by check, and by third-party suite, the subjects that each need a result."""
    own = {check.id: check.subjects for check in declaration.checks}
    return own | dict.fromkeys(foreign_suites(site, declaration.gate), (site.name,))


def _unreadable(gate: str, error: BringupError, checks: int, declaration: GatePlan) -> GateVerdict:
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
        not_declared=declaration.not_declared,
    )


def adopt_foreign_suites(run: Run, gate: str) -> None:
    """Copy declared third-party suites into the run directory. A missing one is reported when it is read."""
    for name, source in foreign_suites(run.site, gate).items():
        adopt(Path(source).expanduser(), foreign_path(run.path, gate, name), run.record)
