# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a host shows before it is converged, as module `node_state_info` answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..outcome.errors import InputError
from ..runtime.strict import decode
from .package_names import System


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A version of a package that a repository has; `origin` is that repository as the package manager names it."""

    version: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageState:
    """One package: its version if installed, whether it is held, what the repositories offer, the newest first."""

    installed: str = ""
    held: bool = False
    available: tuple[Offer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What earlier runs of ours left on the host, as /etc/gpufleet/converged.json says.

    `until_boot` has what only comes into force by a reboot, each with the boot during which it was changed. `pending`
    are effects of files that were still to do: a run that is ended between a file and its effect does not lose it.
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
    """What the package manager said that it would do: packages with their versions; `error` if it refuses."""

    install: dict[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModule:
    """A module that is loaded: how often it is used, and by which other modules."""

    uses: int
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUser:
    """A process that has a device of the driver open, and the unit or pod that it belongs to."""

    process: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """One host.

    `command_line` is that of the running kernel, `boot_arguments` what the boot loader has for the next one (EL only).
    `loaded_driver` and `library_driver` are the versions of the module that is loaded and of the library that is
    installed, empty where there is none; `loaded_modules` is `open` or `proprietary`. `digests` are SHA-256 of files,
    empty for one that is not there.
    `set_elsewhere` are settings of sysctl in files that are read after ours, as [key, value, file]. `unfinished` are
    packages that a dpkg left which was ended in the middle: apt installs nothing until they are finished. `duplicates`
    are what an rpm left: packages with all their versions. `locks_off` says why dnf does not heed its version lock,
    `sysctl` what the kernel has of the declared settings. `kernel_headers`: whether DKMS can build for the running
    kernel.
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
        """What decides the names of packages."""
        return System(
            family=self.family,
            distribution=self.distribution,
            release=self.release,
            architecture=self.architecture,
            kernel=self.kernel,
        )

    @property
    def ours(self) -> Ledger:
        """What earlier runs of ours left, nothing where there was none."""
        return self.ledger or Ledger()


def read_state(data: Any, host: str) -> HostState:
    """Return the answer of `node_state_info`.

    Raises:
        InputError: it is of a family whose packages nobody knows here, or of another release of the collection.
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
