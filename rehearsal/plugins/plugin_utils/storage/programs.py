# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds fio: on the machine, or in a package unpacked into the rehearsal's cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress

from ..toolchain.packages import Packages, ensure_unpacked, nothing_to_watch

PACKAGE = "fio"
_SUBJECT = "fio"
_HINT = f"apt-get install {PACKAGE}, or the like of this distribution"
# A library of Ceph, to which two of fio's engines are linked, is in a separate directory.
_PRIVATE = "ceph"


@dataclass(frozen=True, slots=True)
class Fio:
    """Path of the program, and directories of its libraries; empty where the system has them."""

    path: str
    libraries: str = ""

    def environment(self) -> dict[str, str]:
        """Return the environment variables that the program needs."""
        return {"LD_LIBRARY_PATH": self.libraries} if self.libraries else {}


def ensure_fio(cache: Path, progress: Progress, alive: Callable[[], None] = nothing_to_watch) -> Fio:
    """Return fio, unpacked into the cache if the machine does not have it.

    Raises:
        UnavailableError: it is not there and cannot be fetched; the hint has the command that installs it.
    """
    installed = shutil.which(PACKAGE)
    if installed is not None:
        return Fio(installed)
    packages = Packages((PACKAGE,), cache / "storage" / "root", _SUBJECT, _HINT)
    ensure_unpacked(packages, lambda: _problem(packages), progress, alive)
    found = _unpacked(packages)
    if found is None:
        raise UnavailableError(_SUBJECT, f"{packages.root} is not complete: {PACKAGE} is missing.", _HINT)
    return found


def _problem(packages: Packages) -> str:
    """Return why the unpacked program cannot run, empty if it can."""
    found = _unpacked(packages)
    return packages.problem([found.path], found.environment()) if found else f"{PACKAGE} is missing"


def _unpacked(packages: Packages) -> Fio | None:
    path = shutil.which(PACKAGE, path=str(packages.root / "usr" / "bin"))
    if path is None:
        return None
    usual = packages.environment()["LD_LIBRARY_PATH"].split(os.pathsep)
    private = [str(Path(directory) / _PRIVATE) for directory in usual if (Path(directory) / _PRIVATE).is_dir()]
    return Fio(path, os.pathsep.join([*usual, *private]))
