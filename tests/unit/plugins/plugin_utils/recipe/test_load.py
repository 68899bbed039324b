# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loading is strict: every problem at once, with file, line, what is wrong and the nearest valid name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    NotFoundError,
    ProblemsError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.tree import MAX_BYTES

from .conftest import Tree


def problems_of(tree: Tree, *more: Path) -> list[str]:
    """Return the problems of a tree as texts."""
    with pytest.raises(ProblemsError) as caught:
        tree.load(*more)
    return [str(problem) for problem in caught.value.problems]


def ref(name: str, **more: Any) -> dict[str, Any]:
    """Return a spec with one component."""
    return {"componentRefs": [{"name": name, **more}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"critera": {"service": "eks"}}, r"spec\.critera is not a known key.*'criteria'"),
        ({"componentRefs": {}}, r"spec\.componentRefs must be a list, found a mapping"),
        (ref("gpu-operator", overides={}), r"componentRefs\[0\]\.overides is not a known key.*'overrides'"),
        (ref("gpu-operatr"), r"'gpu-operatr' is not in the registry.*'gpu-operator'"),
        (ref("gpu-operator", version=26.7), r"the text 26\.7 is read as a number.*\"26\.7\" in quotes"),
        (ref("gpu-operator", cleanup="yes"), r"cleanup must be true or false, found a text"),
        (ref("gpu-operator", type="Helmet"), r"'Helmet', which is not one of Helm.*'Helm'"),
        (ref("gpu-operator", overrides={"enabled": "no"}), r"overrides\.enabled of gpu-operator must be true or false"),
        (ref("gpu-operator", valuesFile="components/x.yaml"), r"valuesFile 'components/x\.yaml' does not exist"),
        (ref("gpu-operator", valuesFile="../x.yaml"), r"leaves the tree with '\.\.'"),
        (ref("gpu-operator", manifestFiles=["/etc/passwd"]), r"is not a relative path"),
        ({"base": "eksx"}, r"the parent 'eksx' of layer does not exist.*'eks'"),
        ({"base": "layer"}, r"the parents form a cycle: layer -> layer"),
        ({"mixins": ["os-ubunto"]}, r"the mixin 'os-ubunto' of layer does not exist.*'os-ubuntu'"),
        ({"criteria": {"servce": "eks"}}, r"criteria servce: is not a known criterion.*'service'"),
        ({"criteria": {"service": "ekz"}}, r"'ekz' is not a known value.*'eks'"),
        ({"criteria": {"service": ["eks"]}}, r"must be one word"),
        ({"criteria": "eks"}, r"spec\.criteria must be a mapping"),
        ({"regardlessOf": ["accelerater"]}, r"'accelerater' in regardlessOf.*'accelerator'"),
        ({"constraints": [{"name": "x"}]}, r"constraints\[0\]\.value is missing"),
        ({"constraints": [{"name": "x", "value": "1", "severity": "eror"}]}, r"'eror', which is not one of.*'error'"),
        ({"constraints": [{"name": "x", "value": "1"}, {"name": "x", "value": "2"}]}, r"has name 'x' twice"),
        ({"validation": {"deploy": {}}}, r"validation\.deploy is not a known key.*'deployment'"),
    ],
)
def test_a_wrong_layer(spec: dict[str, Any], expected: str, tree: Tree) -> None:
    tree.registry("gpu-operator", "nfd")
    tree.overlay("eks", {"criteria": {"service": "eks"}})
    tree.overlay("os-ubuntu", {}, "mixins")
    path = tree.overlay("layer", spec)
    (problem,) = problems_of(tree)
    assert re.search(expected, problem), problem
    assert re.match(rf"{re.escape(str(path))}:\d+: ", problem), problem


