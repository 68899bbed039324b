# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What run directories say of the passes in a history. A history is a plain file and nothing signs it: a word makes a
rehearsal's pass a real one, a row that is gone makes a failure unknown. The files of the runs, where they are still
there, are witnesses: they can only take passes away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..outcome.errors import BringupError
from ..outcome.model import Outcome, Status
from ..outcome.wording import count
from ..report.facts import ctrf_path
from ..runtime.clock import moment_of
from ..runtime.files import RUN
from ..runtime.progress import Emit
from ..store.records import NonPass, Pass
from .rehearsed import signs_of_rehearsal
from .run import Run

# Check and subject of a gate.
_Answer = tuple[str, str]


def borne_out(run: Run, passes: Sequence[Pass], non_passes: Sequence[NonPass], emit: Emit) -> list[Pass]:
    """Return the passes that the files of runs bear out, as old as these say.

    Left out is a pass that its own run does not have, and one after which a run of the same site did not pass the same
    check for the same subject, whether or not the history has that.

    Args:
        run: the run that would take them over; runs beside it are looked at.
        passes: those of the history.
        non_passes: what the history says of results that were no pass.
        emit: gets a line for each run that takes passes away and of which the history does not say so.
    """
    kept = _of_their_runs(run, passes, emit)
    if not kept:
        return []
    known = {(entry.run_id, entry.gate) for entry in non_passes}
    gone: set[int] = set()
    told: Counter[tuple[str, str]] = Counter()
    for name, gate, when, bad in _later_failures(run, kept, emit):
        mine = {
            number
            for number, entry in enumerate(kept)
            if entry.gate == gate and _is_about(bad, entry) and _is_before(entry.passed, when)
        }
        told[name, gate] += len(mine - gone)
        gone |= mine
    for (name, gate), number in told.items():
        if number and (name, gate) not in known:
            emit(f"resume: {count(number, 'earlier result')} of {gate} do not count: not passed since in run {name}")
    return [entry for number, entry in enumerate(kept) if number not in gone]


def _of_their_runs(run: Run, passes: Sequence[Pass], emit: Emit) -> list[Pass]:
    """Return the passes that their own runs have, with the time that these say; all of a run whose files are gone."""
    paths = {entry.run_id: run.path.parent / entry.run_id for entry in passes}
    earlier = {name: path for name, path in paths.items() if (path / RUN).is_file()}
    why = {name: _otherwise(run, path) for name, path in sorted(earlier.items())}
    for name, text in why.items():
        if text:
            emit(f"resume: passes of run {name} do not count: {text}")
    results = {
        (name, gate): _passed(earlier[name], gate)
        for name, gate in dict.fromkeys((entry.run_id, entry.gate) for entry in passes)
        if name in earlier and not why[name]
    }
    kept = []
    for entry in passes:
        found = results.get((entry.run_id, entry.gate))
        if why.get(entry.run_id) or (found is not None and (entry.check, entry.subject) not in found):
            continue
        said = [entry.passed, *([found[entry.check, entry.subject]] if found else [])]
        try:
            kept.append(replace(entry, passed=min(said, key=moment_of)))
        except ValueError:
            emit(f"resume: a pass of {entry.check} in run {entry.run_id} does not count: {entry.passed!r} is no time")
    return kept


def _otherwise(run: Run, path: Path) -> str:
    """Return how the files of an earlier run contradict what the history says of it: its site, or its kind."""
    record = Run(path).record
    if record.site != run.site.name:
        return f"it is one of site {record.site}"
    signs = signs_of_rehearsal(path, record)
    if run.site.rehearsal or not (record.rehearsal or signs):
        return ""
    return f"it is a rehearsal{f' ({signs[0]})' if signs else ''}"


def _passed(path: Path, gate: str) -> dict[_Answer, str] | None:
    """Return which check passed for which subject in a run by its own results, and when; None where it has none."""
    if not ctrf_path(path, gate).is_file():
        return None
    found = Run(path)
    return {
        (outcome.check, outcome.subjects[0].name): _when(found, gate, outcome)
        for outcome in found.outcomes(gate)
        if outcome.status is Status.PASSED
    }


def _when(run: Run, gate: str, outcome: Outcome | None = None) -> str:
    record = run.record
    return (outcome.started if outcome else "") or record.gate(gate).started or record.started


def _later_failures(run: Run, passes: Sequence[Pass], emit: Emit) -> Iterator[tuple[str, str, str, Outcome | None]]:
    """Yield run, gate, time and outcome of what runs beside this one did not pass, written since the oldest pass;
    without an outcome, because nobody can read the results, it is about the whole gate."""
    gates = dict.fromkeys(entry.gate for entry in passes)
    oldest = min(moment_of(entry.passed) for entry in passes).timestamp()
    for path in sorted(run.path.parent.iterdir()):
        file = path / RUN
        if path == run.path or path.is_symlink() or not file.is_file() or file.stat().st_mtime < oldest:
            continue
        other = Run(path)
        try:
            record = other.record
            foreign = _otherwise(run, path) or (run.site.rehearsal and not record.rehearsal)
        except BringupError as error:
            emit(f"resume: nothing is known of run {path.name}: {error.subject}: {error.reason}")
            continue
        for gate in () if foreign else gates:
            if record.gate(gate).taken_over is None and ctrf_path(path, gate).is_file():
                yield from ((path.name, gate, *found) for found in _failures(other, gate))


def _failures(run: Run, gate: str) -> Iterator[tuple[str, Outcome | None]]:
    try:
        outcomes = run.outcomes(gate)
    except BringupError:
        yield _when(run, gate), None
        return
    for outcome in outcomes:
        if outcome.status in (Status.FAILED, Status.OTHER):
            yield _when(run, gate, outcome), outcome


def _is_before(passed: str, when: str) -> bool:
    """Tell whether a pass is older than a failure; one without a time that can be read is the newer one."""
    try:
        return moment_of(passed) < moment_of(when)
    except ValueError:
        return True


def _is_about(outcome: Outcome | None, entry: Pass) -> bool:
    """Tell whether a result that is no pass is about what passed."""
    if outcome is None:
        return True
    names = {name for subject in outcome.subjects for name in (subject.name, subject.node)}
    return outcome.check == entry.check and entry.subject in names
