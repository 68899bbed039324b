# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The few facts of a run that the next AWX workflow node gets (a few hundred bytes)."""

from __future__ import annotations

from typing import Any

from ..outcome.model import Status
from ..verdict.run import all_passed, nothing_holds, run_summary
from .run import Run

# The next node of a workflow gets them as its extra variables.
STATS = (
    "gpufleet_run_id", "gpufleet_verdict", "gpufleet_passed", "gpufleet_exit_code", "gpufleet_was_rehearsal",
    "gpufleet_gates_by_status", "gpufleet_report", "gpufleet_brought_up",
)  # fmt: skip


def run_stats(run: Run) -> dict[str, Any]:
    """Return the verdict, the gates by status (none for a validation), the exit code and the path of the report."""
    record = run.record
    gates = () if record.validates or record.work is not None else record.gates
    page = record.work.page if record.work is not None else ""
    by_status = {status.value: [v.gate for v in gates if v.status is status] for status in Status}
    # Later jobs of a workflow have separate runs; this name stays the same in all of them.
    brought_up = {} if record.validates or record.work is not None else {"gpufleet_brought_up": str(run.path)}
    return {
        **brought_up,
        "gpufleet_run_id": record.run_id,
        "gpufleet_verdict": run_summary(record),
        "gpufleet_passed": all_passed(record),
        "gpufleet_exit_code": 0 if nothing_holds(record) else 8,
        # Not the name of a variable that a run reads.
        "gpufleet_was_rehearsal": record.rehearsal,
        "gpufleet_gates_by_status": {status: gates for status, gates in by_status.items() if gates},
        "gpufleet_report": str(run.path / (page or "report.html")),
    }