def test_line_numbers_are_those_of_the_value(tree: Tree) -> None:
    tree.registry("nfd")
    tree.write(
        "overlays/x.yaml",
        "apiVersion: gpufleet.bringup/v1\nkind: RecipeMetadata\nmetadata: {name: x}\nspec:\n"
        "  componentRefs:\n    - name: nfd\n    - name: nfd2\n      chrt: a\n",
    )
    assert [problem.split(": ")[0].rpartition(":")[2] for problem in problems_of(tree)] == ["7", "8"]


def test_all_problems_come_at_once(tree: Tree, tmp_path: Path) -> None:
    tree.registry("nfd")
    tree.overlay("a", ref("nfdd"))
    tree.overlay("b", {"base": "aa"})
    tree.write("overlays/c.yaml", "kind: [")
    tree.write("overlays/d.yaml", "kind: RecipeMetadate\n")
    tree.write("overlays/e.yaml", "apiVersion: gpufleet.bringup/v2\nkind: RecipeMetadata\n")
    tree.write("mixins/f.yaml", "apiVersion: gpufleet.bringup/v1\nkind: RecipeMixin\nspec: {a: 1, a: 2}\n")
    (tree.root / "overlays" / "link.yaml").symlink_to(tmp_path)
    with (tree.root / "big.yaml").open("wb") as handle:
        handle.truncate(MAX_BYTES + 1)
    text = "\n".join(problems_of(tree))
    for expected in ("'nfdd'", "'aa'", "not YAML", "Did you mean 'RecipeMetadata'", "'gpufleet.bringup/v2'",
                     "written twice", "is a symbolic link", "at most"):  # fmt: skip
        assert expected in text, expected


@pytest.mark.parametrize(
    ("key", "hint"), [("enabled: false", "overrides: {enabled: false}"), ("values: {}", "valuesFile")]
)
def test_a_key_that_belongs_elsewhere_is_told_where(tree: Tree, key: str, hint: str) -> None:
    tree.registry("nfd")
    tree.overlay("a", {"componentRefs": [{"name": "nfd"} | yaml.safe_load(key)]})
    (problem,) = problems_of(tree)
    assert f"{key.partition(':')[0]} is not a known key" in problem
    assert hint in problem


def test_one_name_twice_in_a_directory(tree: Tree) -> None:
    tree.registry("nfd")
    tree.overlay("a", {})
    tree.write("overlays/sub/b.yaml", (tree.root / "overlays/a.yaml").read_text(encoding="utf-8"))
    assert "'a' is also defined in" in problems_of(tree)[0]


def test_a_linked_directory_is_refused(tree: Tree, tmp_path: Path) -> None:
    tree.registry("nfd")
    (tmp_path / "elsewhere").mkdir()
    (tree.root / "overlays").symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in problems_of(tree)[0]


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is not a directory"):
        load_catalogue([tmp_path / "nowhere"])


def test_a_registry_entry_is_checked(tree: Tree) -> None:
    tree.registry("nfd", nfd={"kustomize": {"defaultSource": "https://x"}, "valueOverideKeys": ["n"]})
    text = "\n".join(problems_of(tree))
    assert "both helm and kustomize" in text
    assert "'valueOverrideKeys'" in text


def test_a_pattern_that_is_none(tree: Tree) -> None:
    tree.write(
        "criteria.yaml",
        "apiVersion: gpufleet.bringup/v1\nkind: CriteriaVocabulary\ndimensions: {}\n"
        "detection: [{dimension: service, value: eks, fact: label, pattern: '('}]\n",
    )
    assert "not a regular expression" in problems_of(tree)[0]


@pytest.mark.parametrize("image", ["{id: x, pattern: '('}", r"{id: x, pattern: 'X (\d+)', version: '\2'}"])
def test_an_os_image_that_cannot_be_read(image: str, tree: Tree) -> None:
    text = "apiVersion: gpufleet.bringup/v1\nkind: CriteriaVocabulary\ndimensions: {}\n"
    tree.write("criteria.yaml", f"{text}osImages:\n  - {image}\n")
    (problem,) = problems_of(tree)
    assert "criteria.yaml:5: the pattern and its version do not fit together" in problem


