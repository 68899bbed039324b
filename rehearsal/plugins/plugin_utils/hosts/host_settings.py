# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders the setup of a simulated host in the output formats of its tools.

`systemctl show` prints limits as systemd.exec(5) names them, `infinity` or a number of bytes or files (systemd:
src/core/dbus-execute.c, src/systemctl/systemctl-show.c); scaling_governor: Linux,
Documentation/admin-guide/pm/cpufreq.rst; `stat -f` prints the file systems of control groups as cgroup2fs and tmpfs
(GNU coreutils, src/stat.c, human_fstype; Kubernetes' page "About cgroup v2" queries it in the same way). Partition
keys: Linux, Documentation/ABI/stable/sysfs-class-infiniband; the table of an adapter has 128 entries, most of them
empty. Counters of EFA: Linux, drivers/infiniband/hw/efa/efa_verbs.c (efa_port_stats_descs), in
/sys/class/infiniband/<device>/ports/1/hw_counters.
"""

from __future__ import annotations

from ..model.values import Node

_POLICIES = 192
_EFA_COUNTERS = (
    "rx_drops", "retrans_bytes", "retrans_pkts", "retrans_timeout_events", "impaired_remote_conn_events",
    "unresponsive_remote_events",
)  # fmt: skip


def outputs(node: Node) -> dict[str, str]:
    """Return the output of the tools by file."""
    setup = node.setup
    return {
        "limits.txt": f"LimitMEMLOCK={setup.memlock}\nLimitNOFILE={setup.nofile}\nTasksMax=infinity\n",
        "governors.txt": f"{setup.governor}\n" * _POLICIES if setup.governor else "",
        "cgroup.txt": f"{setup.cgroup}\n",
        "pkeys.txt": "".join(
            f"/sys/class/infiniband/{hca.name}/ports/1/pkeys/{index}:{key}\n"
            for hca in node.all_hcas
            for index, key in enumerate(hca.setup.pkeys)
        ),
        "efa-counters.txt": _efa_counters(node),
    }


def _efa_counters(node: Node) -> str:
    lines: list[str] = []
    for hca in node.present_hcas if node.fabric == "efa" else ():
        values = dict.fromkeys(_EFA_COUNTERS, 0) | {"rx_drops": hca.setup.drops}
        place = f"/sys/class/infiniband/{hca.name}/ports/1/hw_counters"
        lines += [f"{place}/{name}:{value}" for name, value in values.items()]
    return "".join(f"{line}\n" for line in lines)
