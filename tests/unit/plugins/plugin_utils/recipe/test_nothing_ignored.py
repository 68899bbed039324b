# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing of a private tree is ignored in silence, however it is spelled: it counts, or the user is told."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_dump import dump_yaml

from .conftest import OWN, Tree

REGISTRY = {
    "apiVersion": OWN,
    "kind": "ComponentRegistry",
    "components": [
        {
            "name": "nfd",
            "displayName": "NFD",
            "helm": {"defaultRepository": "https://x.example", "defaultChart": "nfd", "defaultVersion": "9.9.9",
                     "defaultNamespace": "nfd"},
        }
    ],
}  # fmt: skip
CRITERIA = {"apiVersion": OWN, "kind": "CriteriaVocabulary", "dimensions": {"platform": {"values": ["mine"]}}}
CHECKS = {"apiVersion": OWN, "kind": "ValidatorCatalog", "validators": [{"name": "own", "phase": "deployment"}]}
OVERLAY = {"apiVersion": OWN, "kind": "RecipeMetadata", "metadata": {"name": "mine"},
           "spec": {"criteria": {"service": "eks"}}}  # fmt: skip

TAKEN: dict[str, tuple[str, dict[str, Any], Callable[[Catalogue], bool]]] = {
    "registry": (
        "registry.yaml",
        REGISTRY,
        lambda catalogue: catalogue.registry["nfd"].default("helm", "defaultVersion") == "9.9.9",
    ),
    "criteria": (
        "criteria.yaml",
        CRITERIA,
        lambda catalogue: "mine" in catalogue.vocabulary.dimensions["platform"].values,
    ),
    "checks": ("validators/catalog.yaml", CHECKS, lambda catalogue: "own" in catalogue.checks),
    "overlay": ("overlays/mine.yaml", OVERLAY, lambda catalogue: "mine" in catalogue.layers),
}


def plain(data: Any) -> str:
    """Return data as YAML."""
    return dump_yaml(data)


SPELLINGS: dict[str, Callable[[Any], str]] = {
    "plain": plain,
    "byte order mark": lambda data: "\ufeff" + plain(data),
    "JSON": json.dumps,
    "JSON with tabs": lambda data: json.dumps(data, indent="\t"),
    "quoted keys": lambda data: plain(data).replace("kind:", '"kind":').replace("apiVersion:", "'apiVersion':"),
    "indented": lambda data: textwrap.indent(plain(data), "   "),
    "document mark and comment": lambda data: f"# ours\n--- # a document\n{plain(data)}...\n",
    "spaces before colons": lambda data: plain(data).replace("kind:", "kind :").replace("apiVersion:", "apiVersion  :"),
    "value on the next line": lambda data: plain(data).replace("kind: ", "kind:\n  "),
    "carriage returns": lambda data: plain(data).replace("\n", "\r\n"),
    "anchored": lambda data: plain(data).replace("kind: ", "kind: &kind "),
    "flow": lambda data: f"%YAML 1.2\n--- {json.dumps(data)}\n",
}  # fmt: skip


@pytest.fixture
def shipped(tree: Tree) -> Tree:
    """A catalogue with the component whose version the private registry changes."""
    tree.registry("nfd")
    tree.overlay("base", {"componentRefs": [{"name": "nfd"}]})
    return tree


@pytest.mark.parametrize("what", TAKEN)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_document_counts_however_it_is_spelled(what: str, spelling: str, shipped: Tree, tmp_path: Path) -> None:
    name, data, counts = TAKEN[what]
    private = Tree(tmp_path / "private")
    (private.root / name).parent.mkdir(exist_ok=True)
    (private.root / name).write_bytes(SPELLINGS[spelling](data).encode())
    catalogue = shipped.load(private.root)
    assert counts(catalogue), spelling
    assert not catalogue.warnings


