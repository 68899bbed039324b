# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run leaves for what it did not reach: a problem that kept it from starting, as its report shows it, and result
files of gates that were not reached, so that a collector of the files sees what was not proven."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ..outcome.errors import BringupError
from ..outcome.model import Outcome, Rating, Status, Subject, SubjectKind
from ..report.facts import pending_outcomes
from ..runtime.files import SUMMARY
from .run import Run


@contextmanager
def problem_recorded(run: Run) -> Iterator[None]:
    """Write a problem that keeps the run from starting into its report, and raise it again."""
    try:
        yield
    except BringupError as error:
        run.save_record(replace(run.record, problem=str(error)))
        error.told_in = str(run.path / SUMMARY)
        raise


def write_pending_suites(run: Run) -> None:
    """Write the suites of every gate in scope that did not run yet: one pending test for each declared check."""
    record = run.record
    if record.check_mode or record.work is not None:
        # A collector of result files gets none of gates that the run does not decide.
        return
    for gate in record.scope:
        if record.gate(gate).status is Status.PENDING:
            _write(run, gate, ())


def write_refused_suites(run: Run, gate: str, problem: str, hint: str) -> None:
    """Write the suites of a gate that was not observed because its converge step failed."""
    refused = Outcome(
        check="converge",
        gate=gate,
        status=Status.OTHER,
        rating=Rating.UNKNOWN,
        subjects=(Subject(SubjectKind.SITE, run.site.name),),
        summary=problem,
        cause="not-converged",
        hint=hint,
    )
    _write(run, gate, (refused,))


def _write(run: Run, gate: str, before: tuple[Outcome, ...]) -> None:
    try:
        pending = pending_outcomes(gate, run.declaration(gate).checks, run.site.name)
    except BringupError:
        # No check of this release belongs to that gate: there is nothing that could be pending.
        pending = ()
    run.save_outcomes(gate, (*before, *pending))
