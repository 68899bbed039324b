# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Digests of what a run is judged by: taken with every verdict, compared when the run is judged again.

run.json holds the digest of digests.json, and that file those of all others, so a file that was changed or removed
since the last verdict is named. They protect against damage and against an edit; they are no signature.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from ..outcome.codec import dumps, load_json
from ..outcome.errors import InputError
from ..outcome.model import Status
from ..report.facts import CHANGED
from ..runtime.files import DIGESTS, RUN, write_atomic
from ..verdict.run import RunRecord

# The first form of run.json that goes with digests.
_SINCE = 2
_DIRECTORIES = ("ctrf", "cycles", "evidence", "observations")
# The record itself; a report that is written again whenever the run is judged; what is written after the verdict from
# files that are covered: the CTRF report of the whole run, and the state of the site for the history.
_NOT_COVERED = (RUN, DIGESTS, "report.json", "ctrf/all.json", "state.json")
_SHOWN = 20
NONE_KEPT = (
    "this run was made by a release that kept no digests of its files: results are computed again from them, and "
    "whether they were changed since cannot be told"
)


def has_digests(record: RunRecord) -> bool:
    """Tell whether the release that made the run kept digests of its files."""
    return record.schema_version >= _SINCE or bool(record.digests)


def keep_digests(run_dir: Path) -> str:
    """Write the digests of the files of a run as they are now, and return the one of that list.

    Raises:
        OSError: a file cannot be read or written.
    """
    text = dumps({name: _digest(path) for name, path in _covered(run_dir)})
    write_atomic(run_dir / DIGESTS, text)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def changed_files(run_dir: Path, record: RunRecord) -> list[str]:
    """Return a line for every file that is not as it was when the run recorded its last verdict."""
    decided = [verdict for verdict in (*record.gates, *record.phases) if verdict.status is not Status.PENDING]
    if not has_digests(record) or not (decided or record.digests):
        return []
    if not record.digests:
        return [f"{RUN}: has no digest of {DIGESTS}, which is written with every verdict"]
    path = run_dir / DIGESTS
    if not path.is_file():
        return [f"{DIGESTS}: is not there, and {RUN} has its digest"]
    if _digest(path) != record.digests:
        return [f"{DIGESTS}: was changed since the last verdict ({RUN} has another digest of it)"]
    try:
        recorded = load_json(path)
    except InputError as error:
        return [str(error)]
    now = {name: _digest(found) for name, found in _covered(run_dir)}
    lost = [
        f"{name}: is not there, and was when the last verdict was recorded" for name in recorded.keys() - now.keys()
    ]
    other = [f"{name}: {CHANGED}" for name in now if recorded.get(name, now[name]) != now[name]]
    new = [f"{name}: was not there when the last verdict was recorded" for name in now if name not in recorded]
    # A gate that was not decided may have left what it saw.
    ended = all(record.gate(gate).status is not Status.PENDING for gate in record.scope)
    found = sorted([*lost, *other, *(new if ended else [])])
    return found if len(found) <= _SHOWN else [*found[:_SHOWN], f"and {len(found) - _SHOWN} more files"]


def _covered(run_dir: Path) -> Iterator[tuple[str, Path]]:
    found = [path.name for path in run_dir.glob("*.json")]
    for directory in _DIRECTORIES:
        for place, _directories, files in os.walk(run_dir / directory):
            below = os.path.relpath(place, run_dir)
            found += [f"{below}/{name}" for name in files]
    # Names and not paths: a large fleet has many files, and paths compare themselves slowly.
    for name in sorted(found):
        if name not in _NOT_COVERED and (run_dir / name).is_file():
            yield name, run_dir / name


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
