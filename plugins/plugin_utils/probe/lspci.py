# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of `lspci -Dnn` and of `lspci -vvv`."""

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
_GPU_CLASSES = ("3D controller", "VGA compatible controller", "Display controller")


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One function. `pci_id` (`10de:2330`) and `class_id` need -nn; `acs`: the ACSCtl switches that are on (-vvv)."""

    address: str
    class_name: str
    class_id: str
    name: str
    pci_id: str
    revision: str
    acs: tuple[str, ...] | None = None

    @property
    def is_nvidia_gpu(self) -> bool:
        """Whether it is a GPU by NVIDIA (not a bridge, an NVSwitch or an audio function)."""
        nvidia = self.pci_id.startswith("10de:") if self.pci_id else self.name.startswith("NVIDIA")
        return nvidia and self.class_name in _GPU_CLASSES

    @property
    def dead(self) -> bool:
        """Whether it no longer answers: configuration space reads all ones."""
        return self.revision == "ff"


def parse(text: str) -> tuple[PciDevice, ...]:
    """Return the devices in the tool's order.

    Raises:
        InputError: no device, an unindented line that is not a device, or an address that is listed twice.
    """
    devices: list[PciDevice] = []
    acs: dict[str, tuple[str, ...]] = {}
    for line in plain(text).splitlines():
        if not line.strip():
            continue
        if line[0].isspace():
            _note_acs(line, devices, acs)
            continue
        devices.append(_device(line))
    if not devices:
        raise unreadable(TOOL, plain(text)[:80], "at least one device line")
    addresses = [device.address for device in devices]
    if len(set(addresses)) < len(addresses):
        twice = next(address for address in addresses if addresses.count(address) > 1)
        raise unreadable(TOOL, f"{twice} twice", "every address once")
    return tuple(_with_acs(device, acs) for device in devices)


def _device(line: str) -> PciDevice:
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


def _note_acs(line: str, devices: list[PciDevice], acs: dict[str, tuple[str, ...]]) -> None:
    # ACSCap lists what the device could do and has the same words: only ACSCtl counts.
    name, colon, switches = line.strip().partition(":")
    if devices and colon and name == "ACSCtl":
        acs[devices[-1].address] = tuple(word[:-1] for word in switches.split() if word.endswith("+"))


def _with_acs(device: PciDevice, acs: dict[str, tuple[str, ...]]) -> PciDevice:
    if device.address not in acs:
        return device
    return PciDevice(
        device.address,
        device.class_name,
        device.class_id,
        device.name,
        device.pci_id,
        device.revision,
        acs[device.address],
    )
