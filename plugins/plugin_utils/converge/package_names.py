# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the packages of a host are called: data of recipes/host_packages.yaml, and the choice of what fits a host."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from ..outcome.errors import InputError
from ..runtime.recipe_files import RECIPES
from ..runtime.strict import decode_file
from .declaration import Driver

FILE = RECIPES / "host_packages.yaml"
Part = Literal[
    "driver",
    "fabric-manager",
    "nvsdm",
    "imex",
    "nvlsm",
    "dcgm",
    "dcgm-proprietary",
    "ofed",
    "container-toolkit",
    "chrony",
    "ptp",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSet:
    """One set of packages; the fields are described in the file."""

    part: Part
    family: Literal["debian", "redhat", "any"]
    packages: tuple[str, ...]
    source: str
    distributions: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    origin: Literal["nvidia", "ubuntu", ""] = ""
    modules: Literal["open", "proprietary", ""] = ""
    build: Literal["dkms", "precompiled", ""] = ""
    from_branch: int = 0
    until_branch: int = 100_000
    version: Literal["driver", "own", "newest"] = "driver"
    newest: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    stream: str = ""
    before: str = ""
    conflicts: tuple[str, ...] = ()
    units: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaOfBranch:
    """From that branch on the driver brings that CUDA major."""

    from_branch: int
    cuda: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageNames:
    """The whole file."""

    sets: tuple[PackageSet, ...]
    cuda: tuple[CudaOfBranch, ...]
    open_modules_only: tuple[str, ...]
    unattended: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What decides names: `family` debian or redhat, `distribution` as Ansible names it, its major `release`."""

    family: str
    distribution: str
    release: str
    architecture: str
    kernel: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.release} ({self.architecture})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A set with its names written out for one host."""

    part: Part
    version: Literal["driver", "own", "newest"]
    packages: tuple[str, ...]
    newest: tuple[str, ...]
    companions: tuple[str, ...]
    conflicts: tuple[str, ...]
    units: tuple[str, ...]
    stream: str
    before: str


@cache
def load_package_names() -> PackageNames:
    """Return the names of all packages.

    Raises:
        BringupError: the file is not what it must be.
    """
    return decode_file(PackageNames, FILE)


def named(part: Part, system: System, driver: Driver | None) -> Named:
    """Return the packages of a part on a host with that driver.

    Raises:
        InputError: no names are known for this part there; what is known is listed.
    """
    names = load_package_names()
    known = [found for found in names.sets if found.part == part]
    fitting = next((found for found in known if _fits(found, system, driver)), None)
    if fitting is None:
        raise InputError(f"{part} on {system}", _nothing_known(part, system, driver), _what_is_known(known, system))
    words = _words(system, driver, names)

    def written(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text.format(**words) for text in texts)

    # A package that was asked for is no companion of itself.
    packages = written(fitting.packages)
    return Named(
        part=part,
        version=fitting.version,
        packages=packages,
        newest=written(fitting.newest),
        companions=tuple(name for name in written(fitting.companions) if name not in packages),
        conflicts=written(fitting.conflicts),
        units=fitting.units,
        stream=fitting.stream.format(**words),
        before=fitting.before.format(**words),
    )


def cuda_major(branch: int) -> int:
    """Return the CUDA major of a branch of the driver.

    Raises:
        InputError: the branch is older than any that the file knows.
    """
    for row in load_package_names().cuda:
        if branch >= row.from_branch:
            return row.cuda
    raise InputError(f"driver branch {branch}", "its CUDA major is not known.", f"take a branch that {FILE.name} has")


def _words(system: System, driver: Driver | None, names: PackageNames) -> dict[str, str]:
    found = {"kernel": system.kernel}
    if driver:
        cuda = next((str(row.cuda) for row in names.cuda if driver.branch >= row.from_branch), "")
        found |= {"branch": str(driver.branch), "version": driver.version, "cuda": cuda}
    return found


def _fits(found: PackageSet, system: System, driver: Driver | None) -> bool:
    branch = driver.branch if driver else found.from_branch
    return (
        found.family in (system.family, "any")
        and (not found.distributions or system.distribution in found.distributions)
        and (not found.releases or system.release in found.releases)
        and (not found.architectures or system.architecture in found.architectures)
        and found.from_branch <= branch <= found.until_branch
        and (found.part != "driver" or _flavour(driver) == (found.origin, found.modules, found.build))
    )


def _flavour(driver: Driver | None) -> tuple[str, str, str]:
    return (driver.origin, driver.modules, driver.build) if driver else ("", "", "")


def _nothing_known(part: str, system: System, driver: Driver | None) -> str:
    if driver is None:
        return "no package names are known."
    flavour = f", origin {driver.origin}, {driver.modules} modules, {driver.build}" if part == "driver" else ""
    return f"no package names are known for branch {driver.branch}{flavour}."


def _what_is_known(known: list[PackageSet], system: System) -> str:
    here = [
        found
        for found in known
        if found.family in (system.family, "any")
        and (not found.distributions or system.distribution in found.distributions)
    ]
    words = sorted({" ".join(filter(None, (f.origin, f.modules, f.build))) or f.part for f in here})
    return f"known there: {', '.join(words)}" if words else f"add a set to recipes/{FILE.name}"
