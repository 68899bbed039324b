# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Programs out of the distribution's packages, unpacked and not installed.

It needs no administrator, changes nothing on the machine, and starts no service.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ...outcome.errors import UnavailableError
from ...runtime.command import run_command

_LIMIT_S = 300.0


def unpack_packages(packages: Sequence[str], target: Path, subject: str, hint: str) -> None:
    """Unpack packages and what the machine lacks of their dependencies below a directory, which is made anew.

    Args:
        packages: names of packages.
        target: where their files go; the packages are kept beside it.
        subject: what they are, for messages.
        hint: how to install them.

    Raises:
        UnavailableError: this system has no apt, or the packages cannot be had.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise UnavailableError(subject, "is not installed, and this system has no apt to get it.", hint)
    kept = target.parent / "packages"
    shutil.rmtree(target.parent, ignore_errors=True)
    kept.mkdir(parents=True)
    target.mkdir()
    _run(["apt-get", "download", *_needed(packages, subject, hint)], kept, subject, hint)
    for package in sorted(kept.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(target)], kept, subject, hint)


def _needed(packages: Sequence[str], subject: str, hint: str) -> list[str]:
    """Return the packages and what of their dependencies the machine lacks, each with its version.

    Packages that are installed in part are fetched again: what runs must fit together.
    """
    words = ["apt-get", "install", "--reinstall", "--print-uris", "-qq", "-y", "--no-install-recommends", *packages]
    lines = _run(words, Path("/"), subject, hint).splitlines()
    files = [line.split()[1] for line in lines if line.startswith("'")]
    names = [file.split("_")[0] for file in files if file.endswith(".deb")]
    return names or list(packages)


def _run(argv: list[str], where: Path, subject: str, hint: str) -> str:
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    done = run_command(argv, _LIMIT_S, env=environment, cwd=str(where))
    if done.rc != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        reason = f"`{' '.join(argv[:3])} ...` ended with {done.rc}: {said[-1] if said else 'it printed nothing'}."
        raise UnavailableError(subject, f"is not installed and cannot be fetched: {reason}", hint)
    return done.stdout
