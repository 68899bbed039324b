# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML of others: every way in has the same limits, and what people write passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.action_base.command_line import _structured
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.manifest import _objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.promised import promised_by_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.yaml_text import decode
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.settings_sources import _typed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import (
    MAX_DEPTH,
    PlainYamlError,
    documents,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.strict import parse_yaml
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import render

LISTS = "kind: Deployment\na0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGES = "kind: Deployment\na0: &a0 {k: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}], k{n}: 1}}\n" for n in range(1, 12)
)
HOSTILE = {
    "aliases that expand to nine to the eleventh": LISTS,
    "merges that expand so": MERGES,
    "what holds itself": "kind: Deployment\na: &a [*a]\n",
    "brackets": "kind: Deployment\na: " + "[" * 100_000,
    "whole brackets": "kind: Deployment\na: " + "[" * 900 + "]" * 900,
    "dashes": "kind: Deployment\na:\n  " + "- " * 5_000 + "x",
    "indents": "kind: Deployment\n" + "".join(f"{' ' * n}a:\n" for n in range(400)),
    "a chain of aliases": "kind: Deployment\na0: &a0 [x]\n"
    + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 400)),
}


def _rendered(text: str, folder: Path) -> Any:
    template = folder / "t.yaml.j2"
    template.write_text("{% raw %}" + text + "{% endraw %}", encoding="utf-8")
    return render(template, {})


WAYS: dict[str, Callable[[str, Path], Any]] = {
    "strict files": lambda text, _folder: parse_yaml(text, "x"),
    "recipes": lambda text, _folder: decode(text, "x"),
    "manifests of components": lambda text, _folder: _objects(text),
    "manifests of releases": lambda text, _folder: promised_by_text(text, "ns"),
    "settings of the command line": lambda text, _folder: _typed(text),
    "templates": _rendered,
    "documents": lambda text, _folder: documents(text),
}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("way", WAYS)
def test_what_would_take_all_memory_is_refused_at_once(way: str, hostile: str, tmp_path: Path) -> None:
    started = time.process_time()
    if (way, hostile) == ("recipes", "merges that expand so"):
        # Read from events, a merged mapping never has more than its own keys.
        assert len(WAYS[way](HOSTILE[hostile], tmp_path)["a11"]) == 12
    else:
        with pytest.raises((InputError, ValueError)):
            WAYS[way](HOSTILE[hostile], tmp_path)
    assert time.process_time() - started < 2.0


def test_a_command_line_that_cannot_be_read_is_not_shown() -> None:
    assert all(_structured(text, ()) == [] for text in HOSTILE.values())


def test_the_reason_is_said_with_its_line() -> None:
    with pytest.raises(PlainYamlError, match="aliases written out"):
        documents(LISTS)
    with pytest.raises(PlainYamlError, match="holds itself"):
        documents("a: &a [*a]")
    with pytest.raises(PlainYamlError, match=f"deeper than {MAX_DEPTH} levels"):
        documents("[" * 200 + "]" * 200)
    with pytest.raises(InputError, match="x:4: not valid YAML"):
        parse_yaml("a: 1\nb: 2\nc: [", "x")


def test_what_people_write_is_read() -> None:
    text = "a: &a {v: 1, w: [1, 2]}\nb: {<<: *a, x: 3}\nc: [*a, *a]\n"
    (found,) = documents(text)
    assert found["b"] == {"v": 1, "w": [1, 2], "x": 3}
    assert found["c"] == [found["a"]] * 2
    assert documents("") == [] and documents("a: 1\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]
    assert len(documents("[" + "{a: [1]}, " * 5_000 + "]")[0]) == 5_000
    assert documents("[" * 99 + "]" * 99)
    assert parse_yaml("", "x") is None
    with pytest.raises(InputError, match="single document"):
        parse_yaml("a: 1\n---\nb: 2\n", "x")
