# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What comes after a run that is not passed: the gates that nobody looked at, and how to start again. Pure."""

from __future__ import annotations

from ..outcome.model import Status
from .corrected_command import without_faults, without_mistakes
from .run import RunRecord, can_open

VARIABLE = "gpufleet_from_gate"


def not_looked_at(record: RunRecord) -> tuple[str, ...]:
    """Return the gates in scope that stay pending because one that they depend on is not passed."""
    if record.work is not None:
        return ()
    pending = (gate for gate in record.scope if record.gate(gate).status is Status.PENDING)
    return tuple(gate for gate in pending if not can_open(record, gate))


def restart(record: RunRecord) -> str:
    """Return how to start the run again at its first gate that is not passed, empty if there is none.

    It is the command line of the run. Where that is not known, as in AWX, it is the variable to set. A start at a
    gate needs the passes of the gates before it, so without a history the run starts where it started.
    """
    if record.work is not None and not record.problem:
        if record.work.passed or record.work.again is None or record.check_mode:
            return ""
        return _command(record, record.work.again)
    held = [gate for gate in record.scope if _held(record, gate)]
    if not held and not record.problem:
        return ""
    gate = record.from_gate if not held else held[0] if record.history and held[0] != record.scope[0] else ""
    return _command(record, f"{VARIABLE}={gate}" if gate else "")


def _command(record: RunRecord, assignment: str) -> str:
    if not record.command:
        return f"launch it with {assignment}" if assignment else "launch it once more"
    problem = record.problem
    command = without_mistakes(record.command, problem) if problem else without_faults(record.command)
    return f"{command} -e {assignment}" if assignment else command


def _held(record: RunRecord, gate: str) -> bool:
    verdict = record.gate(gate)
    return verdict.status is not Status.PENDING and not verdict.opens_next
