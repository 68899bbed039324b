# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every report of a run, rewritten whole after each gate: the HTML page and the machine-readable summary."""

from __future__ import annotations

from pathlib import Path

from ..outcome.codec import dumps
from ..outcome.errors import InputError
from ..outcome.gates import GATES
from ..outcome.model import Outcome
from ..runtime.files import write_atomic
from ..verdict.run import RunRecord
from .ctrf import read_suite
from .html import render_page


def ctrf_path(run_dir: Path, gate: str) -> Path:
    """Return where the CTRF suite of that gate is kept."""
    return run_dir / "ctrf" / f"{gate}.json"


def junit_path(run_dir: Path, gate: str) -> Path:
    """Return where the JUnit suite of that gate is kept."""
    return run_dir / "junit" / f"{gate}.xml"


def write_report(run_dir: Path, record: RunRecord) -> None:
    """Write report.html and report.json from the record and the gates' CTRF files."""
    outcomes = {gate.id: saved_outcomes(run_dir, gate.id) for gate in GATES}
    write_atomic(run_dir / "report.html", render_page(record, outcomes))
    write_atomic(run_dir / "report.json", dumps(record))


def saved_outcomes(run_dir: Path, gate: str) -> tuple[Outcome, ...]:
    """Return the outcomes in that gate's CTRF file, none if the gate has not written one or it cannot be read."""
    path = ctrf_path(run_dir, gate)
    if not path.is_file():
        return ()
    try:
        return read_suite(path, gate)
    except InputError:
        # The gate's verdict already says that its file is unreadable; the page shows the verdict alone.
        return ()
