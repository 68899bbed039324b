# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The state of a host before it is converged, as module `node_state_info` returns it, and the sysctl settings of its
kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from ...hardware.sku import Sku
from ...outcome.errors import InputError
from ...runtime.files import RECIPES
from ...runtime.strict import decode, decode_file
from .declaration import Declaration, Driver

# The package names of a host, from recipes/host_packages.yaml, and the packages that its NVLink fabric needs.

# The package names of a host: data of recipes/host_packages.yaml, and the choice of what fits a host.

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
    """From that branch on the driver contains that CUDA major."""

    from_branch: int
    cuda: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageNames:
    """The content of the file."""

    sets: tuple[PackageSet, ...]
    cuda: tuple[CudaOfBranch, ...]
    open_modules_only: tuple[str, ...]
    unattended: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What decides package names: `family` debian or redhat, `distribution` as Ansible names it, its major
    `release`."""

    family: str
    distribution: str
    release: str
    architecture: str
    kernel: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.release} ({self.architecture})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A set with its names resolved for one host."""

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
        BringupError: the file does not have the expected form.
    """
    return decode_file(PackageNames, FILE)


def named(part: Part, system: System, driver: Driver | None) -> Named:
    """Return the packages of a part on a host with that driver.

    Raises:
        InputError: no names are known for this part there; the known ones are listed.
    """
    names = load_package_names()
    known = [found for found in names.sets if found.part == part]
    fitting = next((found for found in known if _fits(found, system, driver)), None)
    if fitting is None:
        raise InputError(f"{part} on {system}", _nothing_known(part, system, driver), _what_is_known(known, system))
    words = _words(system, driver, names)

    def written(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text.format(**words) for text in texts)

    # A requested package is no companion of itself.
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


# What the NVLink fabric of a host needs: by declaration, or by the facts of its SKU.

# NVLink 5 switches are managed over InfiniBand: the fabric manager needs nvlsm beside it.
_NVLSM_GENERATION = 5
_SERVICES: dict[str, tuple[Part, ...]] = {
    "fabric-manager": ("fabric-manager",),
    "fabric-manager-nvlsm": ("fabric-manager", "nvsdm", "nvlsm"),
    "imex": ("imex",),
    "none": (),
}


def services_of(sku: Sku | None) -> tuple[Part, ...]:
    """Return the parts that a host of that SKU needs: IMEX on trays of a rack, the fabric manager on hosts with
    switches."""
    if sku is None or not sku.nvlink_links:
        return ()
    if sku.nvlink_domain == "rack":
        return _SERVICES["imex"]
    if not sku.nvswitches:
        return ()
    with_nvlsm = (sku.nvlink_generation or 0) >= _NVLSM_GENERATION
    return _SERVICES["fabric-manager-nvlsm" if with_nvlsm else "fabric-manager"]


def nvlink_parts(declared: Declaration, by_sku: Sequence[Part], architecture: str) -> tuple[Part, ...]:
    """Return the parts beside the driver; libnvsdm exists only for x86_64."""
    if declared.nvlink is None:
        return ()
    configured = declared.nvlink.services
    parts = tuple(by_sku) if configured == "by-sku" else _SERVICES[configured]
    return tuple(part for part in parts if part != "nvsdm" or architecture == "x86_64")


# The state of a host before it is converged, as module `node_state_info` returns it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A version of a package in a repository; `origin` is that repository as the package manager names it."""

    version: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageState:
    """One package: its version if installed, whether it is held, what the repositories offer, newest first."""

    installed: str = ""
    held: bool = False
    available: tuple[Offer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What earlier runs of ours left on the host, from /etc/gpufleet/converged.json.

    `until_boot` has what takes effect only with a reboot, each with the boot during which it was changed. `pending` are
    effects of files that are still to do, so that a run that is interrupted between a file and its effect does not lose
    it.
    """

    schema_version: int = 1
    files: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    kernel_arguments: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    until_boot: dict[str, str] = field(default_factory=dict)
    pending: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What the package manager would do: packages with their versions; `error` if it refuses."""

    install: dict[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModule:
    """A loaded module: how often it is used, and by which other modules."""

    uses: int
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUser:
    """A process that has a device of the driver open, and the unit or pod that it belongs to."""

    process: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """The state of one host.

    `command_line` is that of the running kernel, `boot_arguments` those of the boot loader for the next boot (EL only).
    `loaded_driver` is the version of the loaded module, `library_driver` that of the installed library, both empty
    where there is none. `loaded_modules` is `open` or `proprietary`. `digests` are SHA-256 of files, empty for a
    missing file.

    `set_elsewhere` are sysctl settings in files that are read after ours, as [key, value, file]. `unfinished` are
    packages left by an interrupted dpkg: apt installs nothing until they are finished. `duplicates` are left by an
    interrupted rpm: packages with all their versions. `locks_off` says why dnf does not heed its version lock. `sysctl`
    has the kernel's values of the declared settings. `kernel_headers`: whether DKMS can build for the running kernel.
    """

    family: str
    distribution: str
    release: str
    architecture: str
    kernel: str
    boot: str
    packages: dict[str, PackageState] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()
    duplicates: dict[str, tuple[str, ...]] = field(default_factory=dict)
    locks_off: str = ""
    simulation: Simulation | None = None
    loaded_driver: str = ""
    loaded_modules: str = ""
    library_driver: str = ""
    modules: dict[str, KernelModule] = field(default_factory=dict)
    device_users: tuple[DeviceUser, ...] = ()
    dkms: tuple[str, ...] = ()
    kernel_headers: bool = False
    command_line: str = ""
    boot_arguments: str = ""
    units: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    sysctl: dict[str, str] = field(default_factory=dict)
    set_elsewhere: tuple[tuple[str, ...], ...] = ()
    fabric_states: tuple[str, ...] = ()
    mig_as_declared: bool | None = None
    stream: str = ""
    ledger: Ledger | None = None

    @property
    def system(self) -> System:
        """Return what decides the names of packages."""
        return System(
            family=self.family,
            distribution=self.distribution,
            release=self.release,
            architecture=self.architecture,
            kernel=self.kernel,
        )

    @property
    def ours(self) -> Ledger:
        """Return what earlier runs of ours left, empty where there was none."""
        return self.ledger or Ledger()


def read_state(data: Any, host: str) -> HostState:
    """Return the result of `node_state_info`.

    Raises:
        InputError: it is of a family whose package names are unknown here, or of another release of the collection.
    """
    state = decode(HostState, data, f"state of {host}")
    if state.family not in ("debian", "redhat"):
        where = f"{state.distribution} {state.release}"
        raise InputError(
            host,
            f"is {where}; packages are known for Debian, Ubuntu and the RHEL family.",
            "leave its packages out of the declaration",
        )
    if state.ours.schema_version != 1:
        raise InputError(
            f"{host}: /etc/gpufleet/converged.json",
            f"has schema version {state.ours.schema_version}, this release writes 1.",
            "use the release of the collection that wrote it",
        )
    return state


# Sysctl settings that the kernel does not have, although their file is there.

_NUMBER = re.compile(r"-?\d+")


def not_in_force(wanted: Mapping[str, str], kernel: Mapping[str, str]) -> Iterator[str]:
    """Yield each setting with the value of the kernel: an agent sets it, its module came later, or it is not possible.

    Only numbers are compared: lists of ports or processors are shown in another form than they were set. `kernel` has
    only names with dots, as `sysctl` shows them but for dots in names of interfaces.
    """
    for key, value in wanted.items():
        if "*" in key or not all(_NUMBER.fullmatch(word) for word in value.split()):
            continue
        there = kernel.get(key.replace("/", "."), "").split()
        if [_plain(word) for word in there] != [_plain(word) for word in value.split()]:
            yield f"{key} {' '.join(there) or 'not seen'} -> {' '.join(value.split())}"


def _plain(word: str) -> str:
    return str(int(word)) if _NUMBER.fullmatch(word) else word
