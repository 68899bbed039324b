# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RETURN of every module says what is in a dictionary, and says it of what the code returns."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from returned import MODULES, described, misfits, returned, unlike

CORE = "ansible_collections.gpufleet.bringup.plugins.plugin_utils"
NAMES = sorted(MODULES)
# Dictionaries whose keys are names of something: of what. Their description begins with it.
FREE_KEYED = {
    "burn_in: hours": "host",
    "check: not_observed": "key of an observation that failed",
    "fabric_probe: tools": "tool",
    "fleet_plan_info: not_due": "node that is free and owes nothing now",
    "fleet_plan_info: not_free": "node that is not free",
    "fleet_run: failed_nodes": "node",
    "gate: stats.gpufleet_gates_by_status": "status",
    "history: rows": "kind of row (or C(bytes) of a backup)",
    "host_probe: tools": "tool",
    "node_plan_info: plan.ledger_after.until_boot": "what only a reboot brings into force",
    "node_plan_info: plan.ledger_during.until_boot": "what only a reboot brings into force",
    "node_state_info: state.digests": "file that was asked for",
    "node_state_info: state.duplicates": "package that an rpm left twice",
    "node_state_info: state.modules": "module of the driver that is loaded",
    "node_state_info: state.packages": "package that was asked for",
    "node_state_info: state.simulation.install": "package",
    "node_state_info: state.sysctl": "setting that was asked for",
    "node_state_info: state.units": "unit that was asked for",
    "recipe: detection.criteria": "criterion",
    "recipe: detection.pools.criteria": "criterion",
    "recipe: recipe.components": "component that is switched on",
    "recipe: recipe.constraints": "measurement",
    "recipe: recipe.criteria": "criterion",
    "recipe: recipe.needs": "program that the controller or the chart mirror needs beside Helm",
    "recipe_catalogue_info: listing.combinations.criteria": "criterion",
    "recipe_catalogue_info: listing.criteria": "criterion",
    "recipe_catalogue_info: listing.environments": "criterion",
    "recipe_hydrated_info: recipe.componentRefs.expectedResources": "field of a reference",
    "recipe_hydrated_info: recipe.componentRefs.overrides": "option of the chart",
    "recipe_hydrated_info: recipe.criteria": "criterion",
    "recipe_hydrated_info: recipe.metadata.profiles": "name of a profile",
    "recipe_hydrated_info: recipe.validation": "phase of a validation",
    "rehearsal_start: default_criteria": "criterion",
    "rehearsal_start: programs": "program",
    "rehearsal_start: settings": "check id or gate id",
    "rehearsal_start: stated": "variable of the site",
    "run_end: stats.gpufleet_gates_by_status": "status",
    "run_start: stats.gpufleet_gates_by_status": "status",
    "snapshot_info: collectors": "collector",
    "snapshot_info: detection.criteria": "criterion",
    "snapshot_info: detection.pools.criteria": "criterion",
    "snapshot_info: summary.releases": "release of Helm (C(namespace/name))",
    "wave_plan: left_out": "node",
    "wave_step: boot_ids": "node",
    "wave_step: labels": "node",
    "wave_step: results": "node",
}
# Values that are plain data of one type of the core: module and path, that type, and what is added when it is told.
TYPES = (
    ("gate", "verdict", "verdict.gate:GateVerdict", ()),
    ("recipe", "detection", "recipe.detect:Detection", ()),
    ("snapshot_info", "detection", "recipe.detect:Detection", ()),
    ("recipe_diff_info", "difference", "recipe.difference:Difference", ()),
    ("recipe_explain_info", "explanation", "recipe.explain:Explanation", ()),
    ("component_stack", "removed", "component_stack.remove:Gone", ()),
    ("node_plan_info", "plan", "features.converge.plan:HostPlan", ("specs",)),
    ("node_plan_info", "ask", "features.converge.plan:Question", ("mig_config",)),
    ("node_state_info", "state", "features.converge.state:HostState", ()),
    ("drift_info", "changes", "features.snapshot.difference:SnapshotChange", ()),
)


def dictionaries(module: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every dictionary, and list of them, with its path."""
    waiting = list(returned(module).items())
    while waiting:
        path, entry = waiting.pop()
        if "dict" in (entry.get("type"), entry.get("elements")):
            yield path, entry
        waiting += [(f"{path}.{name}", inner) for name, inner in (entry.get("contains") or {}).items()]


def is_said(module: str, path: str, entry: dict[str, Any]) -> bool:
    """Tell whether one knows what is in a dictionary: its keys, what they name, or where it is described."""
    text = str(entry["description"])
    if entry.get("contains"):
        return True
    kind = FREE_KEYED.get(f"{module}: {path}")
    if kind is not None:
        return f"by {kind}" in text[0].lower() + text[1:]
    _before, here, name = text.partition("in the form of RV(gpufleet.bringup.")
    if not here:
        return False
    other, _separator, place = name.partition(")")[0].partition("#module:")
    return bool(described(other, place).get("contains"))


@pytest.mark.parametrize("module", NAMES)
def test_every_dictionary_says_what_is_in_it(module: str) -> None:
    assert [path for path, entry in dictionaries(module) if not is_said(module, path, entry)] == []


def test_the_list_of_free_keys_names_what_is_there() -> None:
    there = {f"{module}: {path}" for module in NAMES for path, entry in dictionaries(module) if "contains" not in entry}
    assert FREE_KEYED.keys() - there == set()


@pytest.mark.parametrize(("module", "path", "kind", "more"), TYPES, ids=str)
def test_the_keys_are_those_of_the_type(module: str, path: str, kind: str, more: tuple[str, ...]) -> None:
    place, _colon, name = kind.partition(":")
    result = getattr(import_module(f"{CORE}.{place}"), name)
    assert list(unlike(result, described(module, path), path, more=frozenset(more))) == []


def test_the_verdicts_of_a_saved_run_are_as_described(repository: Path) -> None:
    """As a module returned them, in the order of the gates; those that were not decided have fewer keys."""
    with tarfile.open(repository / "tests/data/healthy_run.tar.xz") as archive:
        member = archive.extractfile("run.json")
        assert member is not None
        gates = json.load(member)["gates"]
    assert len(gates) == 8
    assert [list(misfits(gate, described("gate", "verdict"), gate["gate"])) for gate in gates] == [[]] * 8


def test_what_is_not_described_or_not_returned_is_found() -> None:
    said = described("component_stack", "rollback")
    assert list(misfits({"run_id": "a", "stays": []}, said)) == []
    assert list(misfits({"run_id": 1, "stay": []}, said)) == [
        ".stay: not described", ".stays: not returned", ".run_id: int for str",
    ]  # fmt: skip
    assert list(misfits({"run_id": "a", "stays": [None, 3]}, said)) == [".stays[1]: int for str"]
