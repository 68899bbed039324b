# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pools of a site: which hosts belong to each, by their SKUs, and what the pools add to its recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...hardware.sku import Sku
from ...outcome.errors import BringupError, InputError, ProblemsError
from ...recipe.criteria import Criteria, parse_criteria
from ...recipe.hydrate import hydrated
from ...recipe.model import Catalogue
from ...recipe.overrides import with_overrides
from ...recipe.pools import pooled_data
from ...recipe.request import Answer, Request, answer_pools, catalogue_of
from ...runtime.files import RECIPES
from ...site.model import Host, Site

# Values of a SKU that a site may lower; less than the SKU has is no contradiction.
LESS = {"accelerator": "", "fabric": "none", "nvlink_domain": "node"}
VARIABLE = "gpufleet_recipe_pools"


def hosts_by_pool(site: Site, hardware: Mapping[str, Sku], catalogue: Catalogue) -> dict[str, tuple[str, ...]]:
    """Return the hosts in scope of each pool of the site; one that fits several belongs to the first.

    Raises:
        ProblemsError: a host that fits no pool, or a pool without a fitting host, with the criteria of both.
    """
    configured = [
        (pool.name, parse_criteria({**site.criteria, **pool.criteria}, catalogue.vocabulary, f"pool {pool.name}"))
        for pool in site.pools
    ]
    texts = "; ".join(f"{name}: {_requested(criteria)}" for name, criteria in configured)
    found: dict[str, tuple[str, ...]] = {name: () for name, _criteria in configured}
    problems: list[BringupError] = []
    for host in site.in_scope:
        sku = hardware.get(host.sku)
        pool = next((name for name, criteria in configured if sku is not None and _fits(sku, criteria)), "")
        if pool:
            found[pool] = (*found[pool], host.name)
        elif sku is not None:
            reason = (
                f"gpufleet_sku is {host.sku}, which has {_has(sku)}, and no pool of {VARIABLE} is for it ({texts})."
            )
            problems.append(
                InputError(f"host {host.name}", reason, f"add a pool to {VARIABLE}, or correct gpufleet_sku")
            )
    for name, criteria in configured:
        if not found[name] and not problems:
            skus = ", ".join(sorted({host.sku for host in site.in_scope}))
            reason = f"is for {_requested(criteria)}, and no host in scope is; their gpufleet_sku: {skus}."
            problems.append(InputError(f"{VARIABLE}: {name}", reason, "correct its criteria, or take it out"))
    if problems:
        raise ProblemsError("pools and hardware", tuple(problems))
    return found


def _fits(sku: Sku, criteria: Criteria) -> bool:
    values = {name: criteria.get(name) for name in LESS}
    return all(value in ("any", str(getattr(sku, name)), LESS[name]) for name, value in values.items())


def _requested(criteria: Criteria) -> str:
    return ", ".join(f"{name}={criteria.get(name)}" for name in LESS if criteria.get(name) != "any") or "any hardware"


def _has(sku: Sku) -> str:
    return ", ".join(f"{name} {getattr(sku, name)}" for name in LESS)


def pooled_answer(site: Site, request: Request, hardware: Mapping[str, Sku]) -> Answer:
    """Return the one recipe of a site with pools.

    Raises:
        BringupError: pools that do not fit the hardware or each other, wrong criteria, or an unsupported combination.
    """
    catalogue = catalogue_of(request.recipe_data)
    hosts_by_pool(site, hardware, catalogue)
    pools = [{"name": pool.name, "criteria": pool.criteria, "node_selector": pool.node_selector} for pool in site.pools]
    recipe, catalogue, warnings = answer_pools(replace(request, overrides={}), pools)
    reported = []
    for entry in pooled_data(recipe, catalogue)["pools"]:
        if entry["components"]:
            names = ", ".join(sorted(entry["components"]))
            reported.append(
                f"pool {entry['name']}: its layers give {names} other values than all pools share; one release has the "
                f"shared ones. See `pools` in recipe.json; state what it needs in gpufleet_overrides or a layer."
            )
    result = recipe.result
    if request.overrides:
        result = with_overrides(result, catalogue, request.overrides, check=request.check_overrides)
    return Answer(result=result, catalogue=catalogue, warnings=(*warnings, *reported), pools=recipe)


def recipe_data_of(answered: Answer, site: Site, hardware: Mapping[str, Sku]) -> dict[str, Any]:
    """Return the hydrated recipe of a site, with its pools and their hosts if it has any."""
    data = hydrated(answered.result, answered.catalogue)
    if answered.pools is not None:
        hosts = hosts_by_pool(site, hardware, answered.catalogue)
        entries = pooled_data(answered.pools, answered.catalogue)["pools"]
        data["pools"] = [{**entry, "hosts": list(hosts[entry["name"]])} for entry in entries]
    for reference in data["componentRefs"]:
        configured = _own_workloads(reference["name"], answered.catalogue)
        if configured:
            reference["workloads"] = configured
    return data


def _own_workloads(component: str, catalogue: Catalogue) -> list[dict[str, str]]:
    """Return the workloads that a registry entry of the site lists for its chart.

    Those of our entries are left out: values that a site sets may switch any of them off.
    """
    entry = catalogue.registry.get(component)
    if entry is None or Path(entry.file).resolve().is_relative_to(RECIPES):
        return []
    return [dict(configured) for configured in entry.data.get("workloads") or ()]


def differing(site: Site, hardware: Mapping[str, Sku]) -> tuple[str, ...]:
    """Return the warning for a site whose hosts differ and that has no pools: the recipe has only what they share."""
    kinds: dict[str, Host] = {}
    for host in site.in_scope:
        if host.sku in hardware:
            kinds.setdefault(_has(hardware[host.sku]), host)
    if site.pools or len(kinds) < 2 or "accelerator" in site.criteria:
        return ()
    observed = "; ".join(f"{host.name} ({host.sku}): {text}" for text, host in kinds.items())
    return (f"the hosts differ ({observed}): the recipe is what they share. State them as pools in {VARIABLE}.",)
