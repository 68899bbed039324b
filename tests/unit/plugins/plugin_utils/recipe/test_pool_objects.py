# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of one cluster: one object is defined once, and the documented example has no object twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import make_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.pools import Pool, resolve_pools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import answer_pools, request_of

from .conftest import Tree

FORMS = [
    "apiVersion: v1\nkind: Quota\nmetadata:\n  name: {name}\n",
    "# A comment.\n---\nmetadata:\n  labels: {{a: b}}\n  # Why.\n  name: '{name}'\nkind: \"Quota\"\napiVersion: v1\n",
    "{{{{- if .Values.on }}}}\n---\nkind: Quota\nmetadata: {{labels: {{a: b}}, name: {name}}}\n{{{{- end }}}}\n",
]


def pools_of(tree: Tree, first: str, second: str) -> list[Pool]:
    """Return two pools, each with a manifest file."""
    tree.registry("tune")
    for name, text in (("h100", first), ("gb200", second)):
        tree.write(f"components/tune/{name}.yaml", text)
        files = {"name": "tune", "manifestFiles": [f"components/tune/{name}.yaml"]}
        tree.overlay(name, {"criteria": {"service": "eks", "accelerator": name}, "componentRefs": [files]})
    criteria = ({"service": "eks", "accelerator": name} for name in ("h100", "gb200"))
    return [Pool(name=stated["accelerator"], criteria=make_criteria(stated)) for stated in criteria]


@pytest.mark.parametrize("one", FORMS)
@pytest.mark.parametrize("other", FORMS)
def test_an_object_of_two_files_is_refused(one: str, other: str, tree: Tree) -> None:
    pools = pools_of(tree, one.format(name="tuning"), "---\n" + other.format(name="tuning"))
    with pytest.raises(
        ProblemsError, match=r"tune defines Quota tuning in components/tune/gb200\.yaml, pool h100 in .*h100"
    ):
        resolve_pools(pools, tree.load())


@pytest.mark.parametrize("other", FORMS)
def test_objects_with_names_of_their_own_are_all_there(other: str, tree: Tree) -> None:
    pools = pools_of(tree, FORMS[0].format(name="tuning"), other.format(name="tuning-gb200"))
    (component,) = resolve_pools(pools, tree.load()).result.components
    assert len(component.manifest_files) == 2


def test_the_documented_example_resolves(repository: Path) -> None:
    text = (repository / "docs" / "recipes.md").read_text(encoding="utf-8").partition("## Several GPU pools")[2]
    stated = yaml.safe_load("\n".join(re.findall(r"^    (.*)$", text, re.MULTILINE)))
    recipe, _catalogue, _warnings = answer_pools(
        request_of({"criteria": stated["gpufleet_criteria"]}), stated["gpufleet_recipe_pools"]
    )
    assert [pool.name for pool, _result in recipe.pools] == ["big", "tray"]
