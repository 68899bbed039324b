# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recipe that the NVIDIA tool reads brings what it names, or says that the tool would take its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.foreign_data import foreign_warnings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue, RecipeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.output import documents, write_documents
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve

from .conftest import Tree

FILE = "components/nfd/m.yaml"


def recipe(catalogue: Catalogue) -> RecipeResult:
    """Resolve."""
    return resolve(parse_criteria({"service": "eks"}, catalogue.vocabulary), catalogue)


def some_catalogue(tree: Tree, *, files: bool = True, values: bool = True) -> Catalogue:
    """Return a catalogue with a component that has values and manifest files."""
    tree.registry("nfd", nfd={"knownPaths": ["a.b"], "valueOverrideKeys": ["n"]})
    tree.write(FILE, "kind: X\n")
    tree.write("components/nfd/values.yaml", "a: 1\n")
    ref = {"name": "nfd", **({"manifestFiles": [FILE]} if files else {}),
           **({"valuesFile": "components/nfd/values.yaml"} if values else {})}  # fmt: skip
    tree.overlay("base", {"componentRefs": [ref]})
    return tree.load()


# What NVIDIA/aicr accepts, by release: `IsSupportedRecipeResultAPIVersion` and `IsSupportedAuthoringAPIVersion` of
# pkg/header (header_test.go of July 2026), the table of docs/integrator/data-extension.md, and v0.11's own constant.
APIS = {
    None: ("aicr.run/v1", "aicr.run/v1beta1"),
    "aicr.run/v1alpha2": ("aicr.run/v1alpha2", "aicr.run/v1alpha2"),
    "aicr.nvidia.com/v1alpha1": ("aicr.nvidia.com/v1alpha1", "aicr.nvidia.com/v1alpha1"),
}


class _Wrapped(str):
    """A text as Ansible gives an option to a plugin: of a class of its own."""


def test_the_api_of_a_recipe_is_written_in_whatever_class_the_option_comes(tree: Tree, tmp_path: Path) -> None:
    """Module recipe with `dest` ended with a RepresenterError; the commands of docs/recipes.md showed it."""
    catalogue = some_catalogue(tree)
    texts = documents(recipe(catalogue), catalogue, {"dest": str(tmp_path / "r.yaml"), "api": _Wrapped("aicr.run/v1")})
    (text,) = (file.text for file in texts.values())
    assert yaml.safe_load(text)["apiVersion"] == "aicr.run/v1"


@pytest.mark.parametrize("api", APIS)
def test_manifest_files_come_with_a_self_contained_recipe(tree: Tree, tmp_path: Path, api: str | None) -> None:
    catalogue, dest = some_catalogue(tree), tmp_path / "out" / "recipe.yaml"
    result = recipe(catalogue)
    write_documents(
        documents(result, catalogue, {"dest": str(dest), "self_contained": True, "api": api}), check_mode=False
    )
    data = dest.parent / "recipe-data"
    assert (data / FILE).read_text(encoding="utf-8") == "kind: X\n"
    registry = yaml.safe_load((data / "registry.yaml").read_text(encoding="utf-8"))
    stated = yaml.safe_load(dest.read_text(encoding="utf-8"))["apiVersion"]
    assert (stated, registry["apiVersion"]) == APIS[api]
    assert [(entry["name"], "knownPaths" in entry, entry["valueOverrideKeys"]) for entry in registry["components"]] == [
        ("nfd", False, ["n"])
    ]
    (told,) = foreign_warnings(result, catalogue, dest, self_contained=True)
    assert f"--data {data}" in told


def test_a_recipe_that_names_files_of_ours_says_so(tree: Tree, tmp_path: Path) -> None:
    catalogue = some_catalogue(tree)
    assert set(documents(recipe(catalogue), catalogue, {"dest": str(tmp_path / "a.yaml")})) == {tmp_path / "a.yaml"}
    (told,) = foreign_warnings(recipe(catalogue), catalogue, tmp_path / "a.yaml", self_contained=False)
    assert "names 1 values file and 1 manifest file" in told and "self_contained" in told


def test_a_recipe_that_names_nothing_has_nothing_beside_it(tree: Tree, tmp_path: Path) -> None:
    catalogue = some_catalogue(tree, files=False, values=False)
    for whole in (True, False):
        options = {"dest": str(tmp_path / "a.yaml"), "self_contained": whole}
        assert list(documents(recipe(catalogue), catalogue, options)) == [tmp_path / "a.yaml"]
        assert foreign_warnings(recipe(catalogue), catalogue, tmp_path / "a.yaml", self_contained=whole) == ()
    assert foreign_warnings(recipe(catalogue), catalogue, None, self_contained=False) == ()
