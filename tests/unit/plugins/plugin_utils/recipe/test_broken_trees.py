# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hundred broken files of a site are each told once: file, line, the right cause, in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from broken_trees import BROKEN

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue

from .conftest import Tree


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A catalogue in which the GPU operator depends on nfd."""
    tree = Tree(tmp_path_factory.mktemp("shipped"))
    tree.registry("nfd", "gpu-operator")
    tree.overlay("base", {"componentRefs": [{"name": "nfd"}, {"name": "gpu-operator", "dependencyRefs": ["nfd"]}]})
    tree.overlay("eks", {"criteria": {"service": "eks"}})
    tree.overlay("os-ubuntu", {}, "mixins")
    return tree


def test_there_are_a_hundred() -> None:
    assert len(BROKEN) >= 100
    assert len({(broken.file, broken.text) for broken in BROKEN.values()}) == len(BROKEN)


def test_what_is_broken_loads_without_it(shipped: Tree, tmp_path: Path) -> None:
    private = Tree(tmp_path / "private")
    private.overlay("a", {"criteria": {"service": "eks"}, "componentRefs": [{"name": "nfd", "version": "1.10"}]})
    assert "a" in load_catalogue([shipped.root, private.root]).layers


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_told_with_its_line_and_cause_in_one_sentence(
    name: str, shipped: Tree, tmp_path: Path
) -> None:
    broken, private = BROKEN[name], Tree(tmp_path / "private")
    file = private.write(broken.file, broken.text)
    for place, text in broken.more.items():
        private.write(place, text)
    with pytest.raises(ProblemsError) as caught:
        load_catalogue([shipped.root, private.root])
    (problem,) = map(str, caught.value.problems)
    assert problem.startswith(f"{file}:{broken.line}: "), problem
    assert broken.words in problem, problem
    said = problem.partition(" Fix: ")[0]
    assert said.endswith(".") and not re.search(r"\n|\. [A-Z]", said), problem
