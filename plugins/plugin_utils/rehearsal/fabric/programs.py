# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where ibsim, opensm and infiniband-diags come from: the machine, or packages unpacked into the rehearsal's cache.

Unpacked and not installed: it needs no administrator, changes nothing on the machine, and starts no service.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ...outcome.errors import UnavailableError
from ...runtime.command import run_command
from ...runtime.progress import Progress

DIAGNOSTICS = (
    "ibstat", "iblinkinfo", "ibnetdiscover", "ibqueryerrors", "perfquery", "sminfo", "saquery", "smpquery",
)  # fmt: skip
PACKAGES = ("ibsim-utils", "opensm", "infiniband-diags", "libumad2sim0")
_SIMULATION = "umad2sim/libumad2sim.so"
_LIMIT_S = 300.0
_HINT = f"apt-get install {' '.join(PACKAGES)} (and systemctl disable --now opensm), or the like of this distribution"


@dataclass(frozen=True, slots=True)
class FabricPrograms:
    """Paths of the programs by name, the library that lets tools talk to the simulator, and where their libraries are
    (empty: where the system has them)."""

    paths: dict[str, str]
    simulation: str
    libraries: str = ""

    def client(self, socket_name: str, ident: str) -> dict[str, str]:
        """Return the environment in which a program speaks through that adapter."""
        libraries = {"LD_LIBRARY_PATH": self.libraries} if self.libraries else {}
        return {"LD_PRELOAD": self.simulation, "IBSIM_SOCKNAME": socket_name, "SIM_HOST": ident, **libraries}


def ensure_programs(cache: Path, progress: Progress) -> FabricPrograms:
    """Return the programs, unpacked into the cache if the machine does not have them.

    Raises:
        UnavailableError: they are not there and cannot be had; the hint says how to install them.
    """
    found = find_programs(Path("/")) or find_programs(_unpacked(cache))
    if found is None:
        progress.say(f"rehearsal: fetching {', '.join(PACKAGES)} for the simulated InfiniBand fabric")
        _unpack(cache)
        found = find_programs(_unpacked(cache))
    if found is None:
        raise UnavailableError("InfiniBand simulator", f"{_unpacked(cache)} is not complete.", _HINT)
    return found


def _unpacked(cache: Path) -> Path:
    return cache / "infiniband" / "root"


def find_programs(root: Path) -> FabricPrograms | None:
    """Return the programs below a root directory, None unless all are there."""
    own = root == Path("/")
    places = [root / name for name in ("usr/sbin", "usr/bin", "sbin", "bin")]
    path = os.pathsep.join([str(place) for place in places] + ([os.environ.get("PATH", "")] if own else []))
    paths = {name: shutil.which(name, path=path) for name in ("ibsim", "opensm", *DIAGNOSTICS)}
    libraries = [
        directory for pattern in ("usr/lib/*-linux-*", "usr/lib64", "usr/lib") for directory in root.glob(pattern)
    ]
    simulation = next((directory / _SIMULATION for directory in libraries if (directory / _SIMULATION).is_file()), None)
    if simulation is None or not all(paths.values()):
        return None
    return FabricPrograms(
        {name: str(place) for name, place in paths.items()}, str(simulation),
        "" if own else os.pathsep.join(map(str, libraries)),
    )  # fmt: skip


def _unpack(cache: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise UnavailableError("InfiniBand simulator", "is not installed, and this system has no apt to get it.", _HINT)
    target = _unpacked(cache)
    packages = target.parent / "packages"
    shutil.rmtree(target.parent, ignore_errors=True)
    packages.mkdir(parents=True)
    target.mkdir()
    _run(["apt-get", "download", *_needed()], packages)
    for package in sorted(packages.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(package), str(target)], packages)


def _needed() -> list[str]:
    """Return the packages and what of their dependencies the machine lacks, each with its version.

    Packages that are installed in part are fetched again: what runs must fit together.
    """
    words = ["apt-get", "install", "--reinstall", "--print-uris", "-qq", "-y", "--no-install-recommends", *PACKAGES]
    files = [line.split()[1] for line in _run(words, Path("/")).splitlines() if line.startswith("'")]
    names = [file.split("_")[0] for file in files if file.endswith(".deb")]
    return names or list(PACKAGES)


def _run(argv: list[str], where: Path) -> str:
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    done = run_command(argv, _LIMIT_S, env=environment, cwd=str(where))
    if done.rc != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        reason = f"`{' '.join(argv[:3])} ...` ended with {done.rc}: {said[-1] if said else 'it printed nothing'}."
        raise UnavailableError("InfiniBand simulator", f"is not installed and cannot be fetched: {reason}", _HINT)
    return done.stdout
