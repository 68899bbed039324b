# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every recipe: one order, one text, nothing shared; and where upstream is wrong, ours is right."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import make_criteria, parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.explain import explain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated, plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue, RecipeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.order import sorted_graph
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_dump import dump_yaml

from .conftest import Tree

EKS_TRAINING = {"service": "eks", "accelerator": "h100", "intent": "training", "os": "ubuntu", "platform": "kubeflow"}
EKS_INFERENCE = {**EKS_TRAINING, "intent": "inference", "platform": "dynamo"}


def recipe(catalogue: Catalogue, **stated: str) -> RecipeResult:
    """Resolve."""
    return resolve(parse_criteria(stated, catalogue.vocabulary), catalogue)


edges = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef"), max_size=3), max_size=6)


@given(edges)
def test_the_order_is_the_first_of_all_that_are_topological(graph: dict[str, set[str]]) -> None:
    graph = {name: {need for need in needs if need in graph} for name, needs in graph.items()}
    valid = [
        order
        for order in itertools.permutations(sorted(graph))
        if all(graph[name] <= set(order[:number]) for number, name in enumerate(order))
    ]
    if valid:
        assert sorted_graph(graph) == valid[0]
    else:
        with pytest.raises(InputError, match=r"form a cycle: .* -> "):
            sorted_graph(graph)


def test_an_order_of_another_spelling_is_the_same() -> None:
    names = [f"n{number}" for number in range(30)]
    dice = random.Random(7)
    graph = {name: dice.sample(names[:number], min(number, 3)) for number, name in enumerate(names)}
    orders = set()
    for _round in range(20):
        shuffled = dice.sample(names, len(names))
        orders.add(sorted_graph({name: dice.sample(graph[name], len(graph[name])) for name in shuffled}))
    assert len(orders) == 1


def test_merging_does_not_depend_on_the_order_of_files(upstream_tree: Path, tmp_path: Path) -> None:
    shutil.copytree(upstream_tree, tmp_path / "tree", copy_function=shutil.copyfile)
    for number, path in enumerate(sorted((tmp_path / "tree/overlays").iterdir(), reverse=True)):
        if path.name != "base.yaml":
            path.rename(path.with_name(f"{number:03}.yaml"))
    renamed, original = load_catalogue([tmp_path / "tree"]), load_catalogue([upstream_tree])
    for stated in (EKS_TRAINING, EKS_INFERENCE, {"service": "kind"}):
        assert plain(recipe(renamed, **stated)) == plain(recipe(original, **stated))


def test_twice_gives_the_same_bytes(upstream_tree: Path) -> None:
    texts = set()
    for _round in range(2):
        catalogue = load_catalogue([upstream_tree])
        for _again in range(2):
            texts.add(dump_yaml(hydrated(recipe(catalogue, **EKS_TRAINING), catalogue)))
    assert len(texts) == 1


def containers(value: Any) -> Iterator[int]:
    """Yield the identity of every mutable container."""
    if isinstance(value, (dict, list)):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


def test_nothing_is_shared_between_results(upstream: Catalogue) -> None:
    one, other = recipe(upstream, **EKS_TRAINING), recipe(upstream, **EKS_TRAINING)
    held = [dict(component.overrides) for component in other.components]
    seen = {number for values in held for number in containers(values)}
    mine = [dict(component.overrides) for component in one.components]
    assert not seen & {number for values in mine for number in containers(values)}


def spoil(value: Any) -> None:
    """Change every list and mapping of plain data, the innermost first."""
    for item in list(value.values() if isinstance(value, dict) else value):
        if isinstance(item, (dict, list)):
            spoil(item)
    if isinstance(value, dict):
        value["spoiled"] = True
    else:
        value.append("spoiled")


