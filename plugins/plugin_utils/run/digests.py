# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Digests of what a run is judged by: taken with every verdict, compared when the run is judged again.

run.json has the digest of digests.json, and that file has those of all other files behind a verdict. So a file that was
changed, added or removed since the last verdict is named. They protect against damage and against an edit; the
signature over both is that of the run's statement (evidence).
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
from ..runtime.files import DIGESTS, REPORTS, RUN, STATE, STATEMENT, WHOLE_SUITE, write_atomic
from ..verdict.run import RunRecord

# The first schema version of run.json with digests.
_SINCE = 2
# The record itself, and what is made of covered files after the verdict: reports, which are written again whenever the
# run is judged, the CTRF report of the whole run, the state of the site for the history, the statement.
_NOT_COVERED = frozenset((RUN, DIGESTS, *REPORTS, STATE, WHOLE_SUITE, STATEMENT))
# Top-level directories that are made of covered files, or are separate runs with digests of their own.
_WRITTEN_AFTER = frozenset(("junit",))
_BESIDE = frozenset(("ai_conformance", "looks", "rma", "waves"))
_SHOWN = 20
# Evidence that a gate writes over what one before it left there.
_READ_ANEW = {"nodes": "evidence/hosts"}
NONE_KEPT = (
    "this run was made by a release that kept no digests of its files: results are computed again from them, and "
    "whether they were changed since cannot be told"
)


def has_digests(record: RunRecord) -> bool:
    """Return whether the release that made the run kept digests of its files."""
    return record.schema_version >= _SINCE or bool(record.digests)


def keep_digests(run_dir: Path) -> str:
    """Write the current digests of the files of a run, and return the digest of that list.

    Raises:
        OSError: a file cannot be read or written.
    """
    text = dumps({name: digest_of(path) for name, path in _covered(run_dir)})
    write_atomic(run_dir / DIGESTS, text)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def changed_files(run_dir: Path, record: RunRecord) -> list[str]:
    """Return a line for every file that changed since the run recorded its last verdict."""
    decided = [verdict for verdict in (*record.gates, *record.phases) if verdict.status is not Status.PENDING]
    if not has_digests(record) or not (decided or record.digests):
        return []
    if not record.digests:
        return [f"{RUN}: has no digest of {DIGESTS}, which is written with every verdict"]
    path = run_dir / DIGESTS
    if not path.is_file():
        return [f"{DIGESTS}: is not there, and {RUN} has its digest"]
    if digest_of(path) != record.digests:
        return [f"{DIGESTS}: was changed since the last verdict ({RUN} has another digest of it)"]
    try:
        recorded = load_json(path)
    except InputError as error:
        return [str(error)]
    now = {name: digest_of(found) for name, found in _covered(run_dir)}
    lost = [
        f"{name}: is not there, and was when the last verdict was recorded" for name in recorded.keys() - now.keys()
    ]
    # Gate nodes reads the hosts anew, of which an earlier one had read a part; its verdict covers them.
    anew = tuple(f"{place}/" for gate, place in _READ_ANEW.items() if _is_open(record, gate))
    other = [
        f"{name}: {CHANGED}" for name in now if recorded.get(name, now[name]) != now[name] and not name.startswith(anew)
    ]
    new = [f"{name}: was not there when the last verdict was recorded" for name in now if name not in recorded]
    # A gate that was not decided may have left observations.
    ended = all(record.gate(gate).status is not Status.PENDING for gate in record.scope)
    found = sorted([*lost, *other, *(new if ended else [])])
    return found if len(found) <= _SHOWN else [*found[:_SHOWN], f"and {len(found) - _SHOWN} more files"]


def _is_open(record: RunRecord, gate: str) -> bool:
    return gate in record.scope and record.gate(gate).status is Status.PENDING


def written_after(run_dir: Path) -> dict[str, Path]:
    """Return the files that are made of covered ones after the verdict, by their names: reports and exports."""
    named = {name: run_dir / name for name in (*REPORTS, STATE, WHOLE_SUITE)}
    named |= {f"{path.parent.name}/{path.name}": path for top in _WRITTEN_AFTER for path in (run_dir / top).glob("*")}
    return {name: path for name, path in sorted(named.items()) if path.is_file()}


def links_in(run_dir: Path) -> list[str]:
    """Return the links among the files of a run: their targets are not covered."""
    places = ((place, name) for place, below, files in os.walk(run_dir) for name in (*below, *files))
    return sorted(os.path.relpath(path, run_dir) for place, name in places if os.path.islink(path := f"{place}/{name}"))


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _covered(run_dir: Path) -> Iterator[tuple[str, Path]]:
    found = []
    for place, directories, files in os.walk(run_dir):
        below = os.path.relpath(place, run_dir)
        if below == ".":
            directories[:] = [name for name in directories if name not in _WRITTEN_AFTER | _BESIDE]
            # Locks of running programs, and files that are being written.
            found += [name for name in files if not name.startswith(".")]
        else:
            found += [f"{below}/{name}" for name in files]
    # Names and not paths: a large fleet has many files, and paths compare themselves slowly.
    for name in sorted(found):
        if name not in _NOT_COVERED and (run_dir / name).is_file():
            yield name, run_dir / name
