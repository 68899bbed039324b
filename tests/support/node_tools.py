# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tools of the network print on a host of a small fleet, by the adapters that it has and what they say."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools


def network_texts(hcas: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the outputs by tool; every adapter may state words of its own."""
    roce = {name: values for name, values in hcas.items() if values.get("layer") == "Ethernet"}
    gids = [row for name, values in roce.items() for row in _gids(name, values)]
    texts = {
        "mlxlink": [_link(name, values) for name, values in hcas.items()],
        "rdma_link": [f"link {name}/1 state ACTIVE physical_state LINK_UP netdev en{name} \n" for name in hcas],
        "show_gids": ["DEV PORT INDEX GID IPv4 VER DEV\n", *gids, f"n_gids_found={len(gids)}\n"],
        "ibv_devinfo": [_devinfo(name, values) for name, values in hcas.items()],
        "fi_info": [_entry(name, fabric) for fabric in ("efa-direct", "efa") for name in hcas],
        "ethtool_stats": [
            f"===== {name} =====\nNIC statistics:\n     rx_discards_phy: 7\n     tx_discards_phy: 0\n"
            for name in hcas or ("none",)
        ],
        "pkeys": [
            f"/sys/class/infiniband/{name}/ports/1/pkeys/{index}:{key}\n"
            for name, values in (hcas or {"none": {}}).items()
            for index, key in enumerate(values.get("pkeys", "0xffff 0x8001").split())
        ],
        "mlnx_qos": [_qos(name, values) for name, values in (roce or {"none": {}}).items()],
    }
    printed = {tool.name: tool.healthy for tool in load_host_tools().tools if tool.healthy}
    printed |= {tool: "".join(lines) for tool, lines in texts.items()}
    return printed | {
        "dmidecode": (
            "# dmidecode 3.3\nSMBIOS 3.3.0 present.\n\nHandle 0x0000, DMI type 0, 26 bytes\nBIOS Information\n"
            "\tVersion: 2.1.3\n\nHandle 0x0100, DMI type 1, 27 bytes\nSystem Information\n"
            "\tManufacturer: Dell Inc.\n\tProduct Name: PowerEdge XE9680\n"
        ),
        "sysctl": "/proc/sys/kernel/numa_balancing:0\n/proc/sys/vm/nr_hugepages:0\n/proc/sys/vm/zone_reclaim_mode:0\n",
        "kernel_cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=1 ro iommu=pt\n",
        "roce_ecn": "".join(
            f"/sys/class/net/en{name}/ecn/roce_{side}/enable/{number}:{_on(values, number)}\n"
            for name, values in roce.items()
            for side in ("np", "rp")
            for number in range(8)
        )
        or "no ECN settings\n",
        "lscpu": "CPU(s):  192\nOn-line CPU(s) list:  0-191\nModel name:  Xeon\nSocket(s):  2\n",
        "free": "     total used free\nMem: 2164199866368 43283997327 2120915869041 0 0 2120915869041\nSwap: 0 0 0\n",
        "clock_source": "tsc\n",
        "waiting_processes": "".join(f"===== {n} =====\nprocesses 812\n" for n in (1, 2, 3)),
        "nvme_health": "".join(
            f'===== {name} =====\n{{"critical_warning": 0, "temperature": 308, "avail_spare": 100, '
            '"spare_thresh": 10, "percent_used": 3, "media_errors": 0}\n'
            for name in ("nvme0", "nvme1")
        )
        + "===== end =====\n",
        "network_mounts": "/shared nfs4 rw,relatime,vers=4.2\n",
        "module_licence": "Dual MIT/GPL\n",
        "ipmi_sensors": "Inlet Temp       | 24 degrees C      | ok\nFan1             | 8160 RPM          | ok\n",
        "imex_domain": '{"nodes": {"0": {"status": "READY", "host": "10.0.0.1"}}, "status": "UP"}',
        "dcgmi_health": '{"body": {"Overall Health": {"value": "Healthy"}}, "header": ["Health Monitor Report"]}',
    }


def _on(values: Mapping[str, str], number: int) -> int:
    return int(str(number) in values.get("ecn", "01234567"))


def _gids(name: str, values: Mapping[str, str]) -> list[str]:
    """Its address at the index that it states, by default 3, else none."""
    index = values.get("gid", "3")
    local = f"{name} 1 0 fe80:0000:0000:0000:9640:c9ff:fe8c:a09c v2 en{name}\n"
    routable = f"{name} 1 {index} 0000:0000:0000:0000:0000:ffff:c0a8:0684 192.168.6.132 v2 en{name}\n"
    return [local, routable] if index else [local]


def _entry(name: str, fabric: str) -> str:
    return (
        f"provider: efa\n    fabric: {fabric}\n    domain: {name}-rdm\n    version: 201.0\n    type: FI_EP_RDM\n"
        "    protocol: FI_PROTO_EFA\n"
    )


def _devinfo(name: str, values: Mapping[str, str]) -> str:
    return (
        f"hca_id:\t{name}\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t\t4096 (5)\n"
        f"\t\t\tactive_mtu:\t\t{values.get('mtu', '4096 (5)')}\n\t\t\tlink_layer:\t\tEthernet\n"
    )


def _qos(name: str, values: Mapping[str, str]) -> str:
    return (
        f"===== en{name} =====\nPriority trust state: {values.get('trust', 'dscp')}\nPFC configuration:\n"
        f"\tenabled     {values.get('pfc', '0   0   0   1   0   0   0   0')}\n"
    )


def _link(name: str, values: Mapping[str, str]) -> str:
    v = {"link": "Active", "ber": "15E-255", "raw": "4E-9", "module": "52 [-5..75]"} | values
    return (
        f"===== {name} =====\nState : {v['link']}\nEffective Physical BER : {v['ber']}\n"
        f"Raw Physical BER : {v['raw']}\nTemperature [C] : {v['module']}\n"
    )
