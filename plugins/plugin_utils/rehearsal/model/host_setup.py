# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a simulated host is set up beside its GPUs: limits of its units, clocks of its processors, control groups, and
what its network ports are told."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetup:
    """`memlock` and `nofile` are limits of every unit as systemd prints them, `governor` is that of all processors
    (empty: the kernel sets no frequency, as in a virtual machine), `cgroup` the file system at /sys/fs/cgroup.
    `root_used_percent` is how full the root file system is, `stuck` a program that waits for ever, `module_licence`
    that of the driver's kernel module. Of its `nvme_drives` the first has the warning bits `nvme_warning` and is worn
    to `nvme_used_percent`. `mounts` are its file systems of the network, with `mount_options`. `sensor` is one more
    sensor of its management controller, as `ipmitool sdr` prints it; `imex` what its IMEX service says where it has
    one. So many `processors` of the kind `processor` run, `clock_source` keeps the kernel's time, and main memory is
    `memory_gib` less the `reserved_mib` that its firmware keeps. `sysctls` are settings of its kernel, by name, that
    are not those of the machine below, `cmdline` its parameters of the boot, empty for those of the machine below."""

    memlock: str = "infinity"
    nofile: str = "1048576"
    governor: str = "performance"
    cgroup: str = "cgroup2fs"
    root_used_percent: int = 31
    stuck: str = ""
    module_licence: str = "Dual MIT/GPL"
    nvme_drives: int = 2
    nvme_warning: int = 0
    nvme_used_percent: int = 3
    mounts: tuple[str, ...] = ("/shared",)
    mount_options: str = "rw,relatime,vers=4.2,hard,proto=tcp"
    sensor: str = ""
    imex: str = "READY"
    processors: int = 192
    processor: str = "Intel(R) Xeon(R) Platinum 8468"
    memory_gib: int = 2048
    reserved_mib: int = 33210
    clock_source: str = "tsc"
    sysctls: dict[str, str] = field(default_factory=dict)
    cmdline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSetup:
    """`pkeys` are the partition keys that the subnet manager gave an InfiniBand port, as the kernel prints them,
    `drops` the packets that an EFA device or RoCE port had no buffer for, `ecn` the priorities on which a RoCE port
    marks and heeds congestion (the adapter's default: all). `slot` is the place of the adapter in its host, -1 for
    that of its rail."""

    pkeys: tuple[str, ...] = ("0xffff",)
    drops: int = 0
    ecn: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
    slot: int = -1
