# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The statement in an envelope, and the run in an archive."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

from ..outcome.errors import InputError, NotFoundError
from ..runtime.files import RUN
from .claim import FIELDS, PREDICATE_TYPE, STATEMENT_TYPE
from .envelope import Envelope

_SIGN = "make one: gpufleet evidence RUN --key FILE"
_MOST_BYTES = 8 << 30
_PARTS = {"_type", "predicate", "predicateType", "subject"}


def read_statement(envelope: Envelope, source: str) -> dict[str, Any]:
    """Return the statement in an envelope.

    Raises:
        InputError: it is none of ours.
    """
    try:
        statement = json.loads(envelope.payload.decode("ascii"))
        kinds = (statement["_type"], statement["predicateType"])
        subjects = [(entry["name"], entry["digest"]["sha256"]) for entry in statement["subject"]]
        fields = frozenset(statement["predicate"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(source, "holds no in-toto statement.", _SIGN) from None
    if kinds != (STATEMENT_TYPE, PREDICATE_TYPE) or not subjects:
        raise InputError(source, f"holds a statement of another kind: {kinds[1]}.", _SIGN)
    if fields != FIELDS or set(statement) != _PARTS:
        other = ", ".join(sorted((fields ^ FIELDS) | (set(statement) ^ _PARTS)))
        raise InputError(source, f"holds a statement of another form than this release reads: {other}.", _SIGN)
    return dict(statement)


def unpack_run(archive: Path, directory: Path) -> Path:
    """Unpack an archive of a run directory, files and directories alone, and return where the run is in it.

    Raises:
        InputError: it is no archive, or has other kinds of members.
        NotFoundError: there is no run in it, or there are several.
    """
    try:
        with tarfile.open(archive) as tar:
            for member, place in _safe(tar, archive):
                target = directory / place
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(cast("Any", tar.extractfile(member)), file)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise InputError(str(archive), f"is no whole tar archive: {error}.", "tar -caf RUN.tar.gz RUN") from None
    found = [path.parent for path in sorted((*directory.glob(RUN), *directory.glob(f"*/{RUN}")))]
    if len(found) != 1:
        reason = f"has {len(found)} runs ({RUN} at its top or in a directory there), and one is expected."
        raise NotFoundError(str(archive), reason, "tar -caf RUN.tar.gz RUN")
    return found[0]


def _safe(tar: tarfile.TarFile, archive: Path) -> Iterator[tuple[tarfile.TarInfo, PurePosixPath]]:
    size, observed = 0, set()
    for member in tar:
        place = PurePosixPath(member.name)
        size += member.size
        if place.is_absolute() or ".." in place.parts or not (member.isfile() or member.isdir()):
            raise InputError(str(archive), f"has {member.name!r} in it, and files of a run alone are expected.")
        if place in observed and member.isfile():
            raise InputError(str(archive), f"has {member.name!r} in it twice.")
        if size > _MOST_BYTES:
            raise InputError(str(archive), f"is larger than {_MOST_BYTES >> 30} GiB.", "unpack it and name the run")
        observed.add(place)
        yield member, place
