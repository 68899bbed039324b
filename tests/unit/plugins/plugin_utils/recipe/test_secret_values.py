# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Answers about a recipe show no secret; files that are installed from hold them, for their owner alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.explain import explain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.output import documents, write_documents
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.query import query, query_shown
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import Answer, answer, request_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.redaction import MASK, redact

CANARY = "cAnArY"
CHART = "kube-prometheus-stack"
CRITERIA = {"service": "generic", "accelerator": "h100", "os": "ubuntu", "intent": "training"}
VALUES = {"grafana": {"adminPassword": CANARY}}


def answered(values: dict[str, Any]) -> Answer:
    return answer(request_of({"criteria": CRITERIA, "recipe_data": [], "overrides": {CHART: values}}))


@pytest.fixture(scope="module")
def found() -> Answer:
    return answered(VALUES)


@pytest.mark.parametrize(
    ("below", "shown"),
    [
        ("", None),
        (f"components.{CHART}.values.grafana", None),
        (f"components.{CHART}.values.grafana.adminPassword", MASK),
        (f"components.{CHART}.namespace", "monitoring"),
    ],
)
def test_no_answer_shows_a_secret(found: Answer, below: str, shown: Any) -> None:
    value = query_shown(found.result, found.catalogue, below)
    assert (CANARY in json.dumps(query(found.result, found.catalogue, below))) is (shown != "monitoring")
    assert CANARY not in json.dumps(value)
    assert shown is None or value == shown


@pytest.mark.parametrize("below", ["grafana", "grafana.adminPassword"])
def test_whoever_asks_where_a_secret_comes_from_sees_the_layer_and_not_the_secret(found: Answer, below: str) -> None:
    explained = explain(found.result, found.catalogue, f"components.{CHART}.values.{below}")
    assert explained.origins and explained.origins[-1].layer == "overrides"
    assert CANARY not in json.dumps(to_plain(explained)) and CANARY not in "\n".join(explained.lines())


@pytest.mark.parametrize("name", ["dest", "hydrated_dest"])
def test_a_file_to_install_from_is_whole_and_its_owners_alone(found: Answer, tmp_path: Path, name: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("", encoding="utf-8")
    path.chmod(0o644)
    texts = documents(found.result, found.catalogue, {name: str(path), "run_dir": str(tmp_path / "run")})
    written = {file.path: file for file in write_documents(texts, check_mode=False)}
    assert CANARY in path.read_text("utf-8") and path.stat().st_mode & 0o777 == 0o600
    (warning,) = written[path].warnings
    assert "grafana.adminPassword" in warning and CANARY not in warning
    assert CANARY not in redact(written[path].after), "what --diff prints"
    assert CANARY not in (tmp_path / "run" / "recipe.json").read_text("utf-8")
    # One that was opened meanwhile is closed again although nothing in it changed.
    path.chmod(0o644)
    write_documents(texts, check_mode=False)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_recipe_without_a_secret_is_a_file_like_any_other(tmp_path: Path) -> None:
    named = answered({})
    tmp_path.chmod(0o755)
    texts = documents(named.result, named.catalogue, {"dest": str(tmp_path / "a.yaml"), "self_contained": True})
    for written in write_documents(texts, check_mode=False):
        assert written.warnings == [] and written.path.stat().st_mode & 0o777 == 0o644, written.path
    assert (tmp_path / "a.yaml").exists()
