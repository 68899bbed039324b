# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Renders the output of system tools on a simulated host: lspci, ibstat, the kernel log, chronyc."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..model.values import Hca, Node
from .accelerators import PrintedFacts
from .pci_bridges import bridge_lines

_NIC_NAMES = {
    "MT4123": "MT28908 Family [ConnectX-6] [15b3:101b]",
    "MT4129": "MT2910 Family [ConnectX-7] [15b3:1021]",
    "MT41692": "MT43244 BlueField-3 integrated ConnectX-7 network controller [15b3:a2dc]",
    "MT4131": "CX8 Family [ConnectX-8] [15b3:1023]",
}
_PLAIN_DEVICES = (
    "0000:00:00.0 Host bridge [0600]: Intel Corporation Ice Lake Memory Map/VT-d [8086:09a2] (rev 20)",
    "0000:01:00.0 Non-Volatile memory controller [0108]: Samsung Electronics Co Ltd NVMe SSD Controller PM9A3 "
    "[144d:a80a]",
    "0000:02:00.0 Ethernet controller [0200]: Intel Corporation Ethernet Controller X550 [8086:1563] (rev 01)",
)
# Linux: Documentation/ABI/stable/sysfs-class-infiniband.
_PORT_COUNTERS = (
    "VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
    "local_link_integrity_errors", "port_rcv_constraint_errors", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_constraint_errors", "port_xmit_discards", "port_xmit_wait",
    "symbol_error",
)  # fmt: skip


def pci_devices(node: Node, facts: PrintedFacts) -> str:
    """Return the output of `lspci -Dnn`."""
    lines = [*_PLAIN_DEVICES, *bridge_lines(node)]
    title = facts.title if facts.title != "GPU" else f"Device {node.gpu_pci_id.partition(':')[2]}"
    lines += [
        f"{gpu.pci} 3D controller [0302]: NVIDIA Corporation {title} [{node.gpu_pci_id}] (rev a1)"
        for gpu in node.gpus_on_bus
    ]
    lines += [
        f"0000:{7 + n:02x}:00.0 Bridge [0680]: NVIDIA Corporation {facts.nvswitch} (rev a1)"
        for n in range(node.nvswitches if facts.nvswitch else 0)
    ]
    for hca in node.all_hcas:
        kind = "Infiniband controller [0207]" if hca.link_layer == "InfiniBand" else "Ethernet controller [0200]"
        lines.append(f"{hca.pci} {kind}: Mellanox Technologies {_NIC_NAMES[hca.model]}")
    return "".join(f"{line}\n" for line in sorted(lines))


def ibstat(node: Node) -> str:
    return "".join(_channel_adapter(hca) for hca in node.all_hcas)


def _channel_adapter(hca: Hca) -> str:
    up = hca.physical_state == "LinkUp"
    # A port that is not up reports the slowest rate. Without a subnet manager it has no LID.
    rate = hca.rate_gbps if up else 10
    addressed = hca.state == "Active" and hca.link_layer == "InfiniBand"
    lid, sm_lid = (hca.lid, hca.sm_lid) if addressed else (65535 if hca.link_layer == "InfiniBand" else 0, 0)
    mask = "0xa751e848" if hca.link_layer == "InfiniBand" else "0x00010000"
    lines = [
        f"CA '{hca.name}'",
        f"\tCA type: {hca.model}",
        "\tNumber of ports: 1",
        f"\tFirmware version: {hca.firmware}",
        "\tHardware version: 0",
        f"\tNode GUID: {hca.guid}",
        f"\tSystem image GUID: {hca.guid}",
        "\tPort 1:",
        f"\t\tState: {hca.state}",
        f"\t\tPhysical state: {hca.physical_state}",
        f"\t\tRate: {rate}",
        f"\t\tBase lid: {lid}",
        "\t\tLMC: 0",
        f"\t\tSM lid: {sm_lid}",
        f"\t\tCapability mask: {mask}",
        f"\t\tPort GUID: {hca.guid}",
        f"\t\tLink layer: {hca.link_layer}",
    ]
    return "".join(f"{line}\n" for line in lines)


def port_counters(node: Node) -> str:
    """Return the counters in /sys/class/infiniband as `grep -H` prints them."""
    lines: list[str] = []
    for hca in node.all_hcas:
        values = dict.fromkeys(_PORT_COUNTERS, 0) | {"link_downed": hca.link_downed, "port_xmit_wait": 1200}
        place = f"/sys/class/infiniband/{hca.name}/ports/1/counters"
        lines += [f"{place}/{name}:{value}" for name, value in values.items()]
    return "".join(f"{line}\n" for line in lines)


