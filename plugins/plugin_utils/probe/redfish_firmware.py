# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parser of one entry of a BMC's firmware inventory (`UpdateService/FirmwareInventory/{id}`, SoftwareInventory).

Sources: DMTF DSP0268; ids of DGX and HGX (`HostBIOS_0`, `HGX_FW_BMC_0`, `HGX_FW_GPU_SXM_1`) in
NVIDIA/bare-metal-manager-core and the guide of nvfwupd; Dell lists `Installed-`, `Previous-` and `Current-` entries of
the same part, HPE numbers them and says in Name what they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from .redfish_json import Condition, Resource, condition, path_of, words

# What stands for "not supported" or "not read": iLO, AMI.
_NO_VERSION = frozenset({"", "0.00", "0", "n/a", "na", "none", "null", "unknown", "not available"})
_NOT_RUNNING = ("previous-", "available-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Firmware:
    """One firmware: the id within the inventory, what it is, its version (empty where the BMC does not know it)."""

    id: str
    name: str
    version: str
    condition: Condition

    @property
    def running(self) -> bool:
        """It is what runs: neither an older image that is kept nor one that waits, nor of a part that is not there."""
        return not self.id.lower().startswith(_NOT_RUNNING) and not self.condition.absent


def parse(body: Resource) -> Firmware:
    """Return an entry of the inventory.

    Raises:
        InputError: it is not what a Redfish service writes.
    """
    version = words(body, "Version")
    return Firmware(
        id=words(body, "Id") or path_of(body).rpartition("/")[2],
        name=words(body, "Name"),
        version="" if version.lower() in _NO_VERSION else version,
        condition=condition(body),
    )


def part_of(firmware: Firmware) -> str:
    """Return what the firmware belongs to, by which hosts are compared.

    Dell writes the version into the id (`Installed-25227-7.10.30.00`), so what stands behind the second hyphen is left
    out; HPE numbers the entries in an order of their own, and the name says what it is.
    """
    if firmware.id.isdecimal():
        return firmware.name or firmware.id
    words_of = firmware.id.split("-")
    if words_of[0].lower() in ("installed", "current") and len(words_of) > 2:
        own = firmware.id.split("__", 1)[1] if "__" in firmware.id else ""
        return f"{words_of[1]} {firmware.name} {own}".strip()
    return firmware.id
