# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where Prometheus comes from: the machine, or a package unpacked into the rehearsal's cache. Alertmanager is built."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ...outcome.errors import UnavailableError
from ...runtime.progress import Progress
from ..toolchain.packages import unpack_packages

PACKAGE = "prometheus"
_SUBJECT = "Prometheus"
_HINT = f"apt-get install {PACKAGE} (and systemctl disable --now {PACKAGE}), or the like of this distribution"


def ensure_prometheus(cache: Path, progress: Progress) -> str:
    """Return the path of Prometheus, unpacked into the cache if the machine does not have it.

    Raises:
        UnavailableError: it is not there and cannot be had; the hint says how to install it.
    """
    root = cache / "telemetry" / "root"
    found = find_prometheus(Path("/")) or find_prometheus(root)
    if found is None:
        progress.say(f"rehearsal: fetching {PACKAGE} for gate telemetry")
        unpack_packages((PACKAGE,), root, _SUBJECT, _HINT)
        found = find_prometheus(root)
    if found is None:
        raise UnavailableError(_SUBJECT, f"{root} is not complete.", _HINT)
    return found


def find_prometheus(root: Path) -> str | None:
    """Return the program below a root directory; for `/` it may be anywhere on PATH."""
    places = [str(root / "usr" / "bin")] + ([os.environ.get("PATH", "")] if root == Path("/") else [])
    return shutil.which(PACKAGE, path=os.pathsep.join(places))
