# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observer of gate fabric: which host observed the fabric, and the cabling plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...collect.host_evidence import FABRIC, read_evidence
from ...collect.host_facts import read_adapters
from ...outcome.codec import dumps
from ...outcome.errors import InputError
from ...runtime.files import CABLING, write_atomic
from ...site.cabling import CablingPlan, read_node_names, site_cabling, with_guids
from ...site.model import Site
from ..spec import ObserveContext, Observer
from .fabric_facts import FabricFacts, subnets_of
from .settings import GATE, FabricSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFabric:
    """What is saved: the evidence file, and the seconds between both readings of the counters."""

    file: str
    interval_s: float
    schema_version: int = 1


def observe(context: ObserveContext) -> SavedFabric:
    """Return the path of the evidence; the plan is saved as cabling.json in the run directory.

    Raises:
        InputError: not exactly one host observed the fabric, or the plan, the node-name map or the settings are not
            valid.
    """
    settings = context.settings_of(GATE, FabricSettings)
    plan = plan_of(context, settings)
    write_atomic(context.run_dir / CABLING, dumps(plan))
    files = sorted(path.name for path in (context.run_dir / "evidence" / FABRIC).glob("*.json"))
    if len(files) != 1:
        found = f"{len(files)} hosts left some, expected one."
        raise InputError("evidence of the fabric", found, "run the play that reads the fabric, on one host")
    context.emit(f"{len(plan.links)} planned links, read from {files[0].removesuffix('.json')}")
    return SavedFabric(file=f"evidence/{FABRIC}/{files[0]}", interval_s=settings.interval_s)


def plan_of(context: ObserveContext, settings: FabricSettings) -> CablingPlan:
    """Return the plan that the site configures, or the one made from its adapters, completed with names and GUIDs.

    Raises:
        InputError: no host has InfiniBand, or the plan, the node-name map or the settings are not valid.
    """
    adapters = read_adapters(context.run_dir, context.site, context.hardware)
    plan = site_cabling(context.site, context.hardware, {name: host.compute for name, host in adapters.items()})
    if plan is None:
        raise InputError(
            "cabling plan", "no host of the inventory has InfiniBand.", "state gpufleet_settings.fabric.plan"
        )
    plan = with_guids(plan, {name: host.guids for name, host in adapters.items()})
    if settings.node_name_map:
        plan = replace(plan, node_names=read_node_names(Path(settings.node_name_map).expanduser()))
    return plan


def restore(data: Any, run_dir: Path, site: Site) -> FabricFacts:
    """Return the facts from plan and evidence of that run.

    Raises:
        InputError: the saved data is not what this release writes.
    """
    del site
    if not isinstance(data, dict) or data.get("schema_version") != 1:
        raise InputError("observation fabric", "its schema_version is not 1.", "judge it with the release that made it")
    interval_s = float(data["interval_s"])
    if interval_s <= 0:
        raise InputError("observation fabric", f"counters were read {interval_s:g} s apart.", "run the gate again")
    plan = _plan(run_dir / CABLING)
    evidence = read_evidence(run_dir / str(data["file"]))
    return FabricFacts(
        host=evidence.host,
        plan=plan,
        interval_s=interval_s,
        subnets=subnets_of(evidence) if evidence.reached else (),
        reason="" if evidence.reached else evidence.reason,
        evidence=str(data["file"]),
    )


def _plan(path: Path) -> CablingPlan:
    from ...outcome.codec import load

    plan = load(CablingPlan, path)
    if plan.schema_version != 1:
        raise InputError(str(path), f"schema_version is {plan.schema_version}, this release reads 1.")
    ends = (end for link in plan.links for end in (link.near, link.far) if end is not None)
    if wrong := next((end for end in ends if end.port < 1), None):
        raise InputError(str(path), f"{wrong} is no port: they are counted from 1.", "run gate fabric again")
    return plan


OBSERVER = Observer("fabric", FabricFacts, observe, restore, saved=SavedFabric)
