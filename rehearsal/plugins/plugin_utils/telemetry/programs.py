# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds Prometheus: on the machine, or in a package unpacked into the rehearsal's cache. Alertmanager is built."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress

from ..toolchain.packages import Packages, ensure_unpacked, nothing_to_watch

PACKAGE = "prometheus"
_SUBJECT = "Prometheus"
_HINT = f"apt-get install {PACKAGE} (and systemctl disable --now {PACKAGE}), or the like of this distribution"


@dataclass(frozen=True, slots=True)
class Prometheus:
    """Path of the program, and its environment variables."""

    path: str
    environment: dict[str, str] = field(default_factory=dict)


def ensure_prometheus(cache: Path, progress: Progress, alive: Callable[[], None] = nothing_to_watch) -> Prometheus:
    """Return Prometheus, unpacked into the cache if the machine does not have it.

    Raises:
        UnavailableError: it is not there and cannot be fetched; the hint has the command that installs it.
    """
    installed = find_prometheus(Path("/"))
    if installed is not None:
        return Prometheus(installed)
    packages = Packages((PACKAGE,), cache / "telemetry" / "root", _SUBJECT, _HINT)
    ensure_unpacked(packages, lambda: _problem(packages), progress, alive)
    found = find_prometheus(packages.root)
    if found is None:
        raise UnavailableError(_SUBJECT, f"{packages.root} is not complete: {PACKAGE} is missing.", _HINT)
    return Prometheus(found, packages.environment())


def _problem(packages: Packages) -> str:
    """Return why the unpacked program cannot run, empty if it can."""
    found = find_prometheus(packages.root)
    return packages.problem([found], packages.environment()) if found else f"{PACKAGE} is missing"


def find_prometheus(root: Path) -> str | None:
    """Return the program below a root directory. For `/` it may be anywhere on PATH."""
    places = [str(root / "usr" / "bin")] + ([os.environ.get("PATH", "")] if root == Path("/") else [])
    return shutil.which(PACKAGE, path=os.pathsep.join(places))
