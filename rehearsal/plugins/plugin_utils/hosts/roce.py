# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders the output of tools for RDMA, RoCE and EFA, and of mlxlink, on a simulated host."""

from __future__ import annotations

from ..model.values import Hca, Node

# Output of `rdma link`, `show_gids`, `ibv_devinfo`, `mlnx_qos` and `fi_info` on a simulated host, in the formats of
# published outputs (iproute2, MLNX_OFED, rdma-core, libfabric).

_STATES = {"Active": "ACTIVE (4)", "Initializing": "INIT (2)", "Armed": "ARMED (3)", "Down": "DOWN (1)"}
_MTU = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
_DSCP = 8


def netdev(hca: Hca) -> str:
    """Return the name of the network device of an adapter."""
    prefix = "en" if hca.link_layer == "Ethernet" else "ib"
    return f"{prefix}{hca.name.rpartition('mlx5_')[2]}"


def rdma_link(node: Node) -> str:
    lines = []
    for hca in node.all_hcas:
        state = _STATES[hca.state].partition(" ")[0]
        physical = {"LinkUp": "LINK_UP", "Polling": "POLLING", "Disabled": "DISABLED"}[hca.physical_state]
        fabric = (
            "" if hca.link_layer == "Ethernet" else f"subnet_prefix fe80:0000:0000:0000 lid {hca.lid} sm_lid 1 lmc 0 "
        )
        lines.append(f"link {hca.name}/1 {fabric}state {state} physical_state {physical} netdev {netdev(hca)} ")
    return "".join(f"{line}\n" for line in lines)


def show_gids(node: Node) -> str:
    rows = []
    for hca in (hca for hca in node.all_hcas if hca.link_layer == "Ethernet"):
        address = f"10.{hca.index}.{int(hca.guid, 16) >> 8 & 255}.{int(hca.guid, 16) & 255}"
        high, low = (int(part) for part in address.split(".")[:2]), (int(part) for part in address.split(".")[2:])
        words = ":".join("".join(f"{part:02x}" for part in pair) for pair in (high, low))
        local = f"fe80:0000:0000:0000:{int(hca.guid, 16):016x}"
        spelt = ":".join([*local.split(":")[:4], *(local[20:][n : n + 4] for n in range(0, 16, 4))])
        mapped = f"0000:0000:0000:0000:0000:ffff:{words}"
        entries = [(spelt, "", "v1"), (spelt, "", "v2")]
        if hca.routable:
            entries += [(mapped, address, "v1"), (mapped, address, "v2")]
        rows += [
            f"{hca.name}\t1\t{index}\t{gid}\t{ipv4:<15}\t{version}\t{netdev(hca)}"
            for index, (gid, ipv4, version) in enumerate(entries)
        ]
    title = (
        "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
    )
    return title + "".join(f"{row}\n" for row in rows) + f"n_gids_found={len(rows)}\n"


def ibv_devinfo(node: Node) -> str:
    blocks = []
    for hca in node.all_hcas:
        guid = f"{int(hca.guid, 16):016x}"
        parted = ":".join(guid[n : n + 4] for n in range(0, 16, 4))
        blocks.append(
            f"hca_id:\t{hca.name}\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t{hca.firmware}\n"
            f"\tnode_guid:\t\t\t{parted}\n\tsys_image_guid:\t\t\t{parted}\n\tvendor_id:\t\t\t0x02c9\n"
            f"\tvendor_part_id:\t\t\t{hca.model.removeprefix('MT')}\n\thw_ver:\t\t\t\t0x0\n\tphys_port_cnt:\t\t\t1\n"
            f"\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_{_STATES[hca.state]}\n\t\t\tmax_mtu:\t\t4096 (5)\n"
            f"\t\t\tactive_mtu:\t\t{hca.mtu} ({_MTU[hca.mtu]})\n\t\t\tsm_lid:\t\t\t{hca.sm_lid}\n"
            f"\t\t\tport_lid:\t\t{hca.lid}\n\t\t\tport_lmc:\t\t0x00\n\t\t\tlink_layer:\t\t{hca.link_layer}\n"
        )
    return "\n".join(blocks)


def mlnx_qos(node: Node) -> str:
    """Return the output for all RoCE network devices, each below a line with its name."""
    found = []
    for hca in (hca for hca in node.all_hcas if hca.link_layer == "Ethernet"):
        on = "".join(f"   {int(number in node.pfc)}" for number in range(8)).removeprefix("   ")
        points = "".join(
            f"\tprio:{number} dscp:{''.join(f'{number * _DSCP + n:02d},' for n in range(_DSCP - 1, -1, -1))}\n"
            for number in range(8)
        )
        found.append(
            f"===== {netdev(hca)} =====\nDCBX mode: OS controlled\nPriority trust state: dscp\ndscp2prio mapping:\n"
            f"{points}"
            "Receive buffer size (bytes): 130944,130944,0,0,0,0,0,0,max_buffer_size=262016\nCable len: 7\n"
            "PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n"
            f"\tenabled     {on}   \n\tbuffer      {on}   \n"
            "tc: 0 ratelimit: unlimited, tsa: vendor\n\t priority:  1\n"
        )
    return "".join(found)


