# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a run matches a statement: its files by their digests, and everything that is computed from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..features.judge.app import rejudge
from ..outcome.errors import BringupError
from ..run.digests import changed_files, digest_of, links_in, written_after
from ..run.run import Run
from ..run.version import COLLECTION, collection_version
from ..runtime.files import DIGESTS, RUN
from .statement import statement_of

# Who made the statement and when is not computed from the run.
_OF_THE_SIGNER = {"attestedAt", "attestedBy"}


def compared(run: Run, statement: Mapping[str, Any]) -> list[str]:
    """Return a line for every difference between a run and the statement about it; empty where it matches."""
    try:
        # The content of files is compared only where they are the ones that were signed.
        return list(_other_files(run, statement)) or _other_words(run, statement)
    except BringupError as error:
        return [f"{error.subject}: {error.reason}".replace(f"{run.path}/", "")]
    except OSError as error:
        return [f"{error.filename or run.path}: {error.strerror or error}"]


def _other_files(run: Run, statement: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{name}: is a link, and a run has files alone" for name in links_in(run.path))
    subjects = {entry["name"]: entry["digest"]["sha256"] for entry in statement["subject"]}
    for name in (RUN, DIGESTS):
        if name not in subjects:
            yield f"{name}: is no subject of the statement"
    for name, signed in subjects.items():
        path = run.path / name
        if not path.is_file() or digest_of(path) != signed:
            yield f"{name}: is not the one that the statement is about"
    signed_files = statement["predicate"]["filesWrittenAfter"]
    found = {name: digest_of(path) for name, path in written_after(run.path).items()}
    for name in sorted(signed_files.keys() | found.keys()):
        if found.get(name) != signed_files.get(name):
            yield f"{name}: is not the one that the statement is about"
    yield from changed_files(run.path, run.record)


def _other_words(run: Run, statement: Mapping[str, Any]) -> list[str]:
    record, differences = rejudge(run)
    signed = statement["predicate"]
    full = signed["redaction"] == "full"
    now = statement_of(run, record, signed["attestedAt"], full=full)["predicate"]
    for name in sorted(now.keys() - _OF_THE_SIGNER):
        if signed[name] != now[name]:
            differences.append(f"the statement's {name} is not what the run gives")
    made_by, mine = run.record.versions.get(COLLECTION), collection_version()
    if differences and made_by != mine:
        differences.append(f"it is of {COLLECTION} {made_by}, and this is {mine}: verify it with that release as well")
    return differences
