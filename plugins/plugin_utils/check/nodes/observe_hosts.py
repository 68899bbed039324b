# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observer of gate nodes: which hosts have evidence in the run directory, and the meaning of each XID."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...collect.host_evidence import DRIVERS, HOSTS, evidence_file
from ...collect.host_facts import FleetFacts, fleet_facts, load_hosts
from ...collect.loads import XidCatalogue, load_xids
from ...outcome.codec import from_plain, load
from ...outcome.errors import InputError
from ...runtime.files import CABLING
from ...site.cabling import CablingPlan, stated_cabling
from ...site.model import DriverOwner, Site
from ..spec import ObserveContext, Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules by which hosts are judged beside the settings: the meaning of XIDs."""

    catalogue: XidCatalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedHosts:
    """What is saved: evidence files by host, hosts without any, and rate and names of adapters by the cabling plan."""

    files: dict[str, tuple[str, ...]]
    missing: tuple[str, ...]
    rules: Rules
    rated_gbps: dict[str, float]
    planned_hcas: dict[str, tuple[str, ...]]
    schema_version: int = 1


def observe(context: ObserveContext) -> SavedHosts:
    """Return the existing evidence files, the hosts without any, and the meaning of XIDs.

    Raises:
        InputError: no host has any evidence, or the XID catalogue or the site's cabling plan cannot be read.
    """
    site = context.site
    kinds = (HOSTS, DRIVERS) if site.driver_owner is DriverOwner.OPERATOR else (HOSTS,)
    found: dict[str, tuple[str, ...]] = {}
    for host in site.hosts:
        files = [evidence_file(host.name, kind) for kind in kinds]
        found[host.name] = tuple(name for name in files if (context.run_dir / name).is_file())
    missing = tuple(name for name, files in found.items() if not files)
    if len(missing) == len(found):
        raise InputError(
            "evidence of the hosts",
            f"none of {len(found)} hosts left any.",
            "run the play that collects from the hosts",
        )
    context.emit(f"{len(found) - len(missing)} of {len(found)} hosts left evidence")
    rated, planned = _planned(context)
    rules = Rules(catalogue=load_xids())
    return SavedHosts(files=found, missing=missing, rules=rules, rated_gbps=rated, planned_hcas=planned)


def _planned(context: ObserveContext) -> tuple[dict[str, float], dict[str, tuple[str, ...]]]:
    """Return rate in Gb/s and names of every host's adapters by the cabling plan, empty if the site configures none."""
    plan = stated_cabling(context.site, context.hardware)
    links = [link for link in plan.links if link.host] if plan is not None else []
    names: dict[str, tuple[str, ...]] = {}
    for link in links:
        names[link.host] = (*names.get(link.host, ()), link.hca)
    return {link.host: link.rate_gbps for link in links}, names


def restore(data: Any, run_dir: Path, site: Site) -> FleetFacts:
    """Return the facts of every host from the evidence files and the XID catalogue of that run.

    Raises:
        InputError: the saved observation is not what this release writes.
    """
    if not isinstance(data, dict) or data.get("schema_version") != 1:
        raise InputError("observation hosts", "its schema_version is not 1.", "judge it with the release that made it")
    xids = from_plain(XidCatalogue, (data.get("rules") or {}).get("catalogue"), "observation hosts")
    rated = data.get("rated_gbps") or {}
    unrated = [name for name, gbps in rated.items() if gbps <= 0]
    if unrated:
        raise InputError("observation hosts", f"adapters of {unrated[0]} are rated at {rated[unrated[0]]:g} Gb/s.")
    _require_rates_of_plan(rated, run_dir)
    return fleet_facts(load_hosts(run_dir, site), xids, site, rated, data.get("planned_hcas"))


def _require_rates_of_plan(rated: Mapping[str, float], run_dir: Path) -> None:
    """Refuse rates that differ from the plan that gate fabric saved, where that plan was a configured one."""
    path = run_dir / CABLING
    plan = load(CablingPlan, path) if rated and path.is_file() else None
    if plan is None or plan.generated:
        return
    planned = {link.host: float(link.rate_gbps) for link in plan.links if link.host}
    differs = next((host for host, gbps in rated.items() if gbps != planned.get(host)), None)
    if differs is not None:
        wanted = f"{planned[differs]:g} Gb/s" if differs in planned else "no adapter of it"
        found = f"adapters of {differs} are rated at {rated[differs]:g} Gb/s, the cabling plan of the run has {wanted}."
        raise InputError("observation hosts", found, "run gates fabric and nodes again")


OBSERVER = Observer("hosts", FleetFacts, observe, restore, saved=SavedHosts)
