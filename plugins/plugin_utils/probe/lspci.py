# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `lspci -Dnn`. With more detail (-v) only the device lines are read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..outcome.errors import InputError
from .text import pci_address, plain, unreadable

TOOL = "lspci -Dnn"
_DEVICE = re.compile(
    r"((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) ([^:\[]+?)(?: \[([0-9a-f]{4})\])?: (.+)"
)
_ID = re.compile(r"\[([0-9a-f]{4}:[0-9a-f]{4})\]")
_REVISION = re.compile(r"\(rev ([0-9a-f]{2})\)")
# By class number and by name (PCI Code and ID Assignment, class 03): a host without pci.ids prints `Class [0302]:
# Device [10de:2330]`, and without -nn there are only names.
_GPU_CLASSES = {"0300": "VGA compatible controller", "0302": "3D controller", "0380": "Display controller"}
_BRIDGE = ("0604", "PCI bridge")
# Accelerators of other vendors: class 12 (ROCm/gpu-operator#151), or a display controller without a display.
_ACCELERATOR_CLASSES = {"1200": "Processing accelerators", "0302": "3D controller", "0380": "Display controller"}
_OTHER_MAKERS = {"1002": "AMD", "1da3": "Intel Habana", "8086": "Intel"}
_OTHER_NAMES = {"Advanced Micro Devices": "AMD", "Habana Labs": "Intel Habana", "Intel Corporation": "Intel"}


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One PCI function. `pci_id` (`10de:2330`) and `class_id` need -nn."""

    address: str
    class_name: str
    class_id: str
    name: str
    pci_id: str
    revision: str

    @property
    def is_nvidia_gpu(self) -> bool:
        """Whether it is an NVIDIA GPU (not a bridge, an NVSwitch or an audio function)."""
        nvidia = self.pci_id.startswith("10de:") if self.pci_id else self.name.startswith("NVIDIA")
        return nvidia and (self.class_id in _GPU_CLASSES if self.class_id else self.class_name in _GPU_CLASSES.values())

    @property
    def other_accelerator(self) -> str:
        """Vendor of an accelerator that is not NVIDIA's; empty for all other devices."""
        classes = _ACCELERATOR_CLASSES
        if not (self.class_id in classes if self.class_id else self.class_name in classes.values()):
            return ""
        if self.pci_id:
            return _OTHER_MAKERS.get(self.pci_id.partition(":")[0], "")
        return next((maker for name, maker in _OTHER_NAMES.items() if self.name.startswith(name)), "")

    @property
    def is_pci_bridge(self) -> bool:
        """Whether it is a PCI-to-PCI bridge."""
        return self.class_id == _BRIDGE[0] if self.class_id else self.class_name == _BRIDGE[1]

    @property
    def dead(self) -> bool:
        """Whether it stopped responding: its configuration space reads all ones."""
        return self.revision == "ff"


def parse(text: str) -> tuple[PciDevice, ...]:
    """Return the devices in the tool's order.

    Raises:
        InputError: no device, an unindented line that is not a device, one without the numbers that others have, or an
            address that is listed twice.
    """
    lines = [line for line in plain(text).splitlines() if line.strip() and not line[0].isspace()]
    devices = tuple(device_of_line(line) for line in lines)
    if not devices:
        raise unreadable(TOOL, plain(text)[:80], "at least one device line")
    cut = next((device for device in devices if not device.pci_id), None)
    if cut is not None and any(device.pci_id for device in devices):
        raise unreadable(TOOL, f"{cut.address} {cut.name}", "vendor and device of each, such as [10de:2330]")
    addresses = [device.address for device in devices]
    if len(set(addresses)) < len(addresses):
        twice = next(address for address in addresses if addresses.count(address) > 1)
        raise unreadable(TOOL, f"{twice} twice", "every address once")
    return devices


def device_of_line(line: str) -> PciDevice:
    """Return the device of an unindented line.

    Raises:
        InputError: it is not a device line.
    """
    match = _DEVICE.fullmatch(line.rstrip())
    if match is None:
        raise unreadable(TOOL, line, "`address class: name`")
    try:
        address = pci_address(match.group(1))
    except InputError:
        raise unreadable(TOOL, line, "a PCI address") from None
    name = match.group(4)
    ids, revision = _ID.findall(name), _REVISION.search(name)
    return PciDevice(
        address=address,
        class_name=match.group(2),
        class_id=match.group(3) or "",
        name=name,
        pci_id=ids[-1] if ids else "",
        revision=revision.group(1) if revision else "",
    )
