# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""On trees that nobody has seen before, the engine agrees with the oracle."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values, plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve

from .conftest import Tree
from .oracle import Oracle

DIMENSIONS: dict[str, list[str]] = {
    "service": ["eks", "gke", "aks", "kind", "oke"],
    "accelerator": ["h100", "gb200", "a100"],
    "intent": ["training", "inference"],
    "os": ["ubuntu", "cos", "rhel"],
    "platform": ["kubeflow", "dynamo"],
}
CHECKS = ["operator-health", "nccl-all-reduce-bw", "dra-support", "gang-scheduling"]
EMPTY = ("", None, [], {}, False)


def some_query(dice: random.Random) -> dict[str, str]:
    """Return random criteria, at least one of them stated."""
    names = dice.sample(sorted(DIMENSIONS), dice.randint(1, 5))
    return {name: dice.choice(DIMENSIONS[name]) for name in names}


def some_values(dice: random.Random, depth: int = 3) -> Any:
    """Return random chart values."""
    if depth == 0 or dice.random() < 0.3:
        return dice.choice([True, False, None, 0, 7, "", "text", [1, {"a": 2}], {}, "24.04"])
    return {dice.choice("abcd"): some_values(dice, depth - 1) for _key in range(dice.randint(1, 3))}


def some_overrides(dice: random.Random) -> dict[str, Any]:
    """Return random overrides; now and then they switch the component off."""
    values = {dice.choice("abcd"): some_values(dice) for _key in range(dice.randint(0, 3))}
    return {**values, "enabled": dice.random() < 0.5} if dice.random() < 0.15 else values


def some_spec(dice: random.Random, names: list[str], components: list[str], mixins: list[str]) -> dict[str, Any]:
    """Return the spec of a random layer."""
    references = []
    for name in dice.sample(components, dice.randint(0, 3)):
        reference: dict[str, Any] = {"name": name, "type": "Helm", "overrides": some_overrides(dice)}
        if dice.random() < 0.4:
            # Only towards names that come first, or nearly every tree would have a cycle.
            earlier = [other for other in components if other < name]
            reference["dependencyRefs"] = dice.sample(earlier, min(len(earlier), 2))
        if dice.random() < 0.3:
            reference["version"] = f"{dice.randint(1, 9)}.{dice.randint(0, 9)}.0"
        if dice.random() < 0.3:
            reference["valuesFile"] = f"components/{name}/values-other.yaml"
        references.append(reference)
    spec: dict[str, Any] = {"componentRefs": references, "base": dice.choice([*names, "base", ""])}
    if dice.random() < 0.9:
        spec["criteria"] = some_query(dice) if dice.random() < 0.95 else {}
    if dice.random() < 0.5:
        spec["constraints"] = [{"name": dice.choice("xyz"), "value": f">= {dice.randint(1, 5)}"}]
    if dice.random() < 0.5:
        checks = dice.choice([[], dice.sample(CHECKS, 2)])
        spec["validation"] = {dice.choice(["deployment", "conformance"]): {"checks": checks}}
    if mixins and dice.random() < 0.3:
        spec["mixins"] = dice.sample(mixins, 1)
    return spec


def random_tree(dice: random.Random, tree: Tree, *, current: bool) -> None:
    """Write a random tree."""
    components = [f"component-{letter}" for letter in "abcdefg"]
    tree.registry(*components)
    for name in components:
        for file in ("values.yaml", "values-other.yaml"):
            tree.write(f"components/{name}/{file}", yaml.safe_dump(some_overrides(dice)))
    mixins = [f"mixin-{number}" for number in range(3)] if current else []
    for name in mixins:
        spec = some_spec(dice, [], components, [])
        tree.overlay(name, {key: spec[key] for key in ("componentRefs", "constraints") if key in spec}, "mixins")
    base = {"componentRefs": [{"name": name, "type": "Helm"} for name in components[:5]]}
    tree.overlay("base", base)
    names: list[str] = []
    for number in range(dice.randint(3, 15)):
        name = f"{dice.choice('klmnop')}{number}"
        tree.overlay(name, some_spec(dice, names, components, mixins))
        names.append(name)


