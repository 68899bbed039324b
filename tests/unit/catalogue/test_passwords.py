# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue states no password: charts make them, and keep them in a Secret of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import supported_combinations
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import is_secret_key


def secrets(data: Any, path: str = "") -> Iterator[str]:
    """Every path whose key is that of a secret, and which says something."""
    if isinstance(data, dict):
        for key, value in data.items():
            at = f"{path}.{key}"
            if is_secret_key(str(key)) and isinstance(value, str) and value:
                yield at
            yield from secrets(value, at)
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from secrets(value, f"{path}[{number}]")


def test_a_password_would_be_found() -> None:
    assert list(secrets({"grafana": {"adminPassword": "prom-operator"}})) == [".grafana.adminPassword"]
    assert list(secrets({"grafana": {"adminPassword": None, "admin": {"existingSecret": "name-of-one"}}})) == []


def test_no_recipe_states_one(catalogue: Catalogue) -> None:
    found = set()
    for criteria in supported_combinations(catalogue):
        for entry in hydrated(resolve(criteria, catalogue), catalogue)["componentRefs"]:
            found |= {f"{entry['name']}{path}" for path in secrets(entry.get("values") or {})}
    assert found == set()


def test_no_file_of_the_catalogue_states_one(repository: Path) -> None:
    for path in sorted((repository / "recipes").rglob("*.yaml")):
        if "rehearsal" not in path.parts and "{{" not in (text := path.read_text(encoding="utf-8")):
            assert [found for body in yaml.safe_load_all(text) for found in secrets(body)] == [], path


def test_the_default_of_the_chart_is_taken_away(repository: Path) -> None:
    """Older kube-prometheus-stacks have one that everybody knows; without it Grafana's chart draws one, and on an
    upgrade takes that of its Secret again (grafana/helm-charts, charts/grafana/templates/_helpers.tpl)."""
    values = yaml.safe_load((repository / "recipes/components/kube-prometheus-stack/values.yaml").read_text())
    assert values["grafana"].get("adminPassword", "the chart's own") is None