def test_changing_a_result_changes_no_other(upstream: Catalogue) -> None:
    """Upstream's shallow copy writes through to the base that it keeps, and later requests see it."""
    before = dump_yaml(hydrated(recipe(upstream, **EKS_TRAINING), upstream))
    spoiled = hydrated(recipe(upstream, **EKS_TRAINING), upstream)
    spoil(spoiled)
    same = recipe(upstream, **EKS_TRAINING)
    spoil(hydrated(same, upstream))
    assert dump_yaml(hydrated(same, upstream)) == before
    result = recipe(upstream, **EKS_TRAINING)
    for component in result.components:
        component.overrides.clear()  # type: ignore[attr-defined]
    recipe(upstream, service="kind")
    assert dump_yaml(hydrated(recipe(upstream, **EKS_TRAINING), upstream)) == before


def test_ties_resolve_by_name(tree: Tree) -> None:
    """Upstream counts an omitted field as stated, so all overlays tie, and merges ties in random order."""
    tree.registry("nfd")
    tree.overlay("base", {"componentRefs": [{"name": "nfd"}]})
    for name, criteria in (
        ("z-service", {"service": "eks", "accelerator": "any"}),
        ("b-both", {"service": "eks", "os": "ubuntu"}),
        ("a-both", {"service": "eks", "intent": "training"}),
    ):
        tree.overlay(name, {"criteria": criteria, "componentRefs": [{"name": "nfd", "overrides": {"by": name}}]})
    result = recipe(tree.load(), service="eks", os="ubuntu", intent="training")
    assert result.layers == ("base", "z-service", "a-both", "b-both")
    assert result.components[0].overrides == {"by": "b-both"}


@pytest.mark.parametrize(
    ("layer", "query", "applies"),
    [
        ({}, {"service": "eks"}, True),
        ({"service": "any"}, {"service": "eks"}, True),
        ({"service": ""}, {"service": "eks"}, True),
        ({"service": "eks"}, {"service": "eks", "os": "ubuntu"}, True),
        ({"service": "eks", "os": "ubuntu"}, {"service": "eks"}, False),
        ({"service": "gke"}, {"service": "eks"}, False),
        (None, {"service": "eks"}, False),
    ],
)
def test_wildcards_are_asymmetric(
    layer: dict[str, str] | None, query: dict[str, str], applies: bool, tree: Tree
) -> None:
    tree.registry("nfd")
    tree.overlay("layer", {} if layer is None else {"criteria": layer})
    assert ("layer" in recipe(tree.load(), **query).layers) is applies


def test_a_dependency_that_is_not_there(tree: Tree) -> None:
    tree.registry("nfd", "gpu-operator")
    tree.overlay("base", {"componentRefs": [{"name": "nfd", "dependencyRefs": ["gpu-operator"]}]})
    with pytest.raises(InputError, match="depends on 'gpu-operator', which is not a component"):
        recipe(tree.load(), service="eks")


def test_a_disabled_component_is_somebody_elses(tree: Tree) -> None:
    tree.registry("nfd", "gpu-operator")
    tree.overlay("base", {"componentRefs": [{"name": "nfd"}, {"name": "gpu-operator", "dependencyRefs": ["nfd"]}]})
    tree.overlay(
        "eks", {"criteria": {"service": "eks"}, "componentRefs": [{"name": "nfd", "overrides": {"enabled": False}}]}
    )
    tree.overlay(
        "gb200", {"base": "eks", "criteria": {"service": "eks", "accelerator": "gb200"},
                  "componentRefs": [{"name": "nfd", "overrides": {"enabled": True}}]},
    )  # fmt: skip
    catalogue = tree.load()
    result = recipe(catalogue, service="eks")
    assert result.order == ("gpu-operator",)
    assert [component["name"] for component in plain(result)["componentRefs"]] == ["gpu-operator", "nfd"]
    full = hydrated(result, catalogue)
    assert [component["name"] for component in full["componentRefs"]] == ["gpu-operator"]
    assert full["componentRefs"][0]["dependencyRefs"] == []
    assert full["metadata"]["disabled"] == ["nfd"]
    assert recipe(catalogue, service="eks", accelerator="gb200").order == ("nfd", "gpu-operator")


