# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observer of phase readiness: a snapshot of the cluster from before any change, or one that was supplied."""

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
    """Which snapshot was judged.

    Attributes:
        sha256: digest of its text.
        source: where it is from.
        installed: the components of the recipe were installed when it was taken.
    """

    sha256: str
    source: str
    installed: bool
    schema_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What the judges of readiness get.

    Attributes:
        snapshot: the cluster.
        installed: the components of the recipe are installed in it. Before that, a node may lack the labels that name
            its GPUs.
    """

    snapshot: Snapshot
    installed: bool


def keep_snapshot(snapshot: Snapshot, run_dir: Path, *, source: str, installed: bool) -> Taken:
    """Write a snapshot into the run directory and return the observation that refers to it."""
    text = to_text(snapshot)
    write_atomic(run_dir / SNAPSHOT, text)
    return Taken(sha256=hashlib.sha256(text.encode()).hexdigest(), source=source, installed=installed)


def observe(_context: ObserveContext) -> Taken:
    """Refuse: this observer takes no snapshot by itself; the caller of the phase supplies one.

    Raises:
        BringupError: always.
    """
    raise BringupError("observer snapshot", "was not told which snapshot.", "run playbook validate, or gate gpu_stack")


def restore(data: Any, run_dir: Path, _site: Site) -> Readiness:
    """Return the snapshot that was judged.

    Raises:
        InputError: the file cannot be read, or its digest differs from the recorded one.
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
