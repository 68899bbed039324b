# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the SKUs of the inventory say to the recipe: criteria that nobody stated, and values that count GPUs.

A stated criterion that the hardware contradicts is an error. To state less than the hardware has (no fabric, NVLink
within the node) is none: a cluster need not use all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..hardware.sku import Sku
from ..outcome.errors import BringupError, InputError, ProblemsError
from ..recipe.criteria import make_criteria, parse_criteria
from ..recipe.model import Catalogue
from ..recipe.support import not_honoured
from ..site.model import Site

SLURM = "slinky-slurm"
_LESS = {"fabric": "none", "nvlink_domain": "node"}


def _said(site: Site, hardware: Mapping[str, Sku], dimension: str) -> dict[str, str]:
    """Return each value that the hardware of hosts in scope has, with a host that has it and its SKU."""
    found: dict[str, str] = {}
    for host in site.in_scope:
        if host.sku in hardware:
            value = str(getattr(hardware[host.sku], dimension))
            found.setdefault(value, f"gpufleet_sku of host {host.name} is {host.sku}, which has {value}")
    return found


def hardware_criteria(site: Site, hardware: Mapping[str, Sku], catalogue: Catalogue) -> dict[str, str]:
    """Return the site's criteria, with what its hardware says alike where a layer of the catalogue honours it.

    Raises:
        ProblemsError: a stated criterion that no host's hardware has, each with both sources.
    """
    vocabulary = catalogue.vocabulary
    stated = parse_criteria(site.criteria, vocabulary)
    problems: list[BringupError] = []
    found = dict(site.criteria)
    for dimension in ("accelerator", "fabric", "nvlink_domain"):
        said = _said(site, hardware, dimension)
        if dimension not in vocabulary.dimensions or not said:
            continue
        value = stated.get(dimension)
        if value != "any":
            if value not in said and value != _LESS.get(dimension):
                hint = f"correct gpufleet_criteria.{dimension} or gpufleet_sku, or leave the criterion out"
                reason = f"is {value}; {'; '.join(said.values())}."
                problems.append(InputError(f"gpufleet_criteria.{dimension}", reason, hint))
        elif len(said) == 1 and not set(said) & set(_LESS.values()):
            told = make_criteria({**stated.to_dict(), dimension: next(iter(said))})
            if (dimension, told.get(dimension)) not in not_honoured(told, catalogue):
                stated, found[dimension] = told, told.get(dimension)
    if problems:
        raise ProblemsError("criteria and hardware", tuple(problems))
    return found


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
