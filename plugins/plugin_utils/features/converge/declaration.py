# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a site declares for a host or a group in `gpufleet_converge`. A part that is not declared is not touched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ...outcome.errors import BringupError, InputError, ProblemsError
from ...runtime.strict import decode

VARIABLE = "gpufleet_converge"
_VERSION = re.compile(r"\d+(\.\d+){1,3}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]*")
_SYSCTL = re.compile(r"[a-z0-9_]+([./][A-Za-z0-9_*-]+)+")
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]+(=\S+)?")
# NVIDIA/gpu-driver-container, nvidia-driver: proprietary modules end with branch 610.
_LAST_PROPRIETARY_BRANCH = 614
# The open modules that DMA-BUF needs came with branch 515 (NVIDIA/open-gpu-kernel-modules, first release).
_FIRST_OPEN_BRANCH = 515


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The NVIDIA driver, pinned to one exact version.

    `modules`: open or proprietary kernel modules. `build`: built on the host for its kernel (DKMS), or packaged for one
    kernel (precompiled). `origin`: NVIDIA's own repository or the archive of Ubuntu. Both have packages of the same
    names, and mixing them breaks apt.
    """

    version: str
    modules: Literal["open", "proprietary"] = "open"
    build: Literal["dkms", "precompiled"] = "dkms"
    origin: Literal["nvidia", "ubuntu"] = "nvidia"

    @property
    def branch(self) -> int:
        """The first number of the version."""
        return int(self.version.split(".")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvlink:
    """What the NVLink fabric of the host needs, always at the version of the driver.

    `services`: `by-sku` takes it from the facts of the host's SKU. `imex_nodes` are the addresses of all trays of the
    IMEX domain, in the same order on each of them.
    """

    services: Literal["by-sku", "fabric-manager", "fabric-manager-nvlsm", "imex", "none"] = "by-sku"
    imex_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ofed:
    """The stack of the adapters: DOCA-OFED at one version, or that of the distribution."""

    kind: Literal["doca", "inbox"]
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dcgm:
    """DCGM on the host; the CUDA parts follow from the branch of the driver."""

    version: str
    proprietary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mig:
    """The MIG geometry: a configuration of nvidia-mig-parted, by name, and the file that has it (`text`)."""

    config: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One line of limits.conf(5): it reaches logins, not services."""

    domain: str
    item: str
    value: str
    type: Literal["soft", "hard", "-"] = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hugepages:
    """Huge pages, how many of each size; pages of 1 GiB are reserved by the kernel command line."""

    size_2m: int = 0
    size_1g: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSource:
    """The time source of the host: `servers` by chrony, or PTP on one network interface."""

    kind: Literal["chrony", "ptp"]
    servers: tuple[str, ...] = ()
    interface: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """The NVIDIA container toolkit on the host, where no operator installs it."""

    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """Everything that a site can declare for a host; see docs/converge.md.

    `reboot`: whether the role may reboot the host where something needs it; the default only reports it.
    `reload_driver`: whether the modules of the driver may be unloaded and loaded again, which is tried only if no
    process uses them.
    """

    driver: Driver | None = None
    nvlink: Nvlink | None = None
    ofed: Ofed | None = None
    dcgm: Dcgm | None = None
    mig: Mig | None = None
    persistence: bool | None = None
    power_limit_w: int | None = None
    kernel_arguments: tuple[str, ...] = ()
    sysctl: dict[str, str] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    service_limits: dict[str, dict[str, str]] = field(default_factory=dict)
    hugepages: Hugepages | None = None
    gpu_direct: Literal["dma-buf", "peermem"] | None = None
    module_options: dict[str, dict[str, str]] = field(default_factory=dict)
    time_source: TimeSource | None = None
    container_toolkit: Toolkit | None = None
    reboot: Literal["never", "when-needed"] = "never"
    reload_driver: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The declared parts, by their names."""
        return tuple(name for name in PARTS if getattr(self, name) not in (None, (), {}))


# In the order in which they are converged; the other fields are permissions.
PARTS = (
    "ofed",
    "driver",
    "nvlink",
    "dcgm",
    "mig",
    "persistence",
    "power_limit_w",
    "kernel_arguments",
    "sysctl",
    "limits",
    "service_limits",
    "hugepages",
    "gpu_direct",
    "module_options",
    "time_source",
    "container_toolkit",
)


def read_declaration(data: Any, source: str) -> Declaration:
    """Return the declaration of one host from `gpufleet_converge`; without a value it has no parts.

    Raises:
        ProblemsError: unknown names (with the nearest valid one), wrong types, and parts that contradict each other.
    """
    found = decode(Declaration, {} if data is None else data, source)
    problems = tuple(InputError(f"{source}: {where}", reason, hint) for where, reason, hint in _contradictions(found))
    if problems:
        raise ProblemsError(source, problems)
    return found


def declaration_problems(hosts: dict[str, Any]) -> list[BringupError]:
    """Return everything that is wrong with the declarations of hosts. One that a group shares is reported once."""
    found: list[BringupError] = []
    seen: list[Any] = []
    for host, data in hosts.items():
        if data is None or data in seen:
            continue
        seen.append(data)
        try:
            read_declaration(data, f"{VARIABLE} of {host}")
        except ProblemsError as error:
            found.extend(error.problems)
    return found


_Contradiction = tuple[str, str, str]


def _contradictions(found: Declaration) -> Iterator[_Contradiction]:
    yield from _versions(found)
    yield from _driver(found)
    yield from _words(found)
    yield from _time(found.time_source)
    if found.power_limit_w is not None and found.power_limit_w <= 0:
        yield (
            "power_limit_w",
            f"is {found.power_limit_w}, expected watts above 0.",
            "state the limit of one GPU in watts",
        )
    for name in ("size_2m", "size_1g"):
        if found.hugepages and getattr(found.hugepages, name) < 0:
            yield f"hugepages.{name}", "is negative.", "state how many pages, 0 for none"


def _versions(found: Declaration) -> Iterator[_Contradiction]:
    configured = {
        "driver": found.driver and found.driver.version,
        "dcgm": found.dcgm and found.dcgm.version,
        "container_toolkit": found.container_toolkit and found.container_toolkit.version,
        "ofed": found.ofed and found.ofed.kind == "doca" and (found.ofed.version or "nothing"),
    }
    for part, version in configured.items():
        if version and not _VERSION.fullmatch(version):
            hint = "state the whole version, such as 580.95.05: a branch is no pin"
            yield f"{part}.version", f"is {version!r}, expected one exact version.", hint


def _driver(found: Declaration) -> Iterator[_Contradiction]:
    driver = found.driver
    if not driver or not _VERSION.fullmatch(driver.version):
        needs = {"nvlink": found.nvlink and found.nvlink.services != "none", "dcgm": found.dcgm}
        for part in (part for part, configured in needs.items() if configured and not driver):
            yield part, "is declared without driver, whose version decides its packages.", "declare driver.version too"
        return
    if driver.modules == "proprietary" and driver.branch > _LAST_PROPRIETARY_BRANCH:
        yield "driver.modules", f"is proprietary; branch {driver.branch} has open modules only.", "state open"
    if driver.modules == "open" and driver.branch < _FIRST_OPEN_BRANCH:
        yield "driver.modules", f"is open; branch {driver.branch} has proprietary modules only.", "state proprietary"
    if found.gpu_direct == "dma-buf" and driver.modules == "proprietary":
        yield "gpu_direct", "is dma-buf, which needs the open modules.", "state driver.modules: open, or peermem"
    if found.nvlink and found.nvlink.services == "imex" and not found.nvlink.imex_nodes:
        yield "nvlink.imex_nodes", "is empty.", "state the addresses of all trays, in one order"


def _words(found: Declaration) -> Iterator[_Contradiction]:
    for key, value in found.sysctl.items():
        if not _SYSCTL.fullmatch(key) or "\n" in value:
            yield f"sysctl.{key}", "is no name and value of sysctl.", 'write it as net.core.rmem_max: "536870912"'
    for argument in found.kernel_arguments:
        if not _ARGUMENT.fullmatch(argument) or '"' in argument or "'" in argument:
            yield "kernel_arguments", f"{argument!r} is not one argument.", "state a list with one argument each"
    for unit in (name for name in found.service_limits if not _NAME.fullmatch(name)):
        yield f"service_limits.{unit}", "is no name of a unit.", "state it without .service, such as kubelet"
    for key in (key for limits in found.service_limits.values() for key in limits if not key.startswith("Limit")):
        yield f"service_limits: {key}", "is no limit of a unit.", "see systemd.exec(5), such as LimitMEMLOCK"
    for module in (name for name in found.module_options if not _NAME.fullmatch(name)):
        yield f"module_options.{module}", "is no name of a module.", "state it as modinfo does"
    for host in (host for host in (found.nvlink.imex_nodes if found.nvlink else ()) if not _NAME.fullmatch(host)):
        yield "nvlink.imex_nodes", f"{host!r} is no address.", "state addresses, one each"


def _time(source: TimeSource | None) -> Iterator[_Contradiction]:
    if source and source.kind == "chrony" and not source.servers:
        yield "time_source.servers", "is empty.", "state the time servers"
    if source and source.kind == "ptp" and not _NAME.fullmatch(source.interface):
        yield "time_source.interface", "is no network interface.", "state the interface that has the PTP clock"
    for server in (server for server in (source.servers if source else ()) if not _NAME.fullmatch(server)):
        yield "time_source.servers", f"{server!r} is no name or address.", "state names or addresses"