def ecn(node: Node) -> str:
    """Return the ECN settings of all RoCE ports as `grep -H` prints them.

    Source: MLNX_OFED and DOCA manuals, "Explicit Congestion Notification". A virtual function has none.
    """
    if node.virtualisation != "none":
        return ""
    return "".join(
        f"/sys/class/net/{netdev(hca)}/ecn/roce_{side}/enable/{number}:{int(number in hca.setup.ecn)}\n"
        for hca in node.all_hcas
        if hca.link_layer == "Ethernet"
        for side in ("np", "rp")
        for number in range(8)
    )


def fi_info(node: Node) -> str:
    """Return libfabric's output for EFA devices, each of which is in two fabrics; empty on hosts without EFA."""
    if node.fabric != "efa":
        return ""
    return "".join(
        f"provider: efa\n    fabric: {fabric}\n    domain: rdmap{hca.index + 49}s0-rdm\n    version: 201.0\n"
        "    type: FI_EP_RDM\n    protocol: FI_PROTO_EFA\n"
        for fabric in ("efa-direct", "efa")
        for hca in node.present_hcas
    )


_DISCARDED = "rx_discards_phy"


def nic_counters(node: Node) -> str:
    """Return the output of `ethtool -S` for every network device, each below a line with its name. Names are mlx5's."""
    counters = ("rx_packets_phy", "tx_packets_phy", "rx_discards_phy", "tx_discards_phy", "rx_prio3_pause")
    return "".join(
        f"===== {netdev(hca)} =====\nNIC statistics:\n"
        + "".join(f"     {name}: {hca.setup.drops if name == _DISCARDED else 0}\n" for name in counters)
        for hca in node.all_hcas
    )


# Output of `mlxlink -m -c` on a simulated host, in the format of MFT 4.24 on a ConnectX-6 (a published output) and with
# the fields of Mellanox/mstflint, mlxlink/modules.

_SPEEDS = {100: "EDR", 200: "HDR", 400: "NDR", 800: "XDR"}
_WIDTH = 32


def every_port(node: Node) -> str:
    """Return the output for all adapters, each below a line with its name. The simulated tool selects one."""
    return "".join(f"===== {hca.name} =====\n{_port(hca)}" for hca in node.all_hcas)


def _port(hca: Hca) -> str:
    up = hca.physical_state == "LinkUp"
    infiniband = hca.link_layer == "InfiniBand"
    speed = f"IB-{_SPEEDS.get(hca.rate_gbps, 'NDR')}" if infiniband else f"{hca.rate_gbps}G"
    wrong = 0 if hca.effective_ber == "15E-255" else 4711
    sections: dict[str, tuple[tuple[str, str], ...]] = {
        "Operational Info": (
            ("State", "Active" if up else "Polling"),
            ("Physical state", "LinkUp" if infiniband and up else "ETH_AN_FSM_ENABLE" if up else "Polling"),
            ("Speed", speed if up else "N/A"),
            ("Width", "4x" if up else "N/A"),
            ("FEC", "Standard_RS-FEC - (544,514)" if up else "N/A"),
            ("Loopback Mode", "No Loopback"),
            ("Auto Negotiation", "ON"),
        ),
        "Troubleshooting Info": (
            ("Status Opcode", "0" if up else "2"),
            ("Group Opcode", "N/A" if up else "PHY FW"),
            ("Recommendation", "No issue was observed" if up else "Negotiation failure"),
        ),
        "Tool Information": (("Firmware Version", hca.firmware), ("MFT Version", "mft 4.31.0-149")),
        "Physical Counters and BER Info": (
            ("Time Since Last Clear [Min]", "10083.6" if up else "N/A"),
            ("Effective Physical Errors", str(wrong) if up else "N/A"),
            ("Effective Physical BER", hca.effective_ber if up else "N/A"),
            ("Raw Physical Errors Per Lane", "3183,2420,1068,1365" if up else "N/A"),
            ("Raw Physical BER", hca.raw_ber if up else "N/A"),
            ("Link Down Counter", str(hca.link_downed)),
            ("Link Error Recovery Counter", "0"),
        ),
        "Module Info": (
            ("Identifier", "OSFP"),
            ("Vendor Name", "NVIDIA"),
            ("Vendor Part Number", "MMA4Z00-NS400"),
            ("Vendor Serial Number", f"MT{int(hca.guid, 16) % 10**10:010d}"),
            ("Temperature [C]", f"{hca.module_c} [-5..75]"),
        ),
    }
    lines: list[str] = []
    for title, fields in sections.items():
        lines += [title, "-" * len(title), *(f"{name:<{_WIDTH}}: {value}" for name, value in fields), ""]
    return "".join(f"{line}\n" for line in lines)
