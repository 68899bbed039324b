# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which network adapters carry a host's GPU traffic, for NCCL_IB_HCA: never those for storage or management."""

from __future__ import annotations

from ...hardware.sku import Sku
from ...site.cabling import CablingPlan
from .rules import Rules


def ports_of(host: str, sku: Sku, cabling: CablingPlan | None, rules: Rules) -> tuple[str, ...]:
    """Return the ports (`mlx5_0:1`) in the order of their rails: as stated, or by the cabling plan, or by number."""
    links = [link for link in cabling.links if link.host == host] if cabling else []
    planned = sorted((link.rail, link.hca, link.near.port) for link in links)
    names = rules.run.hcas or tuple(f"{hca}:{port}" for _rail, hca, port in planned)
    names = names or tuple(f"mlx5_{number}" for number in range(sku.compute_hcas))
    return tuple(name if ":" in name else f"{name}:1" for name in names)
