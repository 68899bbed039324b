# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What differs between a resolved recipe and a snapshot of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...component_stack.chart_version import same_chart_version
from ...component_stack.model import Component, components_of
from ...component_stack.transitions import runs_without_release
from ...constraint.declared import declared_constraint
from ...constraint.evaluate import ConstraintStatus
from ...outcome.errors import InputError
from ...runtime.strict import read_yaml
from ...snapshot.measure import evaluate_in
from ...snapshot.model import Snapshot, gpu_nodes
from .difference import ComparedFact, Drift, SiteRule, drift_of

_DEPLOYED, _GONE = "deployed", "not there"


def resolved_recipe(path: Path) -> dict[str, Any]:
    """Return the resolved recipe in a file.

    Raises:
        InputError: it cannot be read, or is no resolved recipe.
    """
    return require_resolved(read_yaml(path), str(path))


def require_resolved(data: Any, source: str) -> dict[str, Any]:
    """Return decoded data if it is a resolved recipe.

    Raises:
        InputError: it is not.
    """
    if not isinstance(data, dict) or "componentRefs" not in data or "deploymentOrder" not in data:
        hint = "resolve one: ansible-playbook gpufleet.bringup.recipe -e gpufleet_recipe_dest=recipe.yaml"
        raise InputError(source, "is no resolved recipe: it has no componentRefs and deploymentOrder.", hint)
    return data


def drift_from_recipe(recipe: Mapping[str, Any], snapshot: Snapshot, own: tuple[SiteRule, ...] = ()) -> Drift:
    """Return what a cluster lacks of a recipe, most important first, without what the site's own rules leave out.

    Raises:
        BringupError: the recipe is wrong.
    """
    facts: list[ComparedFact] = []
    missing: list[str] = []
    if snapshot.whole("releases"):
        components = components_of(recipe)
        facts += [
            fact for component in components if component.has_chart for fact in _of_component(component, snapshot)
        ]
        missing += [f"component {c.name}: manifests without a chart" for c in components if not c.has_chart]
    else:
        missing.append(f"components: releases are not known: {snapshot.collectors['releases'].reason}")
    unknown = not snapshot.whole("releases")
    nodes = gpu_nodes(snapshot)
    for entry in recipe.get("constraints") or ():
        result = evaluate_in(declared_constraint(entry), snapshot, nodes)
        constraint = result.constraint
        if result.status is ConstraintStatus.FAIL:
            facts.append(ComparedFact("constraint", constraint.name, constraint.value, result.actual))
        elif result.status is not ConstraintStatus.PASS:
            unknown = True
            missing.append(f"constraint {constraint.name}: {result.reason}")
    if recipe.get("pools"):
        missing.append("constraints of pools: a snapshot does not know whose nodes they are")
    return drift_of(facts, not_compared=missing, incomplete=unknown, own=own)


def _of_component(component: Component, snapshot: Snapshot) -> Iterator[ComparedFact]:
    chart = component.chart.rpartition("/")[2]
    others = (release for release in snapshot.releases.values() if release.chart == chart)
    found = snapshot.releases.get(component.release) or next(others, None)
    if found is None:
        there = runs_without_release(component.name, snapshot)
        if there:
            yield ComparedFact(
                "component.release", component.name, component.version, f"no Helm release, {there} runs it"
            )
        else:
            yield ComparedFact("component", component.name, component.version, _GONE)
        return
    if not same_chart_version(found.version, component.version):
        yield ComparedFact("component.version", component.name, component.version, found.version)
    if found.status != _DEPLOYED:
        yield ComparedFact("component.status", component.name, _DEPLOYED, found.status)
