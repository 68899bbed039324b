# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the adapters of a host for GPU traffic are called: stated once, by the inventory or by the SKU."""

from __future__ import annotations

from ..hardware.sku import Sku
from .model import Host

VARIABLE = "gpufleet_hcas"


def stated_hcas(host: Host, sku: Sku) -> tuple[str, ...]:
    """Return the names that somebody states, rail by rail; empty if nobody does."""
    return host.hcas or sku.hca_names


def hca_names(host: Host, sku: Sku) -> tuple[str, ...]:
    """Return the names, rail by rail: as stated, else as a driver numbers adapters of which there are no others."""
    return host.hcas or sku.usual_hca_names


def stated_by(host: Host, sku: Sku) -> str:
    """Return the field that states the names of the host."""
    return VARIABLE if host.hcas else f"hca_names of SKU {sku.name}"
