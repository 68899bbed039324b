# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders what `mlxlink -m -c` prints on a simulated host, in the form of MFT 4.24 on a ConnectX-6 (a published output)
and with the fields of Mellanox/mstflint, mlxlink/modules."""

from __future__ import annotations

from ..model.values import Hca, Node

_SPEEDS = {100: "EDR", 200: "HDR", 400: "NDR", 800: "XDR"}
_WIDTH = 32


def every_port(node: Node) -> str:
    """Return the outputs of all adapters, each below a line with its name, from which the simulated tool takes one."""
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
