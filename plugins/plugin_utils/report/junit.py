# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""JUnit XML of a gate, for CI systems: written with junitparser from the same outcomes as the CTRF suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..outcome.model import Outcome, Status, names_of
from ..runtime.files import write_atomic
from ..runtime.text import visible


def write_junit(path: Path, gate: str, outcomes: Sequence[Outcome], *, rehearsal: bool) -> None:
    """Write the outcomes of a gate as one JUnit suite. `other` is an error; skipped and pending are skips."""
    from junitparser import JUnitXml, TestSuite

    suite = TestSuite(f"REHEARSAL {gate}" if rehearsal else gate)
    suite.add_property("rehearsal", str(rehearsal).lower())
    # All at once: one by one, everything is counted again each time.
    suite.add_testcases([_case(outcome) for outcome in outcomes])
    document = JUnitXml()
    document.add_testsuite(suite)
    xml: bytes = document.tostring()  # type: ignore[no-untyped-call]
    write_atomic(path, xml.decode("utf-8"))


def _case(outcome: Outcome) -> Any:
    from junitparser import Error, Failure, Skipped, TestCase

    names = names_of(outcome.subjects)
    case = TestCase(visible(f"{outcome.check} [{names}]"), outcome.gate, outcome.duration_s)
    kind = {Status.FAILED: Failure, Status.OTHER: Error, Status.SKIPPED: Skipped, Status.PENDING: Skipped}.get(
        outcome.status
    )
    if kind is not None:
        reported = f"{outcome.cause}: {outcome.summary}" if outcome.cause else outcome.summary
        # XML has no place for control characters, escaped or not: one would make the whole file unreadable.
        case.result = [kind(visible(reported), outcome.cause)]
    return case
