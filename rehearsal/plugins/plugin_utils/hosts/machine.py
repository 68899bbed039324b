# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders the tools' output about the machine without its GPUs: size, disks, programs, mounts, sensors.

`df` in POSIX form (GNU coreutils, src/df.c), `ps` (procps-ng), `findmnt -r` (util-linux), `nvme smart-log -o json`
(linux-nvme/nvme-cli, nvme-print-json.c), `ipmitool sdr` (ipmitool, lib/ipmi_sdr.c), `lscpu` (util-linux,
sys-utils/lscpu.c), `free` (procps-ng, src/free.c).
"""

from __future__ import annotations

import json

from ..model.values import Node

_DISK_KIB = 959_786_032
_LOG_KIB = 8_192_000
_PROCESSES = 1873
_PROCESSORS = 192
_SENSORS = (
    ("Inlet Temp", "24 degrees C"), ("CPU1 Temp", "51 degrees C"), ("Fan1", "8160 RPM"), ("Fan2", "8040 RPM"),
    ("PS1 Input Power", "1480 Watts"), ("PS2 Input Power", "1472 Watts"), ("PS Redundancy", "0x00"),
)  # fmt: skip


def outputs(node: Node) -> dict[str, str]:
    """Return the output of the tools by file."""
    return {
        "df.txt": _disks(node),
        "ps.txt": _processes(node),
        "mounts.txt": "".join(f"{path} nfs4 {node.setup.mount_options}\n" for path in node.setup.mounts),
        "nvme.txt": "".join(f"/sys/class/nvme/nvme{number}\n" for number in range(node.setup.nvme_drives)),
        **{f"nvme{number}.json": _smart_log(node, number) for number in range(node.setup.nvme_drives)},
        "sensors.txt": _sensors(node),
        "lscpu.txt": _processors(node),
        "free.txt": _memory(node),
        "sysctl.txt": "".join(f"/proc/sys/{name}:{text}\n" for name, text in node.setup.sysctls.items()),
        "cmdline.txt": f"{node.setup.cmdline}\n" if node.setup.cmdline else "",
        "clock-source.txt": f"{node.setup.clock_source}\n",
        "module-licence.txt": f"{node.setup.module_licence}\n",
    }


def _processors(node: Node) -> str:
    """Return the output of lscpu for two sockets with two threads per core. Offline CPUs are listed separately."""
    there, running = max(node.setup.processors, _PROCESSORS), node.setup.processors
    off = [("Off-line CPU(s) list", f"{running}-{there - 1}")] if running < there else []
    rows = [
        ("Architecture", "x86_64"), ("CPU(s)", str(there)), ("On-line CPU(s) list", f"0-{running - 1}"), *off,
        ("Model name", node.setup.processor), ("Thread(s) per core", "2"), ("Core(s) per socket", str(there // 4)),
        ("Socket(s)", "2"), ("NUMA node(s)", "2"),
    ]  # fmt: skip
    return "".join(f"{name + ':':<25}{text}\n" for name, text in rows)


def _memory(node: Node) -> str:
    total = (node.setup.memory_gib << 30) - (node.setup.reserved_mib << 20)
    used = total // 50
    title = "               total        used        free      shared  buff/cache   available\n"
    rest = "8388608 4194304"
    return f"{title}Mem:    {total} {used} {total - used} {rest} {total - used}\nSwap: 0 0 0\n"


def _disks(node: Node) -> str:
    used = _DISK_KIB * node.setup.root_used_percent // 100
    rows = [("/dev/nvme0n1p2", _DISK_KIB, used, "/"), ("/dev/nvme0n1p3", _LOG_KIB, _LOG_KIB // 5, "/var/log")]
    title = "Filesystem     1024-blocks      Used Available Capacity Mounted on\n"
    return title + "".join(
        f"{device:<15}{size:>11}{taken:>10}{size - taken:>10} {taken * 100 // size:>7}% {place}\n"
        for device, size, taken, place in rows
    )


def _processes(node: Node) -> str:
    """Return every waiting process as the tool prints it. One kernel thread always waits on these hosts."""
    rows = ["    311       2 D      172800 kworker/u900:2+flush"]
    if node.setup.stuck:
        rows.append(f"  71412    1998 D+       7260 {node.setup.stuck}")
    rows += [f"{9000 + number:>7}    1998 Sl       7200 python3" for number in range(_PROCESSES - len(rows))]
    return "".join(f"{row}\n" for row in rows)


def _smart_log(node: Node, number: int) -> str:
    first = number == 0
    return json.dumps(
        {
            "critical_warning": node.setup.nvme_warning if first else 0,
            "temperature": 308, "avail_spare": 100, "spare_thresh": 10,
            "percent_used": node.setup.nvme_used_percent if first else 3,
            "data_units_read": 41234567, "power_on_hours": 8121, "unsafe_shutdowns": 12, "media_errors": 0,
        }
    )  # fmt: skip


def _sensors(node: Node) -> str:
    """Return the sensors. A virtual machine has no BMC."""
    if node.virtualisation != "none":
        return ""
    rows = [f"{name:<16} | {reading:<17} | ok" for name, reading in _SENSORS]
    return "".join(f"{row}\n" for row in [*rows, *([node.setup.sensor] if node.setup.sensor else [])])
