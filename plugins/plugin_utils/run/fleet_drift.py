# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The verdict of playbook drift on a cluster: it makes no run, and leaves a report (report/drift_report.py)."""

from __future__ import annotations

import re
from pathlib import Path

from ..outcome.model import Status
from ..verdict.fleet_run import ClusterResult

DRIFT = "drift"
_METRICS = "drift.prom"
_SAMPLE = re.compile(r"^gpufleet_drift_(\w+)(?:\{[^\n]*\})? (\S+)$", re.MULTILINE)
# The report says the time of its start to the millisecond; the clock of the other process is the same one.
_BEFORE_S = 1.0


def drift_result(report: Path, began_s: float, status: int | None) -> ClusterResult:
    """Return how it ended, by its metrics: nothing of importance changed, and everything was compared.

    Args:
        report: the directory of its report.
        began_s: when it was started, seconds since the epoch.
        status: its exit status; None where a signal or the time limit ended it.
    """
    path = report / _METRICS
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    found: dict[str, list[float]] = {}
    for name, value in _SAMPLE.findall(text):
        try:
            found.setdefault(name, []).append(float(value))
        except ValueError:
            text = ""
    written = found.get("timestamp_seconds", [0.0])[0]
    if not text or written < began_s - _BEFORE_S or not {"important", "complete"} <= found.keys():
        ended = "was ended" if status is None else f"ended with status {status}"
        return ClusterResult(status=Status.OTHER, sentence=f"{ended}, and left no report of its own; see its log")
    about = f"; see {report / 'drift.md'}"
    worse, whole = any(found.get("figure_worse", ())), found["complete"] == [1.0]
    if worse or (whole and found["important"] != [0.0]):
        return ClusterResult(status=Status.FAILED, sentence=f"something that matters changed{about}")
    # What could not be looked at may have changed, and counts as important there.
    if not whole:
        return ClusterResult(status=Status.OTHER, sentence=f"not everything could be compared{about}")
    if status != 0:
        return ClusterResult(status=Status.OTHER, sentence=f"ended with status {status}{about}")
    return ClusterResult(status=Status.PASSED, sentence=f"nothing that matters changed{about}")
