# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a site can declare because of its recipe: the DRA checks, expectations beside workloads, constraints, and the
load of gate inference_acceptance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...check.gpu_stack.dra_offer import recipe_offers_gpus_by_dra
from ...check.gpu_stack.expected_objects import EXPECTED, EXPECTED_KEYS
from ...check.inference_acceptance.settings import GATE, InferenceSettings
from ...check.kit.saved_settings import save_recipe_settings
from ...check.kit.settings import settings_in
from ...check.kit.settings_layers import SITE
from ...constraint.declared import OF_BENCHMARK
from ...outcome.errors import InputError
from ...outcome.gates import CONFORMANCE, DEPLOYMENT, PERFORMANCE
from ...recipe.sections import PHASE_CONSTRAINTS, constraints_of
from ...run.run import Run
from ...site.model import Site


def with_dra(site: Site, recipe: Mapping[str, Any]) -> Site:
    """Return the site with what its recipe makes applicable.

    It declares the DRA checks only where the recipe allocates GPUs by claim. It declares what the recipe expects beside
    workloads only where it expects something, else it has the reason.
    """
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


_SETTING_OF = dict(zip(OF_BENCHMARK, ("model", "concurrency_per_gpu"), strict=True))
# The operator for exactly one value; any other is a bound on what the site chooses.
_EXACTLY = "=="
_OPERATORS = ("<", ">", "=", "!", "~", "in ", "not ")


def benchmark_inputs(recipe: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of gate inference_acceptance in a recipe, by name.

    Raises:
        InputError: a value is not valid for the setting.
    """
    known = settings_in(InferenceSettings)
    found: dict[str, Any] = {}
    for entry in constraints_of(recipe, PERFORMANCE):
        name, text = str(entry.get("name")), str(entry.get("value")).strip()
        exact = text.removeprefix(_EXACTLY).strip()
        if name not in _SETTING_OF or exact.startswith(_OPERATORS):
            continue
        setting, subject = known[_SETTING_OF[name]], f"constraint {name!r} of the recipe"
        value: Any = int(exact) if setting.name != "model" and exact.isascii() and exact.isdecimal() else exact
        if not value:
            raise InputError(subject, "is empty.", "correct the recipe")
        if wrong := setting.problems(value, subject):
            raise wrong[0]
        found[setting.name] = value
    return found


def take_benchmark_inputs(run: Run) -> None:
    """Let gate inference_acceptance of a run serve and load as its recipe specifies, and note it in the record.

    Raises:
        InputError: a value of the recipe is not valid for the setting.
    """
    wanted = benchmark_inputs(run.recipe)
    configured = run.site.settings.get(GATE, {})
    taken = {name: value for name, value in wanted.items() if name not in configured}
    if taken:
        save_recipe_settings(run.path, GATE, taken)
        run.reload()
    phases = {verdict.gate for verdict in run.record.phases}
    if GATE not in run.site.gates and PERFORMANCE not in phases:
        return
    where = f"validation.{PERFORMANCE} of the recipe"
    notes = [f"{GATE}.{name} is {value}, from {where}" for name, value in taken.items()]
    notes += [
        f"{GATE}.{name} is {configured[name]}, from {SITE}; {where} has its bounds for {value}"
        for name, value in wanted.items()
        if name in configured and configured[name] != value
    ]
    if notes:
        run.save_record(replace(run.record, notes=(*run.record.notes, *notes)))
