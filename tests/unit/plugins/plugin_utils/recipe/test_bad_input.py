# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Broken trees are told with file, line and the right cause when they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_text import decode

from .conftest import Tree


@pytest.fixture
def shipped(tree: Tree) -> Tree:
    """A catalogue in which the GPU operator depends on nfd."""
    tree.registry("nfd", "gpu-operator")
    refs = [{"name": "nfd"}, {"name": "gpu-operator", "dependencyRefs": ["nfd"]}]
    tree.overlay("base", {"componentRefs": refs})
    tree.overlay("gke", {"criteria": {"service": "gke", "accelerator": "h100"}, "componentRefs": refs})
    return tree


def problems_of(tree: Tree, *more: Path) -> list[str]:
    """What is told of a tree that is refused."""
    with pytest.raises(ProblemsError) as caught:
        tree.load(*more)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("where", ["overlay", "mixin", "less specific overlay"])
def test_a_cycle_is_told_where_the_site_closed_it(where: str, shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    closing: dict[str, Any] = {"componentRefs": [{"name": "nfd", "dependencyRefs": ["gpu-operator"]}]}
    criteria = {"criteria": {"service": "gke"} if where.startswith("less") else {"service": "gke", "os": "cos"}}
    if where == "mixin":
        file = private.overlay("care", closing, "mixins")
        private.overlay("a", {**criteria, "mixins": ["care"]})
    else:
        file = private.overlay("a", {**criteria, **closing})
    (problem,) = problems_of(shipped, private.root)
    assert problem.startswith(f"{file}:"), problem
    assert "the dependencies form a cycle: gpu-operator -> nfd -> gpu-operator" in problem


WRONG_VALUES = {
    "a key twice": ("a: 1\nb: 2\na: 3\n", r":3: the key 'a' is written twice"),
    "a list": ("- a\n", r":1: must be a mapping of chart values"),
    "too deep": ("[" * 5000 + "]" * 5000, r":1: nested deeper than"),
    "no YAML": ("a: [\n", r":\d: not YAML"),
    "a NUL byte": ("a: 1\nb: x\0y\n", r":2: not YAML: control characters are not allowed"),
}


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_chart_values_that_cannot_be_read_are_found_when_a_tree_is_loaded(
    case: str, shipped: Tree, tmp_path: Path
) -> None:
    text, expected = WRONG_VALUES[case]
    private = Tree(tmp_path / "private")
    file = private.write("components/nfd/own.yaml", text)
    ref = {"name": "nfd", "valuesFile": "components/nfd/own.yaml"}
    private.overlay("a", {"criteria": {"service": "eks"}, "componentRefs": [ref]})
    with pytest.raises(ProblemsError, match=f"{file}{expected}"):
        shipped.load(private.root)


def test_in_an_upstream_tree_unreadable_values_are_told_and_the_rest_is_there(upstream_like: Tree) -> None:
    upstream_like.registry("nfd")
    upstream_like.write("components/nfd/values.yaml", "- a\n")
    upstream_like.overlay("base", {"componentRefs": [{"name": "nfd", "valuesFile": "components/nfd/values.yaml"}]})
    (warning,) = upstream_like.load().warnings
    assert "components/nfd/values.yaml:1: must be a mapping of chart values" in warning


@pytest.mark.parametrize(
    ("text", "line", "code"),
    [
        ("spec:\n  componentRefs:\n    -\u00a0name: nfd\n", 3, "U+00A0"),
        ("spec:\n  a: 1\n  name:\u00a0nfd\n", 3, "U+00A0"),
        ("a:\n\u3000 b: 2\n", 2, "U+3000"),
        ("a: 1\n\u200bb: 2\n", 2, "U+200B"),
    ],
)
def test_a_space_that_is_none_to_yaml_is_named(text: str, line: int, code: str) -> None:
    with pytest.raises(InputError) as caught:
        decode(text, "f.yaml")
    assert (
        str(caught.value)
        == f"f.yaml:{line}: has the character {code} where YAML needs a space. Fix: Type a plain space."
    )


@pytest.mark.parametrize("text", ["é: 1\nb: \u00a0x\n", "a: |\n  \u00a0x\né: 1\n", "a: x\u00a0y\n", '"\u00a0a": 1\n'])
def test_such_a_space_inside_a_text_is_part_of_it(text: str) -> None:
    assert decode(text, "f.yaml")


def test_a_word_that_means_two_components_is_refused(shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    file = private.registry("mine", mine={"valueOverrideKeys": ["nfd"]})
    (problem,) = problems_of(shipped, private.root)
    assert problem.startswith(f"{file}:")
    assert "'nfd' of mine is also what --set calls nfd" in problem
    private.registry("a", "b", a={"valueOverrideKeys": ["x"]}, b={"valueOverrideKeys": ["x"]})
    (problem,) = problems_of(shipped, private.root)
    assert "'x' of b is also what --set calls a" in problem


def test_a_criterion_without_a_value_is_told(shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    file = private.overlay("a", {"criteria": {"service": None, "os": "cos"}})
    (warning,) = shipped.load(private.root).warnings
    assert warning.startswith(f"{file}:")
    assert "service has no value, so the layer is for every one. Write any if that is meant." in warning
