# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run would do: for each gate its checks, what they disturb, how long they take, and what is not declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...check.declare import declare
from ...check.nodes.dcgm_diag_settings import DCGM_DIAG
from ...outcome.gates import GATES
from ...run.run import components_of, needs_recipe
from ...runtime.clock import elapsed_text
from ...site.model import Site
from ..inventory.app import checked_inventory
from ..inventory.hosts import Inventory
from ..recipe.app import answer_for
from ..recipe.declared import with_dra
from ..recipe.pool_layers import recipe_data_of
from .app import DiagnosticWaves, diagnostic_waves, image_lines, site_lines

RECORD = "gpufleet_settings.facility.record"
_NOTHING = "nothing"
_SIGNERS = "gpufleet_settings.facility.allowed_signers"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run would do: a summary of the inventory, one entry per gate in order, and notes for the user."""

    notes: tuple[str, ...]
    gates: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...] = ()


def planned(options: Mapping[str, Any], inventory: Inventory) -> RunPlan:
    """Return the plan of a run with these options, after the same checks as in the preflight of that run.

    Nothing is written, and no host is contacted.

    Raises:
        BringupError: inventory, variables or recipe are wrong.
    """
    checked = checked_inventory(options, inventory)
    site, waves = checked.site, diagnostic_waves(checked, inventory.forks)
    notes = [*site_lines(site, options), *_disturbed(site), *(waves.lines() if waves else ())]
    notes += image_lines(checked.settings, site)
    warnings = _warnings(site)
    components, recipe = tuple[str, ...](), None
    if needs_recipe(site):
        answered = answer_for(site, options, checked.hardware)
        recipe = recipe_data_of(answered, site, checked.hardware)
        site, components = with_dra(site, recipe), components_of(recipe)
        warnings += answered.warnings
        notes.append(f"recipe: {len(components)} components in order {', '.join(components)}")
    gates = tuple(_entry(gate.number, gate.id, site, components, waves, recipe) for gate in GATES)
    return RunPlan(notes=tuple(notes), gates=gates, warnings=warnings)


def _warnings(site: Site) -> tuple[str, ...]:
    """Return why gate facility could not pass: a file that it needs is not configured, or is not there."""
    if "facility" not in site.gates or "facility_record" not in site.capabilities:
        return ()
    configured = site.settings.get("facility", {})
    record = str(configured.get("record") or "")
    if not record:
        return (f"gate facility cannot pass: {RECORD} is not stated",)
    if not Path(record).expanduser().is_file():
        return (f"gate facility cannot pass: {RECORD} is {record}, and there is no such file",)
    signers = str(configured.get("allowed_signers") or "")
    if not signers:
        return (f"gate facility cannot pass: {_SIGNERS} is not stated",)
    missing = [path for path in (signers, f"{record}.sig") if not Path(path).expanduser().is_file()]
    return tuple(f"gate facility cannot pass: there is no {path}" for path in missing)


def _disturbed(site: Site) -> list[str]:
    """Return what happens to hosts in use, where hosts are diagnosed."""
    if "nodes" not in site.gates:
        return []
    if site.settings.get(DCGM_DIAG, {}).get("disturb"):
        return ["hosts whose GPUs somebody uses are diagnosed all the same, and their users are disturbed"]
    return ["hosts whose GPUs somebody uses are not diagnosed, and do not pass gate nodes (gpufleet_disturb)"]


def _entry(
    number: int,
    gate: str,
    site: Site,
    components: tuple[str, ...],
    waves: DiagnosticWaves | None,
    recipe: dict[str, Any] | None,
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "number": number,
        "gate": gate,
        "in_scope": gate in site.gates,
        "before_start": gate in site.before_from_gate,
        "checks": [],
        "not_declared": [],
    }
    if gate not in site.gates:
        return entry
    declaration = declare(gate, site, components, recipe)
    # Several checks judge one observation: its time counts once.
    longest: dict[str, float] = {}
    for check in declaration.checks:
        takes_s = waves.duration_s if waves and check.id == DCGM_DIAG else check.spec.duration_s
        longest[check.observer.key] = max(longest.get(check.observer.key, 0.0), takes_s)
    checks = [
        {"id": check.id, "title": check.spec.title, "disturbs": check.spec.disturbs_at(site).value}
        for check in declaration.checks
    ]
    disturbed = {check["disturbs"] for check in checks}
    return entry | {
        "checks": checks,
        "not_declared": [{"id": left.id, "reason": left.reason} for left in declaration.not_declared],
        "duration_s": sum(longest.values()),
        "disturbs": sorted(disturbed - {_NOTHING}) or sorted(disturbed),
    }


def plan_lines(plan: RunPlan) -> list[str]:
    """Return the plan for a terminal."""
    lines: list[str] = [*plan.notes, ""]
    for entry in plan.gates:
        head = f"{entry['number']}. {entry['gate']}"
        if not entry["in_scope"]:
            lines.append(f"{head}: outside the scope of this run")
            continue
        disturbs = ", ".join(entry["disturbs"]) or "nothing"
        if entry["before_start"]:
            lines.append(f"{head}: not run if earlier passes count, else as follows")
        lines.append(
            f"{head}: {len(entry['checks'])} checks, about {elapsed_text(entry['duration_s'])}; disturbs: {disturbs}"
        )
        wide = max((len(check["id"]) for check in entry["checks"]), default=0)
        lines.extend(f"     {check['id']:{wide}}  {check['title']} ({check['disturbs']})" for check in entry["checks"])
        lines.extend(f"     not declared: {left['id']}: {left['reason']}" for left in entry["not_declared"])
    return [
        *lines,
        "",
        *(f"warning: {text}" for text in plan.warnings),
        "times are of the checks alone: installing (gate 4) and pulling images take tens of minutes more",
        "nothing was started; the same without --tags plan runs it",
    ]