def test_kustomize_and_manifests_before_and_after(tree: Tree) -> None:
    tree.registry("nfd")
    registry = yaml.safe_load((tree.root / "registry.yaml").read_text(encoding="utf-8"))
    kustomize = {"defaultSource": "https://git", "defaultPath": "a", "defaultTag": "v1"}
    registry["components"].append({"name": "flux", "displayName": "flux", "kustomize": kustomize})
    tree.write("registry.yaml", yaml.safe_dump(registry))
    for name in ("a", "b", "c"):
        tree.write(f"components/nfd/{name}.yaml", f"# {name}\n")
    before, after = ["components/nfd/a.yaml"], ["components/nfd/b.yaml"]
    nfd = {"name": "nfd", "preManifestFiles": before, "manifestFiles": after}
    tree.overlay("base", {"componentRefs": [{"name": "flux"}, nfd]})
    later = {"name": "nfd", "manifestFiles": ["components/nfd/b.yaml", "components/nfd/c.yaml"]}
    tree.overlay("eks", {"criteria": {"service": "eks"}, "componentRefs": [later, {"name": "flux", "tag": "v2"}]})
    catalogue = tree.load()
    flux, found = plain(recipe(catalogue, service="eks"))["componentRefs"]
    assert flux == {"name": "flux", "type": "Kustomize", "source": "https://git", "path": "a", "tag": "v2"}
    assert found["preManifestFiles"] == before
    assert found["manifestFiles"] == ["components/nfd/b.yaml", "components/nfd/c.yaml"]
    assert found["chart"] == "nfd"
    # An installer has no catalogue: what it applies is in the hydrated recipe, like the values.
    assert hydrated(recipe(catalogue, service="eks"), catalogue)["componentRefs"][1]["manifests"] == [
        {"when": when, "file": f"components/nfd/{name}.yaml", "text": f"# {name}\n"}
        for when, name in (("before", "a"), ("after", "b"), ("after", "c"))
    ]


LOW = {
    "name": "nfd", "namespace": "low", "chart": "low", "source": "low", "version": "1", "tag": "low", "path": "low",
    "patches": ["low"], "dependencyRefs": ["a"], "manifestFiles": ["components/nfd/a.yaml"], "cleanup": True,
    "expectedResources": [{"kind": "Pod", "name": "low"}], "healthCheckAsserts": "low", "healthCheckSkip": True,
    "overrides": {"a": {"x": 1}, "l": [1]},
}  # fmt: skip
HIGH = {
    "name": "nfd", "namespace": "high", "chart": "high", "source": "high", "version": "2", "tag": "high",
    "path": "high", "patches": ["high"], "dependencyRefs": ["b"], "manifestFiles": ["components/nfd/b.yaml"],
    "cleanup": False, "expectedResources": [{"kind": "Pod", "name": "high"}], "healthCheckAsserts": "high",
    "healthCheckSkip": False, "overrides": {"a": {"y": None}, "l": [2]},
}  # fmt: skip
# What differs from "the later one wins".
STICKY = {
    "cleanup": True,
    "healthCheckSkip": True,
    "manifestFiles": ["components/nfd/a.yaml", "components/nfd/b.yaml"],
    "type": "Helm",
}


@pytest.mark.parametrize("high", [HIGH, {"name": "nfd"}], ids=["said", "inherited"])
@pytest.mark.parametrize("current", [True, False], ids=["current", "first"])
def test_every_field_has_its_rule(high: dict[str, Any], current: bool, tree: Tree, upstream_like: Tree) -> None:
    used = tree if current else upstream_like
    used.registry("nfd", "a", "b")
    for name in ("a", "b"):
        used.write(f"components/nfd/{name}.yaml", "")
    used.overlay("base", {"componentRefs": [LOW, {"name": "a"}, {"name": "b"}]})
    used.overlay("eks", {"criteria": {"service": "eks"}, "componentRefs": [high]})
    found = plain(recipe(used.load(), service="eks"))["componentRefs"][2]
    if high is HIGH:
        merged = {"a": {"x": 1, "y": None}, "l": [2]} if current else {"a": {"y": None}, "l": [2]}
        dependencies = ["a", "b"] if current else ["b"]
        assert found == {**HIGH, **STICKY, "overrides": merged, "dependencyRefs": dependencies}
    else:
        assert found == {**LOW, "type": "Helm"}


