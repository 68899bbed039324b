# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files with a gate's results: where they are, what is in them, and those of gates that were not reached yet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..check.declare import DeclaredCheck
from ..outcome.errors import InputError
from ..outcome.model import Outcome, Rating, Status, Subject, SubjectKind
from ..site.model import Site
from ..verdict.run import RunRecord
from .adopted import read_adopted
from .ctrf import read_suite, write_suite
from .junit import write_junit

LOOKS = "looks"


def ctrf_path(run_dir: Path, gate: str) -> Path:
    """Return where the CTRF suite of that gate is kept."""
    return run_dir / "ctrf" / f"{gate}.json"


def look_path(run_dir: Path, gate: str) -> Path:
    """Return where the run keeps what it read of a gate that it did not reach (run/looking_on.py)."""
    return run_dir / LOOKS / f"{gate}.json"


def junit_path(run_dir: Path, gate: str) -> Path:
    """Return where the JUnit suite of that gate is kept."""
    return run_dir / "junit" / f"{gate}.xml"


def foreign_path(run_dir: Path, gate: str, name: str) -> Path:
    """Return where the run keeps its copy of a third party's suite."""
    return run_dir / "ctrf" / f"{gate}.{name}.json"


def foreign_suites(site: Site, gate: str) -> dict[str, str]:
    """Return the third-party suites declared for a gate: gpufleet_settings.<gate>.ctrf, name to path.

    Raises:
        InputError: the setting is not such a mapping.
    """
    declared: Any = site.settings.get(gate, {}).get("ctrf", {})
    if not isinstance(declared, dict):
        raise InputError(f"gpufleet_settings.{gate}.ctrf", "expected suite names with the paths of their CTRF files.")
    return {str(name): str(path) for name, path in declared.items()}


def read_own_outcomes(run_dir: Path, gate: str) -> tuple[Outcome, ...]:
    """Return the outcomes of this collection's checks as the gate's CTRF file says.

    Raises:
        InputError: the file cannot be read.
    """
    return read_suite(ctrf_path(run_dir, gate), gate)


def read_phase_outcomes(run_dir: Path, phase: str, gates: tuple[str, ...]) -> tuple[Outcome, ...]:
    """Return the outcomes of a phase of a validation, of checks of these gates, as its CTRF file says.

    Raises:
        InputError: the file cannot be read.
    """
    return read_suite(ctrf_path(run_dir, phase), phase, gates)


def read_foreign_outcomes(run_dir: Path, gate: str, site: Site) -> tuple[Outcome, ...]:
    """Return the outcomes of third parties' suites as the run's copies say.

    Raises:
        InputError: a file cannot be read.
    """
    return tuple(
        outcome
        for name in foreign_suites(site, gate)
        for outcome in read_adopted(foreign_path(run_dir, gate, name), gate, name, site.name)
    )


def write_suites(run_dir: Path, gate: str, outcomes: tuple[Outcome, ...], record: RunRecord, version: str) -> None:
    """Write a gate's outcomes as CTRF and as JUnit, each whole or not at all.

    Raises:
        OSError: the directory cannot be written.
    """
    path = ctrf_path(run_dir, gate)
    write_suite(path, gate, outcomes, run_id=record.run_id, rehearsal=record.rehearsal, version=version)
    write_junit(junit_path(run_dir, gate), gate, outcomes, rehearsal=record.rehearsal)


def pending_outcomes(gate: str, checks: Iterable[DeclaredCheck], site: str) -> tuple[Outcome, ...]:
    """Return one pending outcome for each check that a gate declares and that nobody answered yet."""
    return tuple(_pending(gate, check, site) for check in checks)


def _pending(gate: str, check: DeclaredCheck, site: str) -> Outcome:
    count = len(check.subjects)
    expected = f"; to be answered for {count} subject{'s' if count != 1 else ''}" if count else ""
    return Outcome(
        check=check.id,
        gate=gate,
        status=Status.PENDING,
        rating=Rating.UNKNOWN,
        subjects=(Subject(SubjectKind.SITE, site),),
        summary=f"not reached: {check.title}{expected}",
    )
