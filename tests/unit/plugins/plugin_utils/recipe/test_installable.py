# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cannot be installed is said when a recipe is resolved, and what can be is not."""

from __future__ import annotations

from typing import Any

import pytest
from returned import described, misfits

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import file_values, hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.installable import not_installable
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.output import summary
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import supported_combinations

from .conftest import Tree

BUILT = {"name": "x", "type": "Kustomize", "namespace": "n", "source": "https://git.example/x", "tag": "v1"}


@pytest.mark.parametrize(
    ("ref", "missing"),
    [
        (BUILT, ""),
        ({**BUILT, "source": "/srv/x", "tag": ""}, ""),
        ({**BUILT, "tag": ""}, "no tag"),
        ({**BUILT, "source": "", "namespace": ""}, "no namespace and no source"),
        ({"name": "x", "namespace": "n", "manifestFiles": ["components/x/m.yaml"]}, ""),
        ({"name": "x", "namespace": "n", "chart": "x"}, "no version"),
        ({"name": "x", "namespace": "n", "chart": "x", "overrides": {"enabled": False}}, ""),
    ],
)
def test_what_a_component_lacks(ref: dict[str, Any], missing: str, tree: Tree) -> None:
    tree.write(
        "registry.yaml",
        f"apiVersion: {tree.api}\nkind: ComponentRegistry\ncomponents: [{{name: x, displayName: x}}]\n",
    )
    tree.write("components/x/m.yaml", "a: 1\n")
    tree.overlay("base", {"componentRefs": [{key: value for key, value in ref.items() if value}]})
    catalogue = tree.load()
    told = not_installable(resolve(parse_criteria({"service": "eks"}, catalogue.vocabulary), catalogue))
    assert [f"component x cannot be installed: it has {missing};" in line for line in told] == (
        [True] if missing else []
    )


def test_every_leaf_of_the_catalogue_can_be_installed(own: Catalogue) -> None:
    for criteria in supported_combinations(own):
        assert not_installable(resolve(criteria, own)) == (), criteria


def test_the_summary_shows_tags_and_what_the_controller_needs(own: Catalogue) -> None:
    criteria = {"service": "generic", "accelerator": "h100", "intent": "training", "os": "ubuntu"}
    with_mpi = parse_criteria({**criteria, "platform": "mpi-operator"}, own.vocabulary)
    found = summary(resolve(with_mpi, own), own)
    assert list(misfits(found, described("recipe", "recipe"))) == []
    assert found["needs"] == {"kustomize": ["mpi-operator"]}
    assert found["components"]["mpi-operator"].startswith("v")
    assert summary(resolve(parse_criteria(criteria, own.vocabulary), own), own)["needs"] == {}


def test_criteria_that_change_nothing_are_named(tree: Tree) -> None:
    tree.registry("nfd")
    tree.overlay("base", {"componentRefs": [{"name": "nfd"}]})
    tree.overlay("eks", {"criteria": {"service": "eks"}})
    tree.overlay("training", {"criteria": {"intent": "training"}, "constraints": [{"name": "OS.grub.x", "value": "1"}]})
    catalogue = tree.load()
    asked = parse_criteria({"service": "eks", "intent": "training", "nodes": 4}, catalogue.vocabulary)
    assert summary(resolve(asked, catalogue), catalogue)["without_effect"] == ["service", "nodes"]
    alone = parse_criteria({"service": "eks"}, catalogue.vocabulary)
    assert summary(resolve(alone, catalogue), catalogue)["without_effect"] == []


def test_every_hydrated_recipe_is_as_described(own: Catalogue) -> None:
    said = described("recipe_hydrated_info", "recipe")
    # As a value of a dictionary in Jinja it cannot be named, so RETURN cannot list it.
    for criteria in supported_combinations(own)[::7]:
        recipe = hydrated(resolve(criteria, own), own)
        assert all("values" in entry for entry in recipe["componentRefs"])
        told = {**recipe, "componentRefs": [without_values(entry) for entry in recipe["componentRefs"]]}
        assert list(misfits(told, said)) == [], criteria


def without_values(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a component without its chart values."""
    return {name: value for name, value in entry.items() if name != "values"}


def test_a_file_of_another_tree_is_asked_for_by_its_option(own: Catalogue) -> None:
    with pytest.raises(InputError) as refused:
        file_values("components/acme-tuner/values.yaml", own)
    assert "--data DIR" in refused.value.hint