def test_a_mixin_adds_and_does_not_redefine(tree: Tree) -> None:
    tree.registry("nfd")
    tree.overlay(
        "os",
        {"constraints": [{"name": "OS.release.VERSION_ID", "value": ">= 2"}], "componentRefs": [{"name": "nfd"}]},
        "mixins",
    )
    tree.overlay("eks", {"criteria": {"service": "eks"}, "mixins": ["os"]})
    catalogue = tree.load()
    result = recipe(catalogue, service="eks")
    assert result.mixins == ("os",)
    assert result.order == ("nfd",)
    tree.overlay(
        "gke",
        {
            "criteria": {"service": "gke"},
            "mixins": ["os"],
            "constraints": [{"name": "OS.release.VERSION_ID", "value": "1"}],
        },
    )
    with pytest.raises(
        ProblemsError,
        match=r"os\.yaml:9: mixin os: its constraint OS\.release\.VERSION_ID \(>= 2\) is already set to 1",
    ):
        tree.load()


def test_a_profile_is_a_choice_that_comes_last(tree: Tree) -> None:
    tree.registry("gpu-operator")
    off = {"componentRefs": [{"name": "gpu-operator", "overrides": {"driver": {"enabled": False}}}]}
    on = {"componentRefs": [{"name": "gpu-operator", "overrides": {"driver": {"enabled": True}}}]}
    profile = {"name": "gpuStack", "default": "azure", "values": {"azure": off, "operator": on}}
    tree.overlay("base", {"componentRefs": [{"name": "gpu-operator", "overrides": {"driver": {"version": "1"}}}]})
    tree.overlay("aks", {"criteria": {"service": "aks"}, "profile": profile})
    tree.overlay("aks-h100", {"base": "aks", "criteria": {"service": "aks", "accelerator": "h100"}, **on})
    catalogue = tree.load()
    criteria = parse_criteria({"service": "aks", "gpu": "h100"}, catalogue.vocabulary)
    default, chosen = resolve(criteria, catalogue), resolve(criteria, catalogue, {"gpuStack": "operator"})
    assert default.components[0].overrides == {"driver": {"version": "1", "enabled": False}}
    assert chosen.components[0].overrides == {"driver": {"version": "1", "enabled": True}}
    assert default.profiles == {"gpuStack": "azure"}
    origin = explain(default, catalogue, "components.gpu-operator.values.driver.enabled").origins[-1]
    assert (origin.layer, origin.value) == ("profile gpuStack=azure", False)
    with pytest.raises(InputError, match=r"has no value 'oprator'.*'operator'"):
        resolve(criteria, catalogue, {"gpuStack": "oprator"})
    with pytest.raises(InputError, match="is not a profile of this recipe"):
        resolve(criteria, catalogue, {"stack": "operator"})


def test_training_and_inference_are_different_stacks(upstream: Catalogue) -> None:
    training, inference = recipe(upstream, **EKS_TRAINING), recipe(upstream, **EKS_INFERENCE)
    mine, theirs = ({c.name for c in result.components} for result in (training, inference))
    assert mine - theirs == {"kubeflow-trainer"}
    assert theirs - mine == {"dynamo-crds", "dynamo-platform", "kgateway-crds", "kgateway"}


def test_the_output_reads_back_as_what_it_was(own: Catalogue) -> None:
    data = plain(recipe(own, service="generic", accelerator="h100", intent="training", os="ubuntu"))
    assert yaml.safe_load(dump_yaml(data)) == data
    assert data["criteria"]["platform"] == "any"
    assert make_criteria({"a": "any"}).stated == ()
