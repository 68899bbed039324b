# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A short sample of what each network and host tool prints, and what its parser must make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.nodes import (
    cpu_governor,
    dcgm_health,
    efa_devices,
    host_size_uniform,
    partition_keys,
    roce_setup,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import (
    dmidecode,
    ethtool_stats,
    ibv_devinfo,
    mlxlink,
    rdma_link,
)

Stated = tuple[Callable[[Any], Any], Any]
Sample = tuple[Callable[[Any], Any], str]
# Printed as JSON, which may stand on one line of any length.
DOCUMENTS = {"rdma_link_json", "dcgmi_health", "fio", "imex_domain"}
MORE_SAMPLES: dict[str, Sample] = {
    "mlxlink": (
        mlxlink.parse,
        "===== mlx5_0 =====\n\nOperational Info\n----------------\nState                           : Active\n"
        "Physical state                  : LinkUp\nWidth                           : 4x\n\n"
        "Physical Counters and BER Info\n------------------------------\nEffective Physical Errors       : 0\n"
        "Effective Physical BER          : 15E-255\nRaw Physical Errors Per Lane    : 31,0,2,7\n"
        "Raw Physical BER                : 4E-9\n\nModule Info\n-----------\n"
        "Temperature [C]                 : 56 [-5..75]\n",
    ),
    "mlxlink_json": (
        mlxlink.parse,
        '{"result": {"output": {"Operational Info": {"State": "Active", "Width": "4x"}, "Physical Counters and BER '
        'Info": {"Raw Physical BER": "1E-7", "Raw Physical Errors Per Lane": {"values": ["3", "4"]}}}}, '
        '"status": {"code": 0, "message": "success"}}',
    ),
    "rdma_link": (rdma_link.parse, "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth0 \n"),
    "rdma_link_json": (
        rdma_link.parse,
        '[{"ifindex":0,"ifname":"mlx5_0","port":1,"state":"DOWN","physical_state":"DISABLED","netdev":"eth0"}]',
    ),
    "show_gids": (
        roce_setup.parse_show_gids,
        "DEV     PORT    INDEX   GID                                     IPv4            VER     DEV\n"
        "---     ----    -----   ---                                     ------------    ---     ---\n"
        "mlx5_0  1       3       0000:0000:0000:0000:0000:ffff:c0a8:0684 192.168.6.132   v2      eth0\n"
        "n_gids_found=1\n",
    ),
    "gid_table": (
        roce_setup.parse_gid_table,
        "/sys/class/infiniband/mlx5_0/ports/1/gids/3:0000:0000:0000:0000:0000:ffff:0a00:010c\n"
        "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3:RoCE v2\n"
        "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/3:eth0\n",
    ),
    "ibv_devinfo": (
        ibv_devinfo.parse,
        "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
        "\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t1024 (3)\n\t\t\tlink_layer:\t\tEthernet\n",
    ),
    "pkeys": (
        partition_keys.parse,
        "/sys/class/infiniband/mlx5_0/ports/1/pkeys/0:0xffff\n/sys/class/infiniband/mlx5_0/ports/1/pkeys/1:0x0001\n",
    ),
    "cpu_governors": (cpu_governor.parse, "    190 performance\n      2 powersave\n"),
    "lscpu": (
        host_size_uniform.parse_lscpu,
        "Architecture:            x86_64\nCPU(s):                  192\nOn-line CPU(s) list:     0-95,97-191\n"
        "Model name:              Intel(R) Xeon(R) Platinum 8468\nThread(s) per core:      2\nSocket(s):  2\n"
        "NUMA node(s):            2\n",
    ),
    "free": (
        host_size_uniform.parse_free,
        "               total        used        free      shared  buff/cache   available\n"
        "Mem:   2164199866368 43283997327 2120915869041 8388608 4194304 2120915869041\nSwap:  0 0 0\n",
    ),
    "mlnx_qos": (
        roce_setup.parse_mlnx_qos,
        "DCBX mode: OS controlled\nPriority trust state: dscp\ndscp2prio mapping:\n\tprio:3 dscp:26,24,\n"
        "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
        "\tenabled     0   0   0   1   0   0   0   0   \ntc: 3 ratelimit: unlimited, tsa: ets, bw: 50%\n"
        "\t priority:  3\n",
    ),
    "ethtool_stats": (
        ethtool_stats.parse,
        "===== eth0 =====\nNIC statistics:\n     rx_discards_phy: 17\n     rx_prio3_pause: 0\n",
    ),
    "dcgmi_health": (
        dcgm_health.parse,
        '{"body": {"Overall Health": {"value": "Warning"}, "GPU": {"children": {"0": {"children": {"Errors": '
        '{"value": "PCIe replays"}}}}}}, "header": ["Health Monitor Report"]}',
    ),
    "fi_info": (
        efa_devices.parse,
        "provider: efa\n    fabric: efa\n    domain: rdmap49s0-rdm\n    version: 201.0\n    type: FI_EP_RDM\n"
        "    protocol: FI_PROTO_EFA\n",
    ),
    "dmidecode": (
        dmidecode.parse,
        "# dmidecode 3.3\nGetting SMBIOS data from sysfs.\nSMBIOS 3.3.0 present.\n\n"
        "Handle 0x0000, DMI type 0, 26 bytes\nBIOS Information\n\tVendor: Dell Inc.\n\tVersion: 2.1.3\n"
        "\tCharacteristics:\n\t\tPCI is supported\n\t\tBoot from CD is supported\n",
    ),
}
MORE_STATED: dict[str, Stated] = {
    "mlxlink": (
        lambda ports: [
            (p.device, p.state, p.width, p.effective_ber, p.raw_ber, p.temperature_c, p.temperature_limit_c,
             p.raw_errors_per_lane) for p in ports
        ],
        [("mlx5_0", "Active", 4, 0.0, 4e-9, 56.0, 75.0, (31, 0, 2, 7))],
    ),
    "mlxlink_json": (
        lambda ports: [(p.device, p.state, p.width, p.raw_ber, p.raw_errors_per_lane, p.complaint) for p in ports],
        [("", "Active", 4, 1e-7, (3, 4), "")],
    ),
    "rdma_link": (lambda links: [(x.device, x.port, x.up, x.netdev) for x in links], [("mlx5_0", 1, True, "eth0")]),
    "rdma_link_json": (
        lambda links: [(x.device, x.port, x.up, x.netdev) for x in links], [("mlx5_0", 1, False, "eth0")]
    ),
    "show_gids": (
        lambda gids: [(g.device, g.index, g.ipv4, g.version, g.netdev) for g in gids],
        [("mlx5_0", 3, "192.168.6.132", "v2", "eth0")],
    ),
    "gid_table": (
        lambda gids: [(g.device, g.index, g.ipv4, g.version, g.netdev) for g in gids],
        [("mlx5_0", 3, "10.0.1.12", "v2", "eth0")],
    ),
    "ibv_devinfo": (
        lambda ports: [(p.device, p.port, p.state, p.mtu, p.max_mtu, p.link_layer) for p in ports],
        [("mlx5_0", 1, "PORT_ACTIVE", 1024, 4096, "Ethernet")],
    ),
    "pkeys": (lambda ports: [(p.port, p.keys) for p in ports], [("mlx5_0:1", (1, 0xFFFF))]),
    "cpu_governors": (lambda found: found, {"performance": 190, "powersave": 2}),
    "lscpu": (
        lambda found: (found.count, found.online, found.text()),
        (192, 191, "191 x Intel(R) Xeon(R) Platinum 8468 (1 are off), 2 sockets, 2 threads a core, 2 NUMA nodes"),
    ),
    "free": (lambda found: found, 2164199866368),
    "mlnx_qos": (
        lambda ports: [(p.trust, p.pfc, p.dscp, [(c.number, c.priorities) for c in p.classes]) for p in ports],
        [("dscp", (3,), {26: 3, 24: 3}, [(3, (3,))])],
    ),
    "ethtool_stats": (
        lambda found: [(d.port, d.counters) for d in found],
        [("eth0", {"rx_discards_phy": 17, "rx_prio3_pause": 0})],
    ),
    "dcgmi_health": (
        lambda health: (health.overall, [(line.place, line.text) for line in health.lines]),
        ("Warning", [("GPU / 0 / Errors", "PCIe replays")]),
    ),
    "fi_info": (lambda found: [(e.provider, e.domain) for e in found], [("efa", "rdmap49s0-rdm")]),
    "dmidecode": (
        lambda table: [(r.title, r.value("Version"), r.value("Characteristics")) for r in table.of_kind(0)],
        [("BIOS Information", "2.1.3", "PCI is supported, Boot from CD is supported")],
    ),
}  # fmt: skip
