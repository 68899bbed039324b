# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The runs of many clusters as they lie in directories, and where each cluster stands by them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..fingerprint.dependencies import SiteState
from ..outcome.codec import load, load_json
from ..outcome.errors import BringupError, NotFoundError
from ..outcome.wording import count
from ..runtime.files import KEEPER_LOCK, RUN, STATE, cluster_uid_of
from ..runtime.process import is_locked
from ..verdict.clusters import REHEARSAL, ClusterState, SavedRun, cluster_states
from ..verdict.run import RunRecord, run_summary
from ..verdict.saved import record_from_plain
from .digests import changed_files
from .run import Run

# A run directory, one of a site's .run, or one of a directory with a checkout or inventory for each cluster.
_DEPTHS = (RUN, f"*/{RUN}", f"*/*/{RUN}", f"*/.run/*/{RUN}")
# What every judgement writes (report/run_report.py).
_REPORT = "report.json"


def states_of(places: Iterable[Path], *, confirm: bool = False) -> tuple[ClusterState, ...]:
    """Return where each cluster stands that has runs there.

    Args:
        places: directories of runs.
        confirm: whether verdicts are computed again from what the runs observed.

    Raises:
        NotFoundError: one of the places has no run.
    """
    found = [run for place in places for run in _run_dirs(place)]
    return cluster_states(map(_saved, dict.fromkeys(found)), partial(_looked, confirm=confirm))


def unconfirmed_record(run_dir: Path) -> RunRecord | None:
    """Return the record that a later judgement wrote into the reports, if it could not confirm the run; else None.

    It can only take a pass away: whatever else is written there is not read, and a file that is none says nothing.
    """
    path = run_dir / _REPORT
    try:
        record = record_from_plain(load_json(path), str(path)) if path.is_file() else None
    except BringupError:
        return None
    return record if record is not None and record.unconfirmed else None


def _run_dirs(place: Path) -> list[Path]:
    """Return the directories of the runs there, links resolved. What a run keeps of itself (looks) is no other run.

    Raises:
        NotFoundError: there is no run.
    """
    records = {path.parent.resolve() for depth in _DEPTHS for path in place.glob(depth)}
    found = sorted(path for path in records if records.isdisjoint(path.parents))
    if not found:
        looked = ", ".join(depth.removesuffix(f"/{RUN}") for depth in _DEPTHS[1:])
        raise NotFoundError(
            str(place),
            f"holds no run (no {RUN} in it, nor in {looked}).",
            "name directories of runs, or one directory with a .run for each cluster",
        )
    return found


def _saved(path: Path) -> SavedRun:
    """Return the run of that directory by its record; one that cannot be read is its problem."""
    try:
        record = Run(path).record
    except (BringupError, OSError) as error:
        return SavedRun(cluster=str(path), place=str(path), problem=f"its record cannot be read: {error}")
    name = f"{record.site} ({REHEARSAL})" if record.rehearsal else record.site
    # The keeper lives as long as the run: one that was killed is at work no more, whatever its record says.
    at_work = is_locked(path / KEEPER_LOCK)
    return SavedRun(cluster=name, uid=cluster_uid_of(path), place=str(path), at_work=at_work, record=record)


def _looked(saved: SavedRun, *, confirm: bool) -> SavedRun:
    """Return a run with what its files say beside its record, and whether they are as they were."""
    path, record = Path(saved.place), saved.record
    if record is None:
        return saved
    problem = ""
    try:
        differences = _rejudged(path) if confirm and not record.what_if else changed_files(path, record)
        if differences:
            more = f" and {count(len(differences) - 1, 'more difference')}" if len(differences) > 1 else ""
            problem = f"NOT CONFIRMED: {differences[0]}{more}"
        elif not confirm and (judged := unconfirmed_record(path)) is not None:
            problem = run_summary(judged)
    except (BringupError, OSError) as error:
        problem = f"NOT CONFIRMED: {error}"
    state = _site_state(path)
    return replace(
        saved,
        problem=problem,
        recipe=state.whole.get("recipe", ""),
        drivers={name: facts["driver"] for name, facts in state.hosts.items() if facts.get("driver")},
    )


def _rejudged(path: Path) -> tuple[str, ...]:
    # Judging loads every gate; where files are compared alone, nothing of them is needed.
    from .judged import rejudge

    return tuple(rejudge(Run(path))[1])


def _site_state(path: Path) -> SiteState:
    """Return what the run saw of the site; nothing where that was not saved or cannot be read."""
    try:
        return load(SiteState, path / STATE) if (path / STATE).is_file() else SiteState()
    except BringupError:
        return SiteState()
