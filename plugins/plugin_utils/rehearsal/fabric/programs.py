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
from ...runtime.progress import Progress
from ..toolchain.packages import unpack_packages

DIAGNOSTICS = (
    "ibstat", "iblinkinfo", "ibnetdiscover", "ibqueryerrors", "perfquery", "sminfo", "saquery", "smpquery",
)  # fmt: skip
PACKAGES = ("ibsim-utils", "opensm", "infiniband-diags", "libumad2sim0")
_SIMULATION = "umad2sim/libumad2sim.so"
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
        unpack_packages(PACKAGES, _unpacked(cache), "InfiniBand simulator", _HINT)
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
