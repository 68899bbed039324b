# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A saved run judged again as a user asks for it, and a second time by other settings where some are stated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..outcome.codec import to_plain
from ..report.console import decided_table
from ..runtime.progress import Emit
from ..verdict.run import RunRecord, nothing_holds, run_summary
from .rejudge import rejudge, rewrite_reports
from .run import Run
from .settings_sources import merged_settings
from .what_if import Change, changed_settings, changed_thresholds, what_if


def judge_run(run: Run, options: Mapping[str, Any], emit: Emit, *, write: bool) -> dict[str, Any]:
    """Return the verdicts of a saved run as computed now, and tell them; `passed` says whether nothing holds it.

    Args:
        run: the saved run.
        options: those of module judge (settings, set, thresholds, recipe_data, what_if_dir).
        emit: takes a line for people.
        write: write the reports again, and a what-if; what was observed and recorded stays in any case.

    Raises:
        BringupError: the run cannot be read, or settings are wrong.
    """
    record, differences = rejudge(run)
    changed, warnings = _rewritten(run, record, differences) if write else (False, [])
    notes = [f"note: {text}" for text in record.notes if text not in run.record.notes]
    told = [*decided_table(record), *(f"differs: {text}" for text in differences), *notes, run_summary(record)]
    for line in told:
        emit(line)
    emit(f"report: {run.path / 'report.html'}")
    passed = nothing_holds(record)
    result = {
        "changed": changed,
        "verdict": run_summary(record),
        "gates": to_plain(record.gates),
        "phases": to_plain(record.phases),
        "differences": differences,
        "exit_code": 0 if passed else 8,
    }
    if warnings:
        result["warnings"] = warnings
    second = _second(run, options, emit, write=write)
    if second:
        result["what_if"] = second
    return result | {"passed": passed}


def _second(run: Run, options: Mapping[str, Any], emit: Emit, *, write: bool) -> dict[str, Any]:
    """Judge by other settings, if any are stated, and show that as a second verdict; the first one stays."""
    changes = _changes(run, options, emit)
    for change in (change for change in changes if not change.applies):
        emit(f"what if: {change} is not applied: it says how to look, and this run has looked already")
    applied = [change for change in changes if change.applies]
    if not applied:
        return {}
    if not write:
        emit("what if: not judged in check mode, because it writes a directory")
        return {}
    given = options["what_if_dir"]
    found = what_if(run, applied, Path(given) if given else None)
    lines = decided_table(found.record)
    for line in ["", "WHAT IF", *lines, *(f"changes: {text}" for text in found.results), run_summary(found.record)]:
        emit(line)
    emit(f"report: {found.run_dir / 'report.html'}")
    return {
        "verdict": run_summary(found.record),
        "gates": to_plain(found.record.gates),
        "settings": [str(change) for change in applied],
        "results": list(found.results),
        "run_dir": str(found.run_dir),
    }


def _changes(run: Run, options: Mapping[str, Any], emit: Emit) -> tuple[Change, ...]:
    stated = changed_settings(run, merged_settings(options["settings"], options["set"], {}))
    thresholds = changed_thresholds(run, options["recipe_data"])
    if options["thresholds"] == "current":
        mine = {(change.key, change.name) for change in stated}
        return (*(change for change in thresholds if (change.key, change.name) not in mine), *stated)
    if thresholds:
        names = ", ".join(f"{change.key}.{change.name}" for change in thresholds)
        emit(f"thresholds are not those of the run: {names}; judge by them: -e gpufleet_thresholds=current")
    return stated


def _rewritten(run: Run, record: RunRecord, differences: list[str]) -> tuple[bool, list[str]]:
    """Write the reports again; an archive that cannot be written is judged all the same."""
    try:
        return rewrite_reports(run, record, differences), []
    except OSError as error:
        return False, [f"the reports of {run.path} are not written again: {error.strerror}"]
