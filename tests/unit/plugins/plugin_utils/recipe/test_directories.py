# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several directories: which one wins, by whose rules each is merged, and what is wrong in one, with file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.declared import MEASURED
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.dialect import Dialect
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.measured import PER_NODE
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve

from .conftest import Tree

EKS = {"service": "eks"}


def pinned(version: str, **more: Any) -> dict[str, Any]:
    """Return a layer that pins a component."""
    return {"componentRefs": [{"name": "nfd", "version": version}], **more}


def version(catalogue: Catalogue, **stated: str) -> str:
    """Return the version of the component that a question gets."""
    found = resolve(parse_criteria(stated, catalogue.vocabulary), catalogue).component("nfd")
    assert found is not None
    return found.version


@pytest.mark.parametrize("name", ["acme-training", "training2", "zcme-training"])
def test_of_equally_specific_layers_that_of_the_later_directory_wins(name: str, tree: Tree, tmp_path: Path) -> None:
    tree.registry("nfd")
    tree.overlay("training", pinned("1", criteria={"intent": "training"}))
    private = Tree(tmp_path / "private")
    private.overlay(name, pinned("2", criteria={"intent": "training"}))
    last = Tree(tmp_path / "last")
    last.overlay("a", pinned("3", criteria=EKS))
    catalogue = tree.load(private.root, last.root)
    assert version(catalogue, intent="training") == "2"
    assert version(catalogue, intent="training", service="eks") == "3"


def test_a_more_specific_layer_wins_whichever_directory_it_is_in(tree: Tree, tmp_path: Path) -> None:
    tree.registry("nfd")
    tree.overlay("training", pinned("1", criteria={"intent": "training", **EKS}))
    private = Tree(tmp_path / "private")
    private.overlay("mine", pinned("2", criteria={"intent": "training"}))
    assert version(tree.load(private.root), intent="training", service="eks") == "1"


NESTED = {"componentRefs": [{"name": "nfd", "overrides": {"a": {"x": 1}}}]}
OTHER = {"componentRefs": [{"name": "nfd", "overrides": {"a": {"y": 2}}}], "criteria": EKS}
DEEP, SHALLOW = {"x": 1, "y": 2}, {"y": 2}


def values(catalogue: Catalogue) -> Any:
    """Return what two layers make of one nested value."""
    found = resolve(parse_criteria(EKS, catalogue.vocabulary), catalogue).component("nfd")
    assert found is not None
    return found.overrides["a"]


def upstreams(root: Path) -> Tree:
    """Return a whole tree in upstream's first format."""
    tree = Tree(root, "aicr.nvidia.com/v1alpha1")
    tree.registry("nfd")
    tree.overlay("base", NESTED)
    tree.overlay("eks", OTHER)
    return tree


def test_a_mixin_that_no_layer_names_changes_no_rules(tmp_path: Path) -> None:
    tree = upstreams(tmp_path)
    assert values(tree.load()) == SHALLOW
    assert not tree.load().warnings
    tree.overlay("unused", {}, "mixins")
    assert values(tree.load()) == SHALLOW
    (warning,) = tree.load().warnings
    assert "merged by the rules 'first', because its API version" in warning


def test_a_mixin_that_is_named_changes_the_rules_and_that_is_told(tmp_path: Path) -> None:
    tree = upstreams(tmp_path)
    tree.overlay("used", {}, "mixins")
    tree.overlay("eks", {**OTHER, "mixins": ["used"]})
    assert values(tree.load()) == DEEP
    (warning,) = tree.load().warnings
    assert "merged by the rules 'current', because a layer names the mixin 'used'" in warning
    assert f"{tree.root}/tree.yaml: kind RecipeTree, dialect current" in warning


@pytest.mark.parametrize(("dialect", "expected"), [("first", SHALLOW), ("current", DEEP)])
def test_what_a_directory_states_counts(dialect: str, expected: Any, tmp_path: Path) -> None:
    tree = upstreams(tmp_path)
    tree.overlay("used", {}, "mixins")
    tree.overlay("eks", {**OTHER, "mixins": ["used"]})
    tree.write("tree.yaml", f"apiVersion: gpufleet.bringup/v1\nkind: RecipeTree\ndialect: {dialect}\n")
    assert values(tree.load()) == expected
    assert not tree.load().warnings


def test_a_private_directory_in_upstreams_first_format_says_how_it_is_merged(tree: Tree, tmp_path: Path) -> None:
    tree.registry("nfd")
    tree.overlay("base", NESTED)
    private = Tree(tmp_path / "private", "aicr.nvidia.com/v1alpha1")
    private.overlay("eks", OTHER)
    catalogue = tree.load(private.root)
    assert values(catalogue) == SHALLOW and catalogue.dialect is Dialect.CURRENT
    assert "replaced by those of the later layer" in catalogue.warnings[0]
    private.write("tree.yaml", "apiVersion: gpufleet.bringup/v1\nkind: RecipeTree\ndialect: current\n")
    assert values(tree.load(private.root)) == DEEP


def test_an_unknown_dialect_is_refused(tree: Tree) -> None:
    tree.write("tree.yaml", "apiVersion: gpufleet.bringup/v1\nkind: RecipeTree\ndialect: frist\n")
    with pytest.raises(ProblemsError, match=r"tree\.yaml:3: dialect is 'frist'.*'first'"):
        tree.load()


def refs(**needs: list[str]) -> dict[str, Any]:
    """Return components with what they depend on."""
    return {"componentRefs": [{"name": name, "dependencyRefs": list(items)} for name, items in needs.items()]}


