# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the SKUs of the inventory say to the recipe: criteria that nobody stated, and values that count GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..hardware.sku import Sku
from ..recipe.host_kinds import criteria_on, said_by
from ..recipe.model import Catalogue
from ..site.model import Site

SLURM = "slinky-slurm"


def hardware_criteria(site: Site, hardware: Mapping[str, Sku], catalogue: Catalogue) -> dict[str, Any]:
    """Return the site's criteria, with what the hardware of hosts in scope says alike where a layer honours it.

    Raises:
        ProblemsError: a stated criterion that no host's hardware has, each with both sources.
    """
    known = [host for host in site.in_scope if host.sku in hardware]
    skus = ((hardware[host.sku], f"gpufleet_sku of host {host.name} is {host.sku}") for host in known)
    return criteria_on(said_by(skus), site.criteria, catalogue)


def gpu_counts(
    site: Site, hardware: Mapping[str, Sku], values: Mapping[str, Mapping[str, Any]], stated: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what must be overridden so that a worker of Slurm asks for the GPUs that a host has.

    Args:
        site: the site.
        hardware: SKU facts by name.
        values: component of the recipe to its merged values.
        stated: the site's own overrides, which are never overruled.
    """
    counts = {hardware[host.sku].gpus for host in site.in_scope if host.sku in hardware}
    sets = (values.get(SLURM) or {}).get("nodesets") or {}
    if len(counts) != 1 or "slinky" not in sets or SLURM in stated:
        return {}
    gpus = counts.pop()
    worker = {"slurmd": {"resources": {"limits": {"nvidia.com/gpu": gpus}}}, "extraConfMap": {"Gres": [f"gpu:{gpus}"]}}
    return {SLURM: {"nodesets": {"slinky": worker}}} if merged_differs(sets["slinky"], worker) else {}


def merged_differs(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether any value of one mapping is another one, or none, in the other."""
    for key, value in wanted.items():
        below = known.get(key)
        if isinstance(value, Mapping):
            if not isinstance(below, Mapping) or merged_differs(below, value):
                return True
        elif below != value:
            return True
    return False
