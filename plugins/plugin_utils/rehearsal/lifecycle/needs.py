# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The programs of the system that a rehearsal runs: missed before anything is built, and named with their packages."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from ...outcome.errors import NotFoundError

# Program: package of Debian and Ubuntu, package of RHEL. Built programs and Python's packages are not among them, nor
# what every Linux system has; `tools/setup` installs the same.
PROGRAMS: Mapping[str, tuple[str, str]] = {
    "ssh-keygen": ("openssh-client", "openssh-clients"),
    "flock": ("util-linux", "util-linux"),
    "awk": ("mawk", "gawk"),
}


def refuse_missing_programs() -> None:
    """Look for every program on PATH.

    Raises:
        NotFoundError: some are missing; the hint is the command that installs them all.
    """
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        debian, rhel = (" ".join(sorted({PROGRAMS[name][index] for name in missing})) for index in (0, 1))
        reason = "not found on PATH, and the rehearsal runs them: nothing was built or started."
        hint = f"as root: apt-get install {debian} (RHEL: dnf install {rhel})"
        raise NotFoundError(f"programs {', '.join(missing)}", reason, hint)