@pytest.mark.parametrize("name", ["registry.yml", "registry.json", "Registry.YAML", "more.yaml", "sub/ours.yaml"])
def test_a_registry_counts_whatever_its_file_is_called(name: str, shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    private.write(name, json.dumps(REGISTRY))
    assert TAKEN["registry"][2](shipped.load(private.root))


WRONG = {
    "a letter too many in the kind": ({"kind": "ComponentRegistryy"}, "'ComponentRegistry'"),
    "a letter too few in the kind": ({"kind": "ComponentRegisty"}, "'ComponentRegistry'"),
    "small letters": ({"kind": "componentregistry"}, "'ComponentRegistry'"),
    "no kind": ({"kind": None}, "has no kind"),
    "a misspelled key": ({"kind": None, "kinds": "ComponentRegistry"}, "has no kind"),
    "a wrong API": ({"apiVersion": "gpufleet.bringup/v2"}, "'gpufleet.bringup/v1'"),
    "a misspelled API": ({"apiVersion": "gpufleet.bringp/v1"}, "'gpufleet.bringup/v1'"),
    "a misspelled upstream API": ({"apiVersion": "aicr.nvidia.co/v1alpha1"}, "'aicr.nvidia.com/v1alpha1'"),
    "no API": ({"apiVersion": None}, "has no apiVersion"),
    "both misspelled": ({"apiVersion": "gpufleet/v1", "kind": "ComponentsRegistry"}, "'ComponentRegistry'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_misspelled_registry_is_refused_with_its_line(case: str, shipped: Tree, tmp_path: Path) -> None:
    change, expected = WRONG[case]
    private = Tree(tmp_path / "private")
    data = {key: value for key, value in {**REGISTRY, **change}.items() if value is not None}
    path = private.write("registry.yaml", plain(data))
    with pytest.raises(ProblemsError) as caught:
        shipped.load(private.root)
    (problem,) = caught.value.problems
    assert problem.subject.startswith(f"{path}:")
    assert expected in str(problem)


@pytest.mark.parametrize("case", [case for case in WRONG if "kind" in WRONG[case][0] and WRONG[case][0]["kind"]])
def test_a_misspelled_kind_is_refused_in_a_file_of_any_name(case: str, shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    private.write("pins.yaml", plain({**REGISTRY, **WRONG[case][0]}))
    with pytest.raises(ProblemsError, match="unknown kind"):
        shipped.load(private.root)


@pytest.mark.parametrize("text", ["", "[]\n", "null\n", "text\n", "# all commented out\n"])
@pytest.mark.parametrize("name", ["registry.yaml", "overlays/a.yaml", "validators/catalog.yaml"])
def test_an_empty_document_is_refused(text: str, name: str, shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    private.write(name, text)
    with pytest.raises(ProblemsError, match=r"is empty, expected|is no mapping, expected"):
        shipped.load(private.root)


def test_a_second_document_in_a_file_is_refused(shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    private.write("pins.yaml", f"a: 1\n---\n{plain(REGISTRY)}")
    with pytest.raises(ProblemsError, match="a second document begins"):
        shipped.load(private.root)


def test_text_of_another_encoding_is_refused(shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    (private.root / "registry.yaml").write_bytes(plain(REGISTRY).encode("utf-16"))
    with pytest.raises(ProblemsError, match=r"is not UTF-8 text\. Fix: Save it as UTF-8"):
        shipped.load(private.root)


def test_one_component_in_two_registries_of_a_directory_is_refused(shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    private.write("a.yaml", plain(REGISTRY))
    private.write("b.yaml", plain(REGISTRY))
    with pytest.raises(ProblemsError, match="the component 'nfd' is also defined in"):
        shipped.load(private.root)


@pytest.mark.parametrize(
    "name",
    [
        "components/nfd/value.yaml",
        "component/nfd/values.yaml",
        "components/nfd/values.yaml",
        "gpu_stack.yaml",
        "overlays/mine.yaml.bak",
        "registry",
        "hardware/sub/sku.yaml",
        "threshold/nodes.yaml",
        "thresholds/nodes.yml",
        "chart/templates/x.yaml",
        "manifest.yaml",
    ],
)
def test_a_file_that_nothing_reads_is_named(name: str, shipped: Tree, tmp_path: Path) -> None:
    texts = {"chart/templates/x.yaml": "{{ if }}\n", "manifest.yaml": "apiVersion: apps/v1\nkind: Deployment\n"}
    private = Tree(tmp_path / "private")
    private.write("registry.yaml", plain(REGISTRY))
    private.write(name, texts.get(name, "a: 1\n"))
    (warning,) = shipped.load(private.root).warnings
    assert warning.startswith(f"{private.root}: nothing reads ")
    assert name.split("/")[0] in warning


def test_what_is_read_or_for_people_is_not_named(shipped: Tree, tmp_path: Path) -> None:
    shipped.overlay("eks", {"componentRefs": [{"name": "nfd", "valuesFile": "components/nfd/eks.yaml"}],
                            "criteria": {"service": "eks"}})  # fmt: skip
    shipped.write("components/nfd/eks.yaml", "a: 1\n")
    private = Tree(tmp_path / "private")
    for name in ("components/nfd/eks.yaml", "components/nfd/values.yaml", "hardware/sku.yaml", "thresholds/nodes.yaml",
                 "README.md", "LICENSE", "CODEOWNERS", ".gitignore", ".git/config", ".github/x.yaml"):  # fmt: skip
        private.write(name, "a: 1\n")
    assert shipped.load(private.root).warnings == ()


def test_a_dimension_that_no_layer_names_is_told_with_the_nearest_one(shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    vocabulary = {"apiVersion": "gpufleet.bringup/v1", "kind": "CriteriaVocabulary"}
    private.write("criteria.yaml", plain({**vocabulary, "dimensions": {"platfomr": {"values": ["acme"]}}}))
    (warning,) = shipped.load(private.root).warnings
    assert re.search(r"criteria\.yaml:\d+: the dimension 'platfomr' is new and no layer names it", warning)
    assert warning.endswith("Did you mean 'platform'?")
    private.write("criteria.yaml", plain({**vocabulary, "dimensions": {"region": {"values": ["here"]}}}))
    private.overlay("here", {"criteria": {"region": "here"}})
    assert shipped.load(private.root).warnings == ()


def test_many_files_are_named_by_their_directory(shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    private.write("registry.yaml", plain(REGISTRY))
    for number in range(20):
        private.write(f"dashboards/{number}.json", "{}")
    (warning,) = shipped.load(private.root).warnings
    assert "nothing reads dashboards/ (20 files):" in warning


def test_an_empty_directory_is_named(shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    assert "holds no recipe data" in shipped.load(private.root).warnings[0]


def test_a_pipe_in_the_tree_is_refused_and_hangs_nothing(shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    os.mkfifo(private.root / "registry.yaml")
    with pytest.raises(ProblemsError, match="is neither a file nor a directory"):
        shipped.load(private.root)


def test_the_catalogue_itself_says_nothing(repository: Path) -> None:
    assert load_catalogue([repository / "recipes"]).warnings == ()
