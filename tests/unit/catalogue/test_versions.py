# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was read of the versions that are pinned is of the versions that are pinned, and Renovate finds each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.pins import (
    chart_pins,
    image_pins,
    value_pins,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.versions import (
    apart,
    recorded_versions,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue

# No registry lists them: the driver is a tag of nvcr.io for each system, and the router a build of one day.
_NOT_ASKED_FOR = {"gpu-operator driver.version", "vllm-stack routerSpec.tag"}


def test_every_pinned_version_has_a_record_and_nothing_else_has(catalogue: Catalogue) -> None:
    recorded, pins = recorded_versions(), chart_pins(catalogue)
    assert {name: record.of for name, record in recorded.components.items()} == pins
    assert {name: set(record.of) for name, record in recorded.images.items()} == _tags()
    assert {name: record.of for name, record in recorded.values.items()} == value_pins(recorded.values)


def test_no_record_is_from_the_future_or_older_than_its_version() -> None:
    recorded = recorded_versions()
    today = datetime.now(UTC).date()
    for record in (*recorded.components.values(), *recorded.values.values()):
        assert date.fromisoformat(record.released or "2014-06-06") <= date.fromisoformat(record.checked) <= today
    assert all(date.fromisoformat(record.checked) <= today for record in recorded.images.values())


def test_pairs_are_of_pins_that_are_there_and_belong_together(catalogue: Catalogue) -> None:
    recorded = recorded_versions()
    pins = {
        **chart_pins(catalogue),
        **{name: min(tags) for name, tags in _tags().items()},
        **value_pins(recorded.values),
    }
    for pair in recorded.pairs:
        assert len(pair.pins) > 1
        assert set(pair.pins) <= set(pins)
        assert apart(pair, pins, recorded) == ""
        raised = apart(pair, {**pins, pair.pins[0]: "99.0.0"}, recorded)
        assert raised.startswith(f"{pair.pins[0]} 99.0.0, {pair.pins[1]} ")


def test_renovate_finds_every_pin(repository: Path, catalogue: Catalogue) -> None:
    found = set(_found(repository))
    registry = {
        (_dependency(catalogue.registry[name].data), version) for name, version in chart_pins(catalogue).items()
    }
    images = {(image.name, image.tag) for image in image_pins()}
    values = value_pins(set(recorded_versions().values) - _NOT_ASKED_FOR)
    assert set(values) == {"volcano basic.image_tag_version"}
    assert found == registry | images | {("volcanosh/vc-scheduler", *values.values())}


def test_renovate_keeps_what_belongs_together_in_one_request(repository: Path, catalogue: Catalogue) -> None:
    rules = json.loads((repository / "renovate.json").read_text("utf-8"))["packageRules"]
    names = {
        name: _dependency(entry.data) for name, entry in catalogue.registry.items() if name in chart_pins(catalogue)
    }
    names["volcano basic.image_tag_version"] = "volcanosh/vc-scheduler"
    for pair in recorded_versions().pairs:
        dependencies = [names.get(pin, pin) for pin in pair.pins if pin not in _NOT_ASKED_FOR]
        groups = {_group(dependency, rules) for dependency in dependencies}
        assert len(groups) == 1, pair
        assert len(dependencies) == 1 or groups != {""}, pair


def test_renovate_can_read_each_pattern(repository: Path) -> None:
    """It matches with RE2, which knows neither looking around nor references to what was found."""
    for manager in _managers(repository):
        for text in manager["matchStrings"]:
            assert not re.search(r"\(\?[=!]|\(\?<[=!]|\\[1-9]|\\k<", text)


def _tags() -> dict[str, set[str]]:
    tags: dict[str, set[str]] = {}
    for image in image_pins():
        tags.setdefault(image.name, set()).add(image.tag)
    return tags


def _managers(repository: Path) -> list[dict[str, Any]]:
    managers: list[dict[str, Any]] = json.loads((repository / "renovate.json").read_text("utf-8"))["customManagers"]
    return managers


def _found(repository: Path) -> Iterator[tuple[str, str]]:
    """What the custom managers find in the recipes, as Renovate does it: file by file, every pattern everywhere."""
    files = [path for path in sorted((repository / "recipes").rglob("*.yaml")) if "rehearsal" not in path.parts]
    for manager in _managers(repository):
        patterns = [re.compile(text.strip("/")) for text in manager["managerFilePatterns"]]
        for path in files:
            if not any(pattern.search(path.relative_to(repository).as_posix()) for pattern in patterns):
                continue
            for text in manager["matchStrings"]:
                for match in re.finditer(text.replace("(?<", "(?P<"), path.read_text("utf-8")):
                    parts = match.groupdict()
                    name = manager.get("depNameTemplate", "")
                    for key, value in parts.items():
                        name = name.replace(f"{{{{{{{key}}}}}}}", value or "")
                    version = parts.get("currentDigest") or parts["currentValue"]
                    yield name or parts["depName"], version


def _dependency(entry: Any) -> str:
    """The name by which Renovate asks for a chart or a Kustomize source."""
    if source := (entry.get("kustomize") or {}).get("defaultSource"):
        return str(source).removeprefix("https://github.com/")
    helm = entry["helm"]
    registry = str(helm["defaultRepository"]).removeprefix("oci://")
    return f"{registry}/{helm['defaultChart']}" if "://" not in registry else str(helm["defaultChart"])


def _group(dependency: str, rules: list[dict[str, Any]]) -> str:
    for rule in rules:
        for text in rule["matchDepNames"]:
            if text == dependency or (text.startswith("/") and re.search(text[1:-1], dependency)):
                return str(rule["groupName"])
    return ""
