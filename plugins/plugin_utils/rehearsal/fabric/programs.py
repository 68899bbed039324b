# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where ibsim, opensm and infiniband-diags come from: the machine, or packages unpacked into the rehearsal's cache.

Unpacked and not installed: it needs no administrator, changes nothing on the machine, and starts no service.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...outcome.errors import UnavailableError
from ...runtime.progress import Progress
from ..toolchain.loader import library_path
from ..toolchain.packages import Packages, ensure_unpacked, nothing_to_watch

DIAGNOSTICS = (
    "ibstat", "iblinkinfo", "ibnetdiscover", "ibqueryerrors", "perfquery", "sminfo", "saquery", "smpquery",
)  # fmt: skip
PACKAGES = ("ibsim-utils", "opensm", "infiniband-diags", "libumad2sim0")
_SIMULATION = "umad2sim/libumad2sim.so"
_SUBJECT = "InfiniBand simulator"
_HINT = f"apt-get install {' '.join(PACKAGES)} (and systemctl disable --now opensm), or the like of this distribution"


@dataclass(frozen=True, slots=True)
class FabricPrograms:
    """Paths of the programs by name, the library that lets tools talk to the simulator, and where their libraries are
    (empty: where the system has them)."""

    paths: dict[str, str]
    simulation: str
    libraries: str = ""

    def environment(self) -> dict[str, str]:
        """Return what each program needs in its environment, and nothing else may get: other programs have other
        libraries."""
        return {"LD_LIBRARY_PATH": self.libraries} if self.libraries else {}

    def client(self, socket_name: str, ident: str) -> dict[str, str]:
        """Return the environment in which a program speaks through that adapter."""
        speaking = {"LD_PRELOAD": self.simulation, "IBSIM_SOCKNAME": socket_name, "SIM_HOST": ident}
        return {**speaking, **self.environment()}


def ensure_programs(cache: Path, progress: Progress, alive: Callable[[], None] = nothing_to_watch) -> FabricPrograms:
    """Return the programs, unpacked into the cache if the machine does not have them.

    Raises:
        UnavailableError: they are not there and cannot be had; the hint says how to install them.
    """
    packages = Packages(PACKAGES, cache / "infiniband" / "root", _SUBJECT, _HINT)
    installed = find_programs(Path("/"))
    if installed is not None:
        return installed
    ensure_unpacked(packages, lambda: _problem(packages), progress, alive)
    found = find_programs(packages.root)
    if found is None:
        raise UnavailableError(_SUBJECT, f"{packages.root} is not complete: programs are missing.", _HINT)
    return found


def _problem(packages: Packages) -> str:
    """Return why the unpacked programs cannot be run, nothing if they can."""
    found = find_programs(packages.root)
    if found is None:
        return "programs are missing"
    environment = {**found.environment(), "LD_PRELOAD": found.simulation}
    return packages.problem(list(found.paths.values()), environment)


def find_programs(root: Path) -> FabricPrograms | None:
    """Return the programs below a root directory, None unless all are there."""
    own = root == Path("/")
    places = [root / name for name in ("usr/sbin", "usr/bin", "sbin", "bin")]
    path = os.pathsep.join([str(place) for place in places] + ([os.environ.get("PATH", "")] if own else []))
    paths = {name: shutil.which(name, path=path) for name in ("ibsim", "opensm", *DIAGNOSTICS)}
    libraries = library_path(root)
    known = (Path(directory) / _SIMULATION for directory in libraries.split(os.pathsep))
    simulation = next((path for path in known if path.is_file()), None)
    if simulation is None or not all(paths.values()):
        return None
    return FabricPrograms(
        {name: str(place) for name, place in paths.items()}, str(simulation), "" if own else libraries
    )  # fmt: skip
