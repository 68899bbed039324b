# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The component of docs/recipes.md loads as it is printed there, and every key of a registry entry is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.difference import difference
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import component_values
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import Answer, answer, request_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.schema import REGISTRY

CRITERIA = {"service": "generic", "accelerator": "h100", "intent": "training"}
_FILE = re.compile(r"`my-recipes/(?P<name>[^`]+)`:\n\n```yaml\n(?P<text>.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "recipes.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, written where it says."""
    root = tmp_path_factory.mktemp("my-recipes")
    for found in _FILE.finditer(page):
        path = root / found["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found["text"], encoding="utf-8")
    return root


def asked(data: Path, *assignments: str) -> Answer:
    return answer(request_of({"criteria": CRITERIA, "recipe_data": [str(data)], "set": list(assignments)}))


def test_the_printed_component_is_installed_in_its_place_with_its_values(data: Path) -> None:
    found, before = asked(data), answer(request_of({"criteria": CRITERIA}))
    assert found.warnings == before.warnings
    told = difference(before.result, before.catalogue, found.result, found.catalogue)
    assert (told.components_added, told.components_removed, told.changes) == (("acme-tuner",), (), ())
    component = found.result.component("acme-tuner")
    assert component is not None
    assert (component.version, component.namespace, component.chart) == ("1.4.2", "acme-tuner", "acme-tuner")
    assert component_values(component, found.catalogue) == {"agent": {"profile": "throughput"}}
    assert found.result.order.index("gpu-operator") < found.result.order.index("acme-tuner")
    assert [dict(item)["name"] for item in component.expected_resources] == ["acme-tuner-agent"]


def test_its_other_name_and_its_known_path_are_taken_in_an_override(data: Path) -> None:
    component = asked(data, "acmetuner:agent.logLevel=debug").result.component("acme-tuner")
    assert component is not None
    assert component.overrides["agent"] == {"logLevel": "debug"}


def test_every_key_of_a_registry_entry_is_explained(page: str) -> None:
    section = page[page.index("## A component of your own") : page.index("## Several GPU pools")]
    keys = REGISTRY.keys["components"].of.keys
    assert [key for key in keys if f"`{key}" not in section and key != "description"] == []
