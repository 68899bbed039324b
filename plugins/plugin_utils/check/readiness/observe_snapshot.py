# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What readiness looks at: a snapshot of the cluster, taken before anything is changed, or one that was supplied."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...outcome.codec import from_plain
from ...outcome.errors import BringupError, InputError
from ...outcome.gates import READINESS
from ...runtime.files import write_atomic
from ...site.model import Site
from ...snapshot.formats import parse_snapshot, to_text
from ...snapshot.model import Snapshot
from ..spec import ObserveContext, Observer

SNAPSHOT = f"evidence/{READINESS}/snapshot.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Which snapshot was looked at: its digest, where it is from, and whether the components were installed then."""

    sha256: str
    source: str
    installed: bool
    schema_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """A snapshot, and whether the components of the recipe are installed in it: before that, a node need not say which
    GPUs it has."""

    snapshot: Snapshot
    installed: bool


def keep_snapshot(snapshot: Snapshot, run_dir: Path, *, source: str, installed: bool) -> Taken:
    """Write a snapshot into the run directory and return what the observation says of it."""
    text = to_text(snapshot)
    write_atomic(run_dir / SNAPSHOT, text)
    return Taken(sha256=hashlib.sha256(text.encode()).hexdigest(), source=source, installed=installed)


def observe(_context: ObserveContext) -> Taken:
    """Nothing here takes a snapshot by itself: whoever runs the phase says which one.

    Raises:
        BringupError: always.
    """
    raise BringupError("observer snapshot", "was not told which snapshot.", "run playbook validate, or gate gpu_stack")


def restore(data: Any, run_dir: Path, _site: Site) -> Readiness:
    """Return the snapshot that was looked at.

    Raises:
        InputError: it is not there, or another than was looked at.
    """
    taken = from_plain(Taken, data, "observation snapshot")
    path = run_dir / SNAPSHOT
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}.", "run the phase again") from None
    if hashlib.sha256(text.encode()).hexdigest() != taken.sha256:
        raise InputError(str(path), "is another snapshot than the one that was looked at.", "run the phase again")
    return Readiness(snapshot=parse_snapshot(text, str(path)), installed=taken.installed)


OBSERVER = Observer("snapshot", Readiness, observe, restore, saved=Taken)