def test_in_an_upstream_tree_unknown_keys_are_warnings(upstream_like: Tree) -> None:
    upstream_like.registry("nfd")
    upstream_like.overlay(
        "base", {"components": [], "componentRefs": [{"name": "nfd", "type": "Helm", "version": 1.10}]}
    )
    upstream_like.write(
        "overlays/x.yaml",
        "apiVersion: aicr.nvidia.com/v1alpha1\nkind: RecipeMetadata\nmetadata: {name: x}\n"
        "spec:\n  criteria: {service: mine}\n  constraints: [{name: OS.release.VERSION_ID, value: 24.10}]\n",
    )
    catalogue = upstream_like.load()
    assert len(catalogue.warnings) == 1
    assert "spec.components is not a known key" in catalogue.warnings[0]
    # The text that was written counts, not the number that it looks like.
    result = resolve(parse_criteria({"service": "mine"}, catalogue.vocabulary), catalogue)
    assert result.constraints[0].value == "24.10"


def test_a_wrong_type_is_an_error_in_an_upstream_tree_too(upstream_like: Tree) -> None:
    upstream_like.registry("nfd")
    upstream_like.overlay("base", {"componentRefs": "nfd"})
    assert "must be a list" in problems_of(upstream_like)[0]


def test_later_directories_win(tree: Tree, tmp_path: Path) -> None:
    tree.registry("nfd", "gpu-operator")
    tree.overlay("base", {"componentRefs": [{"name": "nfd", "valuesFile": "components/nfd/values.yaml"}]})
    tree.overlay("eks", {"criteria": {"service": "eks"}, "constraints": [{"name": "OS.grub.a", "value": "1"}]})
    tree.write("components/nfd/values.yaml", "a: 1\n")
    private = Tree(tmp_path / "private")
    private.write("components/nfd/values.yaml", "a: 2\n")
    private.overlay("eks", {"criteria": {"service": "eks"}, "constraints": [{"name": "OS.grub.a", "value": "2"}]})
    private.registry("mine")
    private.overlay("mine", {"criteria": {"service": "eks", "platform": "mine"}, **ref("mine")})
    private.write(
        "criteria.yaml",
        "apiVersion: gpufleet.bringup/v1\nkind: CriteriaVocabulary\ndimensions: {platform: {values: [mine]}}\n",
    )
    private.write(
        "validators/catalog.yaml",
        "apiVersion: gpufleet.bringup/v1\nkind: ValidatorCatalog\nvalidators: [{name: own, phase: deployment}]\n",
    )
    catalogue = tree.load(private.root)
    result = resolve(parse_criteria({"service": "eks", "platform": "mine"}, catalogue.vocabulary), catalogue)
    assert [component.name for component in result.components] == ["mine", "nfd"]
    assert result.constraints[0].value == "2"
    assert catalogue.files["components/nfd/values.yaml"].parts[-4] == "private"
    assert set(catalogue.checks) == {"own"}
    assert {"nfd", "gpu-operator", "mine"} <= set(catalogue.registry)


def test_a_replaced_file_is_not_read(tree: Tree, tmp_path: Path) -> None:
    tree.registry("nfd")
    tree.write("overlays/eks.yaml", "kind: [")
    private = Tree(tmp_path / "private")
    private.overlay("eks", {"criteria": {"service": "eks"}})
    assert "eks" in tree.load(private.root).layers


def test_a_layers_values_file_needs_no_values_of_the_component(tree: Tree) -> None:
    tree.registry("nfd")
    tree.write("components/nfd/values-eks.yaml", "a: 1\n")
    values = {"name": "nfd", "valuesFile": "components/nfd/values-eks.yaml"}
    tree.overlay("base", {"componentRefs": [values]})
    catalogue = tree.load()
    result = resolve(parse_criteria({"service": "eks"}, catalogue.vocabulary), catalogue)
    assert component_values(result.components[0], catalogue) == {"a": 1}