def perturbed(dice: random.Random, source: Path, target: Path) -> None:
    """Copy upstream's tree with layers renamed, re-parented and added, and other values."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    documents = {p.stem: yaml.safe_load(p.read_text(encoding="utf-8")) for p in sorted(target.glob("overlays/*.yaml"))}
    for path in target.glob("overlays/*.yaml"):
        path.unlink()
    renamed = {name: name if name == "base" else f"{dice.randint(0, 9)}-{name}" for name in documents}
    components = sorted(item["name"] for item in documents["base"]["spec"]["componentRefs"])
    for name, document in documents.items():
        spec = document["spec"]
        document["metadata"]["name"] = renamed[name]
        spec["base"] = renamed.get(spec.get("base") or "", "")
        if name != "base" and dice.random() < 0.2:
            # An older layer as parent keeps the chains acyclic.
            spec["base"] = renamed[dice.choice([n for n in ("eks", "aks", "kind", "gke-cos") if n < name] or ["base"])]
            spec["base"] = "" if spec["base"] == renamed[name] else spec["base"]
        for reference in spec.get("componentRefs") or []:
            if dice.random() < 0.3:
                reference["overrides"] = {**(reference.get("overrides") or {}), **some_overrides(dice)}
    if _has_cycle({renamed[n]: d["spec"].get("base") or "" for n, d in documents.items()}):
        for name, document in documents.items():
            document["spec"]["base"] = "" if name != "base" else document["spec"].get("base", "")
    for number in range(4):
        spec = some_spec(dice, list(renamed.values()), components, [])
        for reference in spec["componentRefs"]:
            reference.pop("valuesFile", None)
            reference.pop("dependencyRefs", None)
        header = {"kind": "RecipeMetadata", "apiVersion": "aicr.nvidia.com/v1alpha1"}
        documents[f"extra-{number}"] = {**header, "metadata": {"name": f"extra-{number}"}, "spec": spec}
    for name, document in documents.items():
        path = target / "overlays" / f"{renamed.get(name, name)}.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")


def _has_cycle(parents: dict[str, str]) -> bool:
    for start in parents:
        seen, name = set(), start
        while name and name not in seen:
            seen.add(name)
            name = parents.get(name, "")
        if name:
            return True
    return False


def compare(catalogue: Catalogue, oracle: Oracle, query: dict[str, str]) -> bool:
    """Compare one question; return whether there is a recipe."""
    wanted = oracle.resolve(query)
    try:
        result = resolve(parse_criteria(query, catalogue.vocabulary), catalogue)
    except InputError:
        assert wanted is None, query
        return False
    assert wanted is not None, query
    data = plain(result)
    assert list(result.layers) == wanted["layers"]
    assert data["deploymentOrder"] == wanted["order"]
    assert data.get("constraints", []) == wanted["constraints"]
    found = {component["name"]: component for component in data["componentRefs"]}
    assert set(found) == set(wanted["components"])
    for name, component in wanted["components"].items():
        meant = {key: value for key, value in component.items() if value not in EMPTY}
        assert {key: value for key, value in found[name].items() if value not in EMPTY} == {"type": "Helm", **meant}
    validation = {name: {k: v for k, v in phase.items() if v} for name, phase in wanted["validation"].items()}
    assert data.get("validation", {}) == validation
    for component_ref in result.components:
        assert component_values(component_ref, catalogue) == wanted["values"][component_ref.name]
    return True


@pytest.mark.quickly(10)
@pytest.mark.drawn(30)
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("current", [True, False], ids=["current", "first"])
def test_random_trees(seed: int, current: bool, tmp_path: Path) -> None:
    dice = random.Random(seed)
    tree = Tree(tmp_path / "tree", "aicr.run/v1alpha2" if current else "aicr.nvidia.com/v1alpha1")
    random_tree(dice, tree, current=current)
    catalogue, oracle = tree.load(), Oracle(tree.root, current=current)
    recipes = sum(compare(catalogue, oracle, some_query(dice)) for _query in range(25))
    assert recipes > 0


@pytest.mark.quickly(2)
@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(8))
def test_perturbed_upstream_trees(seed: int, upstream_tree: Path, tmp_path: Path) -> None:
    dice = random.Random(seed)
    perturbed(dice, upstream_tree, tmp_path / "tree")
    catalogue, oracle = load_catalogue([tmp_path / "tree"]), Oracle(tmp_path / "tree", current=False)
    assert sum(compare(catalogue, oracle, some_query(dice)) for _query in range(60)) > 0


def test_the_oracle_knows_the_unperturbed_tree(upstream_tree: Path, upstream: Catalogue) -> None:
    oracle, dice = Oracle(upstream_tree, current=False), random.Random(0)
    assert all(compare(upstream, oracle, some_query(dice)) for _query in range(100))
