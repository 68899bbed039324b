# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Records of earlier releases: they name the subjects of a result only as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from ..outcome.model import Outcome, Subject, names_of
from ..verdict.gate import AppliedDecision, Blocking, GateVerdict
from ..verdict.run import RunRecord

Entry = TypeVar("Entry", Blocking, AppliedDecision)
_Names = dict[tuple[str, str], tuple[Subject, ...]]


def with_subjects(record: RunRecord, outcomes: Mapping[str, tuple[Outcome, ...]]) -> RunRecord:
    """Return the record with the subjects that its results have; `outcomes` are the results by gate id."""
    return replace(record, gates=tuple(_filled(verdict, outcomes.get(verdict.gate, ())) for verdict in record.gates))


def _filled(verdict: GateVerdict, outcomes: tuple[Outcome, ...]) -> GateVerdict:
    known: _Names = {(outcome.check, names_of(outcome.subjects)): outcome.subjects for outcome in outcomes}
    return replace(
        verdict,
        blocking=_all(verdict.blocking, known),
        waived=_all(verdict.waived, known),
        accepted=_all(verdict.accepted, known),
        expired=_all(verdict.expired, known),
    )


def _all(entries: tuple[Entry, ...], known: _Names) -> tuple[Entry, ...]:
    return tuple(
        entry if entry.subjects else replace(entry, subjects=known.get((entry.check, entry.subject), ()))
        for entry in entries
    )