def test_values_that_are_no_mapping(tree: Tree) -> None:
    tree.registry("nfd")
    tree.write("components/nfd/values.yaml", "[1]\n")
    tree.overlay("base", {"componentRefs": [{"name": "nfd", "valuesFile": "components/nfd/values.yaml"}]})
    (problem,) = problems_of(tree)
    assert "components/nfd/values.yaml:1: must be a mapping of chart values" in problem


def test_a_private_tree_alone_is_valid(tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    private.registry("mine")
    private.overlay("mine", {"criteria": {"service": "generic"}, **ref("mine")})
    catalogue = private.load()
    result = resolve(parse_criteria({"service": "self-managed"}, catalogue.vocabulary), catalogue)
    assert result.order == ("mine",)


def test_an_alias_of_the_first_dialect_meant_any(upstream_like: Tree, tree: Tree) -> None:
    for each in (upstream_like, tree):
        each.registry("nfd")
        each.overlay("base", {})
    first, ours = upstream_like.load(), tree.load()
    assert not parse_criteria({"service": "Self-Managed "}, first.vocabulary).stated
    assert parse_criteria({"service": "Self-Managed "}, ours.vocabulary).get("service") == "generic"
    assert parse_criteria({"gpu": "H100"}, first.vocabulary).get("accelerator") == "h100"
    assert parse_criteria({"os": "al2023"}, ours.vocabulary).get("os") == "amazonlinux"


def test_the_number_of_nodes_was_matched_and_is_advisory_now(upstream_like: Tree, tree: Tree) -> None:
    for each, expected in ((upstream_like, {"4": True, "8": False}), (tree, {"4": True, "8": True})):
        each.registry("nfd")
        each.overlay("base", {})
        each.overlay("four", {"criteria": {"service": "eks", "nodes": 4}})
        catalogue = each.load()
        for nodes, applied in expected.items():
            result = resolve(parse_criteria({"service": "eks", "nodes": nodes}, catalogue.vocabulary), catalogue)
            assert ("four" in result.layers) is applied


DOCUMENTS = (
    "apiVersion: gpufleet.bringup/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n  criteria: {{service: eks}}\n"
    "  componentRefs:\n    - name: nfd\n      overrides: {{a: 1}}\n  constraints: [{{name: a, value: '1'}}]\n"
    "components:\n  - {{name: nfd, displayName: nfd, helm: {{defaultChart: nfd}}}}\ndimensions: {{service: {{}}}}\n"
    "validators: [{{name: a, phase: deployment}}]\n"
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_the_fuzzed_decoder_shows_no_traceback(data: st.DataObject, tmp_path: Path) -> None:
    kind = data.draw(st.sampled_from(["RecipeMetadata", "RecipeMixin", "ComponentRegistry", "CriteriaVocabulary",
                                      "ValidatorCatalog"]))  # fmt: skip
    api = data.draw(st.sampled_from(["gpufleet.bringup/v1", "aicr.nvidia.com/v1alpha1", "aicr.run/v1alpha2"]))
    text = DOCUMENTS.format(kind=kind).replace("gpufleet.bringup/v1", api)
    junk = st.sampled_from(["[", "{", "- ", ": ", "null", "true", "1.5", "'", "&a ", "*a", "!!x ", "\n", "  ", "<<: "])
    for _change in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(junk | st.text(max_size=4)) + text[at + cut :]
    tree = Tree(tmp_path / "fuzz")
    tree.write("overlays/x.yaml", "")
    (tree.root / "overlays/x.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        catalogue = tree.load()
        resolve(parse_criteria({"service": "eks"}, catalogue.vocabulary), catalogue)
    except BringupError as error:
        assert str(error)
