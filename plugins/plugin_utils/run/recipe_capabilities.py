# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a recipe lets a site declare: checks of DRA, of what it expects beside workloads, of its constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..check.gpu_stack.dra_offer import recipe_offers_gpus_by_dra
from ..check.gpu_stack.expected_objects import EXPECTED, EXPECTED_KEYS
from ..outcome.gates import CONFORMANCE, DEPLOYMENT, PERFORMANCE
from ..recipe.sections import PHASE_CONSTRAINTS, constraints_of
from ..site.model import Site


def with_dra(site: Site, recipe: Mapping[str, Any]) -> Site:
    """Return the site that declares the DRA checks only where the recipe gives out GPUs by claim, and what the recipe
    expects beside workloads only where it does, or says why not."""
    site = _with_constraints(_with_expected(site, recipe), recipe)
    if recipe_offers_gpus_by_dra(dict(recipe)):
        return replace(site, capabilities=tuple(sorted({*site.capabilities, "dra"})))
    reason = "the recipe's DRA driver gives out no GPUs; the device plugin does"
    return replace(site, missing=site.missing | {"dra": reason})


def _with_constraints(site: Site, recipe: Mapping[str, Any]) -> Site:
    if not any(constraints_of(recipe, phase) for phase in (DEPLOYMENT, CONFORMANCE, PERFORMANCE)):
        return site
    return replace(site, capabilities=tuple(sorted({*site.capabilities, PHASE_CONSTRAINTS})))


def _with_expected(site: Site, recipe: Mapping[str, Any]) -> Site:
    if any(ref.get(key) for ref in recipe.get("componentRefs") or () for key in EXPECTED_KEYS):
        return replace(site, capabilities=tuple(sorted({*site.capabilities, EXPECTED})))
    reason = f"no component of the recipe has {' or '.join(EXPECTED_KEYS)}; component-health judges its workloads"
    return replace(site, missing=site.missing | {EXPECTED: reason})
