# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the NVLink fabric of a host needs: by declaration, or by the facts of its SKU."""

from __future__ import annotations

from collections.abc import Sequence

from ..hardware.sku import Sku
from .declaration import Declaration
from .package_names import Part

# NVLink 5 switches are managed over InfiniBand: the fabric manager needs nvlsm beside it.
_NVLSM_GENERATION = 5
_SERVICES: dict[str, tuple[Part, ...]] = {
    "fabric-manager": ("fabric-manager",),
    "fabric-manager-nvlsm": ("fabric-manager", "nvsdm", "nvlsm"),
    "imex": ("imex",),
    "none": (),
}


def services_of(sku: Sku | None) -> tuple[Part, ...]:
    """Return the parts that a host of that SKU needs: trays of a rack have IMEX, the fabric manager is on switches."""
    if sku is None or not sku.nvlink_links:
        return ()
    if sku.nvlink_domain == "rack":
        return _SERVICES["imex"]
    if not sku.nvswitches:
        return ()
    with_nvlsm = (sku.nvlink_generation or 0) >= _NVLSM_GENERATION
    return _SERVICES["fabric-manager-nvlsm" if with_nvlsm else "fabric-manager"]


def nvlink_parts(declared: Declaration, by_sku: Sequence[Part], architecture: str) -> tuple[Part, ...]:
    """Return the parts beside the driver; libnvsdm exists for x86_64 alone."""
    if declared.nvlink is None:
        return ()
    stated = declared.nvlink.services
    parts = tuple(by_sku) if stated == "by-sku" else _SERVICES[stated]
    return tuple(part for part in parts if part != "nvsdm" or architecture == "x86_64")
