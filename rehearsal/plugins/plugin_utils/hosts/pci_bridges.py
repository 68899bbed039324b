# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders the PCI bridges of a simulated host: each GPU and the adapter beside it below one PCIe switch.

The lines are those of a Dell XE9680 with eight H100 (leptonai/gpud, pkg/pci/testdata/lspci-vvv): root port 15:01.0,
upstream port 16:00.0, downstream ports from 17:00.0 on, the GPU and its adapter on separate buses.
"""

from __future__ import annotations

from ..model.values import Node

_ROOT = "Intel Corporation Device [8086:352a] (rev 04)"
_SWITCH = "Broadcom / LSI PEX890xx PCIe Gen 5 Switch [1000:c030] (rev b0)"
_OFF = "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
_CAPABLE = "SrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl+ DirectTrans+"
# Distance of the root port's bus below that of its GPU. The adapter's bus is in between.
_ROOT_DISTANCE = 6


def bridge_lines(node: Node) -> list[str]:
    """Return the bridges as `lspci -Dnn` prints them."""
    return [f"{address} PCI bridge [0604]: {name}" for address, name, _buses, _port in _bridges(node)]


def bridge_details(node: Node) -> str:
    """Return the output of `lspci -Dnnvvv -d ::0604`, cut to the lines about buses, ports and ACS."""
    blocks = []
    for address, name, (primary, first, last), port in _bridges(node):
        control = _OFF if port == "Root Port (Slot-)" else node.acs
        blocks.append(
            f"{address} PCI bridge [0604]: {name} (prog-if 00 [Normal decode])\n"
            "\tControl: I/O+ Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr+ Stepping- SERR+ FastB2B- DisINTx+\n"
            f"\tBus: primary={primary:02x}, secondary={first:02x}, subordinate={last:02x}, sec-latency=0\n"
            f"\tCapabilities: [68] Express (v2) {port}, MSI 00\n"
            "\tCapabilities: [f24 v1] Access Control Services\n"
            f"\t\tACSCap:\t{_CAPABLE}\n\t\tACSCtl:\t{control}\n"
            "\tKernel driver in use: pcieport\n"
        )
    return "\n".join(blocks)


def _bridges(node: Node) -> list[tuple[str, str, tuple[int, int, int], str]]:
    """Return address, name, buses (primary, first below, last below) and kind of every bridge."""
    if node.nic_view == "hidden":
        return []
    slots: dict[tuple[str, int], list[int]] = {}
    devices = [gpu.pci for gpu in node.gpus_on_bus] + [hca.pci for hca in node.present_hcas]
    gpu_buses = sorted({int(gpu.pci[5:7], 16) for gpu in node.gpus})
    for address in devices:
        domain, bus = address[:4], int(address[5:7], 16)
        # An adapter is on a bus before that of the GPU beside it.
        place = next((top for top in gpu_buses if top - _ROOT_DISTANCE < bus <= top), bus)
        slots.setdefault((domain, place), []).append(bus)
    found: list[tuple[str, str, tuple[int, int, int], str]] = []
    for (domain, place), buses in sorted(slots.items()):
        root = place - _ROOT_DISTANCE
        found.append((f"{domain}:{root:02x}:01.0", _ROOT, (root, root + 1, place), "Root Port (Slot-)"))
        found.append((f"{domain}:{root + 1:02x}:00.0", _SWITCH, (root + 1, root + 2, place), "Upstream Port"))
        for port, bus in enumerate(sorted(set(buses))):
            address = f"{domain}:{root + 2:02x}:{port:02x}.0"
            found.append((address, _SWITCH, (root + 2, bus, bus), "Downstream Port (Slot+)"))
    return found
