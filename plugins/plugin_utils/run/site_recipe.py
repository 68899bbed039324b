# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The recipe of a site: what its criteria, hardware, pools and settings make of the catalogue, and what it declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..check.gpu_stack.settings import GATE as GPU_STACK
from ..check.gpu_stack.settings import GpuStackSettings
from ..check.kit.settings_layers import settings_for
from ..component_stack.render import Renderer, rendered
from ..hardware.sku import Sku
from ..outcome.errors import ProblemsError
from ..recipe.hydrate import component_values
from ..recipe.merge import merged_values
from ..recipe.output import RUN_FILE, FileText, dump, write_documents
from ..recipe.overrides import component_name, with_overrides
from ..recipe.request import Answer, Request, answer, catalogue_of, request_of
from ..runtime.progress import Emit
from ..runtime.secret_keys import redact_data
from ..site.decisions import component_problems
from ..site.model import Site
from .benchmark_inputs import take_benchmark_inputs
from .driver_layer import driver_overrides
from .hardware_layers import gpu_counts, hardware_criteria
from .known_checks import checks_by_id
from .owner_layer import idle_overrides, replaced_layers
from .pending import write_pending_suites
from .pool_layers import differing, pooled_answer, recipe_data_of
from .recipe_capabilities import with_dra
from .run import Run, needs_recipe
from .site_values import site_values


def resolve_recipe(run: Run, options: Mapping[str, Any], emit: Emit) -> tuple[str, ...]:
    """Resolve the recipe of the site into the run directory, all its manifests plain, and return warnings.

    Raises:
        BringupError: wrong criteria, an unsupported combination, wrong recipe data, or a component that cannot be
            built or rendered here.
    """
    site = run.site
    if not needs_recipe(site):
        return ()
    answered = answer_for(site, options, run.hardware)
    # The run directory is given to others, so its recipe has no secrets, in values or in what is rendered from them.
    recipe = rendered(redact_data(recipe_data_of(answered, site, run.hardware)), Renderer.of(options))
    path = run.path / RUN_FILE
    write_documents({path: FileText(text=dump(recipe, path))}, check_mode=False)
    run.reload()
    run.save_site(with_dra(site, run.recipe or {}))
    take_benchmark_inputs(run)
    # Components are known now, and whether GPUs are given out by claim.
    write_pending_suites(run)
    emit(f"recipe: {len(answered.result.order)} components in order {', '.join(answered.result.order)}"[:190])
    return answered.warnings


def answer_for(site: Site, options: Mapping[str, Any], hardware: Mapping[str, Sku]) -> Answer:
    """Return the recipe that the site asks for, on its hardware.

    Raises:
        BringupError: wrong criteria, ones that contradict the hardware, an unsupported combination, wrong recipe data,
            or a waiver for a component that the recipe does not have.
    """
    stated = {"criteria": site.criteria, "recipe_data": options["recipe_data"], "overrides": options["overrides"]}
    request = request_of(stated)
    if site.pools:
        answered = _with_values_of(site, pooled_answer(site, request, hardware), request, hardware)
    else:
        criteria = hardware_criteria(site, hardware, catalogue_of(request.recipe_data))
        found = answer(replace(request, criteria=criteria))
        found = replace(found, warnings=(*found.warnings, *differing(site, hardware)))
        answered = _with_values_of(site, found, request, hardware)
    checks = checks_by_id(site.settings)
    problems = component_problems("gpufleet_waivers", site.waivers, checks, answered.result.order)
    problems += component_problems("gpufleet_acceptances", site.acceptances, checks, answered.result.order)
    if problems:
        raise ProblemsError("inventory and recipe", tuple(problems))
    return answered


def _with_values_of(site: Site, answered: Answer, request: Request, hardware: Mapping[str, Sku]) -> Answer:
    """Return the recipe in which the driver is whose the site says it is, and GPUs are as many as its hosts have."""
    catalogue = answered.catalogue
    values = {entry.name: component_values(entry, catalogue) for entry in answered.result.components}
    stated = {component_name(key, list(values), catalogue): value for key, value in request.overrides.items()}
    settings = settings_for(GpuStackSettings, GPU_STACK, site.settings.get(GPU_STACK, {}))
    told = site_values(settings, values, stated, catalogue, site.pools)
    overrides = dict(told.values)
    owned = driver_overrides(site.driver_owner, values, stated)
    for more in (owned, gpu_counts(site, hardware, values, stated)):
        for name, own in more.items():
            overrides[name] = merged_values(overrides.get(name, {}), own)
    replaced = replaced_layers(answered, request.recipe_data, site.driver_owner, owned)
    idle = idle_overrides(site.driver_owner, stated)
    warnings = (*answered.warnings, *told.warnings, *replaced, *idle)
    if not overrides:
        return replace(answered, warnings=warnings)
    result = with_overrides(answered.result, catalogue, overrides, check=False)
    return replace(answered, result=result, warnings=warnings)
