# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a simulated host is set up beside its GPUs: limits of its units, clocks of its processors, control groups, and
what its network ports are told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSetup:
    """`memlock` and `nofile` are limits of every unit as systemd prints them, `governor` is that of all processors
    (empty: the kernel sets no frequency, as in a virtual machine), `cgroup` the file system at /sys/fs/cgroup."""

    memlock: str = "infinity"
    nofile: str = "1048576"
    governor: str = "performance"
    cgroup: str = "cgroup2fs"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSetup:
    """`pkeys` are the partition keys that the subnet manager gave an InfiniBand port, as the kernel prints them,
    `drops` the packets that an EFA device had no buffer for."""

    pkeys: tuple[str, ...] = ("0xffff",)
    drops: int = 0
