# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines of the kernel log in which the kernel itself reports broken hardware: CPU, memory, PCIe, adapters, drives.

Sources: linux arch/x86/kernel/cpu/mce/core.c (`Machine Check: <global status> Bank n: <status>`; bit 61 of the status,
UC, says uncorrected: Intel SDM 15.3.2.2), drivers/edac/edac_mc.c (`EDAC MC0: 1 UE ...`), drivers/pci/pcie/aer.c
(`PCIe Bus Error: severity=Uncorrected (Fatal)`, from 6.9 on `Uncorrectable`), drivers/firmware/efi/cper.c (`event
severity: fatal`), drivers/net/ethernet/mellanox/mlx5/core/{events,health}.c (`Port module event[error]: module 0,
Cable error, High Temperature`, `device's health compromised - reached miss count`), drivers/nvme/host/pci.c
(`controller is down; will reset: CSTS=0xffffffff`, `Removing after probe failure status: -19`, `Disabling device after
reset failure`), block/blk-core.c (`critical medium error, dev nvme0n1`), fs/ext4/super.c (`Remounting filesystem
read-only`), fs/xfs (`Filesystem has been shut down`, `Shutting down filesystem`),
kernel/time/clocksource.c (`timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too
large`). Corrected errors, `Cable unplugged`
and `Detected insufficient power on the PCIe slot` are ordinary lines of healthy hosts and no event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "machine-check",
    "memory-uncorrected",
    "pcie-fatal",
    "pcie-uncorrected",
    "transceiver-hot",
    "transceiver-error",
    "adapter-dead",
    "drive-dead",
    "drive-error",
    "filesystem-read-only",
    "clock-lost",
]
_MACHINE_CHECK = re.compile(r"CPU \d+: Machine Check(?: Exception)?: [0-9a-f]+ Bank \d+: ([0-9a-f]{1,16})\b", re.I)
_UNCORRECTED_BIT = 1 << 61
_DEVICE = re.compile(r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b", re.I)
_FIRMWARE = re.compile(r"\[Hardware Error\]:\s+event severity: (fatal|recoverable)\b")
_UE = re.compile(r"EDAC [\w-]+: \d+ UE\b")
_AER = re.compile(r"(?:Uncorrected|Uncorrectable) \((Fatal|Non-Fatal)\)", re.I)
_MODULE = re.compile(r"Port module event\[error\]: module \d+, ([^,]*), (.*)")
# A drive that was reset and came back, a block that cannot be read, and a file system of which nobody knows here
# whether its drive is in the host: a person decides. Images and volumes behind a network are none of the host's.
_ON = r"\((?!loop|sr|rbd|nbd|drbd)[\w-]{1,64}\)"
_READ_ONLY = rf"EXT4-fs {_ON}: Remounting filesystem read-only|XFS {_ON}: [\w ().]{{0,80}}?[Ss]hut(?:ting)? down"
_DRIVES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("drive-dead", re.compile(r"\bnvme\d{1,4}: (?:Removing after probe failure|Disabling device after reset failure)")),
    (
        "drive-error",
        re.compile(r"\bnvme\d{1,4}: controller is down; will reset|critical medium error, dev (?!loop|sr)\w"),
    ),
    ("filesystem-read-only", re.compile(_READ_ONLY)),
)
# The watchdog of the kernel's clocks, for one that was trusted before; at boot it tries others (`tsc-early`).
_CLOCK = re.compile(r"Marking clocksource 'tsc' as unstable because the skew is too large")
_DEAD = re.compile(r"device's health compromised|\bunrecoverable (?:hardware )?error")


@dataclass(frozen=True, slots=True)
class HardwareEvent:
    """One report of broken hardware; `device` is its PCI address, empty where the line has none."""

    kind: Kind
    device: str
    text: str


def hardware_event(message: str) -> HardwareEvent | None:
    """Return what a line of the kernel log reports, None for any other line."""
    kind = _kind(message)
    if kind is None:
        return None
    device = _DEVICE.search(message)
    return HardwareEvent(kind, device.group(1).lower() if device else "", message.strip()[:300])


def _kind(message: str) -> Kind | None:
    if "Machine Check" in message:
        check = _MACHINE_CHECK.search(message)
        return "machine-check" if check and int(check.group(1), 16) & _UNCORRECTED_BIT else None
    if "EDAC" in message:
        return "memory-uncorrected" if _UE.search(message) else None
    if "event severity" in message:
        return "machine-check" if _FIRMWARE.search(message) else None
    if "(Fatal)" in message or "(Non-Fatal)" in message:
        severity = _AER.search(message)
        return None if severity is None else _PCIE[severity.group(1).lower()]
    if "clocksource" in message:
        return "clock-lost" if _CLOCK.search(message) else None
    if "mlx5" in message:
        return _adapter(message)
    return next((kind for kind, pattern in _DRIVES if pattern.search(message)), None)


_PCIE: dict[str, Kind] = {"fatal": "pcie-fatal", "non-fatal": "pcie-uncorrected"}


def _adapter(message: str) -> Kind | None:
    module = _MODULE.search(message)
    if module is not None:
        return "transceiver-hot" if "high temperature" in module.group(2).lower() else "transceiver-error"
    return "adapter-dead" if _DEAD.search(message) else None