def dmi_tables(node: Node) -> str:
    """Return the output of `dmidecode -t 0,1,2`, in the format of a published output of dmidecode 3.3."""
    return (
        "# dmidecode 3.3\nGetting SMBIOS data from sysfs.\nSMBIOS 3.3.0 present.\n\n"
        "Handle 0x0000, DMI type 0, 26 bytes\nBIOS Information\n\tVendor: Example Inc.\n"
        f"\tVersion: {node.bios_version}\n"
        "\tRelease Date: 01/16/2026\n\tROM Size: 32 MB\n\tCharacteristics:\n\t\tPCI is supported\n\n"
        "Handle 0x0100, DMI type 1, 27 bytes\nSystem Information\n\tManufacturer: Example Inc.\n"
        f"\tProduct Name: {node.sku}\n\tVersion: Not Specified\n\tSerial Number: {node.serial}\n\n"
        "Handle 0x0200, DMI type 2, 8 bytes\nBase Board Information\n\tManufacturer: Example Inc.\n"
        f"\tProduct Name: 0ABC12\n\tSerial Number: {node.serial}.1\n\n"
    )


def kernel_logs(node: Node, booted: datetime) -> dict[str, str]:
    """Return the kernel log in the four formats of journalctl and dmesg."""
    forms: dict[str, list[str]] = {"journal-iso.txt": [], "journal.txt": [], "dmesg.txt": [], "dmesg-iso.txt": []}
    lines = [(line.at_s + n * line.every_s, line.text) for line in node.kernel_log for n in range(line.times)]
    for at_s, text in sorted(lines, key=lambda line: line[0]):
        when = booted + timedelta(seconds=at_s)
        stamp = when.strftime("%Y-%m-%dT%H:%M:%S")
        forms["journal-iso.txt"].append(f"{stamp}+00:00 {node.name} kernel: {text}")
        forms["journal.txt"].append(f"{when:%b %d %H:%M:%S} {node.name} kernel: {text}")
        forms["dmesg.txt"].append(f"[{at_s:12.6f}] {text}")
        forms["dmesg-iso.txt"].append(f"{stamp},{when.microsecond:06d}+00:00 {text}")
    return {name: "".join(f"{line}\n" for line in lines) for name, lines in forms.items()}


def chrony_tracking(node: Node, now: datetime) -> str:
    """Return the output of `chronyc tracking`."""
    clock = node.clock
    if not clock.synchronised:
        reference, stratum, when, offset, leap = "00000000 ()", 0, datetime(1970, 1, 1), 0.0, "Not synchronised"
    else:
        reference, stratum, when = f"C0000201 ({clock.reference})", clock.stratum, now
        offset, leap = clock.offset_s, "Normal"
    direction = "slow" if offset < 0 else "fast"
    spread = 0.0 if not clock.synchronised else max(abs(offset) * 2, 0.00002)
    rows = (
        ("Reference ID", reference),
        ("Stratum", str(stratum)),
        ("Ref time (UTC)", f"{when:%a %b %d %H:%M:%S %Y}"),
        ("System time", f"{abs(offset):.9f} seconds {direction} of NTP time"),
        ("Last offset", f"{offset:+.9f} seconds"),
        ("RMS offset", f"{spread:.9f} seconds"),
        ("Frequency", "2.192 ppm fast" if clock.synchronised else "0.000 ppm slow"),
        ("Residual freq", "+0.001 ppm" if clock.synchronised else "+0.000 ppm"),
        ("Skew", "0.026 ppm" if clock.synchronised else "0.000 ppm"),
        ("Root delay", "0.000411626 seconds" if clock.synchronised else "1.000000000 seconds"),
        ("Root dispersion", "0.018570010 seconds" if clock.synchronised else "1.000000000 seconds"),
        ("Update interval", "256.9 seconds" if clock.synchronised else "0.0 seconds"),
        ("Leap status", leap),
    )
    return "".join(f"{name:<16}: {text}\n" for name, text in rows)


def os_release(node: Node) -> str:
    short = ".".join(node.os_version.split(".")[:2])
    return (
        f'PRETTY_NAME="{node.os_name} {node.os_version} LTS"\nNAME="{node.os_name}"\nVERSION_ID="{short}"\n'
        f'VERSION="{node.os_version} LTS (Noble Numbat)"\nVERSION_CODENAME=noble\nID={node.os_name.lower()}\n'
        "ID_LIKE=debian\nUBUNTU_CODENAME=noble\n"
    )