WRONG = [
    (refs(nfd=["nfdd"]), r":\d+: nfd depends on 'nfdd', which is no component of any layer\. Fix: Did you mean 'nfd'"),
    (refs(nfd=["flux"], flux=["nfd"]), r":\d+: component \w+: the dependencies form a cycle: \w+ -> \w+ -> \w+"),
    (refs(nfd=["flux"]), r":\d+: component nfd: depends on 'flux', which is not a component of this recipe"),
    (
        {"constraints": [{"name": "K8s.sever.version", "value": ">= 1"}]},
        r":\d+: .* Did you mean 'K8s\.server\.version'",
    ),
    (
        {"constraints": [{"name": "OS.grub.x", "value": "=> 1.3"}]},
        r":\d+: the constraint OS\.grub\.x: '=> 1\.3' begins with =>, which is no",
    ),
    (
        {"constraints": [{"name": "OS.grub.x", "value": ">= banana"}]},
        r":\d+: the constraint OS\.grub\.x: '>= banana' can be compared with",
    ),
    ({"constraints": [{"name": "OS.grub.x", "value": "~1.3"}]}, r"begins with ~"),
    ({"constraints": [{"name": "OS.grub.x", "value": "<= 5 parsecs", "unit": "s"}]}, r"has the unknown unit 'parsecs'"),
    ({"constraints": [{"name": "OS.grub.x", "value": "in []"}]}, r"the list is empty"),
    ({"validation": {"performance": {"constraints": [{"name": "OS.grub.x", "value": "=< 3"}]}}}, r"begins with =<"),
]


@pytest.mark.parametrize(("spec", "expected"), WRONG)
def test_what_a_layer_cannot_be_resolved_with_is_found_when_it_is_loaded(
    spec: dict[str, Any], expected: str, tree: Tree
) -> None:
    tree.registry("nfd", "flux")
    path = tree.overlay("layer", {"criteria": EKS, **spec})
    with pytest.raises(ProblemsError, match=rf"{path}{expected}" if expected.startswith(":") else expected) as caught:
        tree.load()
    assert all(problem.subject.startswith(f"{path}:") for problem in caught.value.problems)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(("spec", "expected"), WRONG)
def test_in_an_upstream_tree_it_is_told_and_the_rest_is_there(
    spec: dict[str, Any], expected: str, upstream_like: Tree
) -> None:
    upstream_like.registry("nfd", "flux")
    upstream_like.overlay("base", {})
    upstream_like.overlay("gke", {"criteria": {"service": "gke"}})
    upstream_like.overlay("layer", {"criteria": EKS, **spec})
    catalogue = upstream_like.load()
    assert len(catalogue.warnings) == 1
    assert "layer.yaml:" in catalogue.warnings[0]
    assert resolve(parse_criteria({"service": "gke"}, catalogue.vocabulary), catalogue).layers == ("base", "gke")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("K8s.server.version", ">= 1.32.4, < 1.36"),
        ("OS.release.ID", "ubuntu"),
        ("OS.release.VERSION_ID", "in [22.04, 24.04]"),
        ("K8s.image.mine", "!= 3"),
        ("OS.sysctl./proc/sys/net/core/somaxconn", "not in [a, b]"),
    ],
)
def test_what_can_be_judged_is_no_problem(name: str, value: str, tree: Tree) -> None:
    tree.overlay("layer", {"criteria": EKS, "constraints": [{"name": name, "value": value}]})
    assert tree.load().warnings == ()


def test_two_layers_that_meet_only_in_a_question_are_told_with_a_file_and_line(tree: Tree) -> None:
    tree.registry("nfd", "flux")
    tree.overlay("eks", {"criteria": EKS, **refs(nfd=["flux"], flux=[])})
    path = tree.overlay("training", {"criteria": {"intent": "training"}, **refs(nfd=[], flux=["nfd"])})
    catalogue = tree.load()
    with pytest.raises(InputError, match=r"form a cycle: flux -> nfd -> flux") as caught:
        resolve(parse_criteria({**EKS, "intent": "training"}, catalogue.vocabulary), catalogue)
    assert caught.value.subject.startswith(f"{path}:")


@pytest.mark.parametrize(
    ("phase", "name", "told"),
    [
        ("", "K8s.servr.version", "Did you mean 'K8s.server.version'"),
        ("", "mine", "Measured are K8s.server.version"),
        ("", "Deployment.gpu-operator.version", "below validation.deployment.constraints"),
        ("conformance", "nccl-all-reduce-bw", "below validation.performance.constraints"),
        ("deployment", "Deployment.gpu-operator.versoin", "Did you mean 'Deployment.gpu-operator.version'"),
    ],
)
def test_a_constraint_that_nothing_measures_is_an_error_when_it_is_loaded(
    phase: str, name: str, told: str, tree: Tree
) -> None:
    stated: dict[str, Any] = {"constraints": [{"name": name, "value": "1"}]}
    tree.overlay("layer", {"criteria": EKS, **({"validation": {phase: stated}} if phase else stated)})
    with pytest.raises(ProblemsError, match="about nothing that is measured") as caught:
        tree.load()
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("phase", "name"),
    [("deployment", "Deployment.gpu-operator.version"), ("performance", "nccl-all-reduce-bw")],
)
def test_a_phase_may_name_what_is_measured_in_it(phase: str, name: str, tree: Tree) -> None:
    stated = {"constraints": [{"name": name, "value": ">= 24"}]}
    tree.overlay("layer", {"criteria": EKS, "validation": {phase: stated}})
    assert tree.load().warnings == ()


def test_the_names_of_measurements_are_those_that_are_judged() -> None:
    assert set(PER_NODE) | {"K8s.server.version"} == set(MEASURED)
