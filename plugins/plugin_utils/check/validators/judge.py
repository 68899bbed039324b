# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Outcomes of validators from their saved runs; a run that cannot be read back is unknown, never a pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ...outcome.codec import from_plain
from ...outcome.errors import BringupError
from ...outcome.model import NOT_OBSERVED, Outcome, Rating, Status, Subject, SubjectKind
from ..observation import saved_observation
from .catalog import ValidatorImage
from .contract import ValidatorRun, judge_run, key_of, log_path


def validator_outcomes(
    validators: Iterable[ValidatorImage], phase: str, run_dir: Path, site: str, gate: str
) -> tuple[Outcome, ...]:
    """Return one outcome for each validator of a phase."""
    return tuple(_outcome(validator, phase, run_dir, site, gate) for validator in validators)


def _outcome(validator: ValidatorImage, phase: str, run_dir: Path, site: str, gate: str) -> Outcome:
    try:
        observed = saved_observation(run_dir, phase, key_of(validator))
        if observed.error is not None:
            return _unknown(
                validator,
                site,
                gate,
                f"{observed.error['subject']}: {observed.error['reason']}",
                observed.error["hint"],
            )
        run = from_plain(ValidatorRun, observed.data, f"observation {observed.key}")
    except BringupError as error:
        return _unknown(validator, site, gate, f"{error.subject}: {error.reason}", error.hint)
    outcome = judge_run(validator, run, site, gate, log_path(phase, validator.name))
    return replace(outcome, started=observed.started, duration_s=run.duration_s)


def _unknown(validator: ValidatorImage, site: str, gate: str, text: str, hint: str) -> Outcome:
    return Outcome(
        check=validator.name,
        gate=gate,
        status=Status.OTHER,
        rating=Rating.UNKNOWN,
        subjects=(Subject(SubjectKind.SITE, site),),
        summary=f"not known: {text}"[:600],
        cause=NOT_OBSERVED,
        hint=hint or "run the phase again",
    )
