# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a maintainer is told about a chart and our values, rendered by Helm itself: charts of our own."""

from __future__ import annotations

from pathlib import Path

import pytest
from helm_program import helm_program
from own_chart import packed, written

# The tools are no part of the collection: they are modules of the checkout.
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.model import Catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from tools import chart_values
from tools.chart_values import main

CHOSEN = ("--recipe", "service=generic", "--recipe", "service=eks")


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue([RECIPES])


@pytest.fixture(autouse=True)
def read_once(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipes of the collection are read once for all of these tests."""
    monkeypatch.setattr(chart_values, "load_catalogue", lambda _directories: catalogue)


@pytest.fixture(scope="module")
def helm() -> Path:
    return helm_program()


def told(chart: Path, helm: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[str]]:
    rc = main([str(chart), *CHOSEN, "--helm", str(helm), *more])
    captured = capsys.readouterr()
    assert not captured.err
    return rc, captured.out.splitlines()


def test_keys_that_the_chart_has_not_are_told_for_recipes_and_registry(
    helm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rc, lines = told(packed(tmp_path / "c.tgz"), helm, capsys)
    assert rc == 1
    assert lines[0].startswith("cert-manager: chart cert-manager 9.9.9 (pinned: v")
    assert any(line.startswith("unknown: recipes/registry.yaml, cert-manager: cainjector.") for line in lines)
    assert any(line.startswith("unknown: service=") and "no template reads it" in line for line in lines)
    assert not [line for line in lines if line.startswith(("schema", "refused"))]


HANDED_ON = """apiVersion: v1
kind: ConfigMap
metadata: {name: handed-on}
data: {settings: {{ toJson .Values.cainjector | quote }}}
"""


def test_what_a_template_hands_on_is_not_told(helm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chart = written(tmp_path / "c", {"templates/handed-on.yaml": HANDED_ON})
    _rc, lines = told(chart, helm, capsys)
    assert not [line for line in lines if "cainjector" in line]
    assert any(line.startswith("unknown: ") and "startupapicheck" in line for line in lines)


def test_a_bare_equals_sign_is_a_text(helm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: types}\ndata:\n  equal: =\n  since: 2026-01-02\n"
    _rc, lines = told(written(tmp_path / "c", {"templates/types.yaml": text}), helm, capsys)
    assert not [line for line in lines if line.startswith(("refused", "schema"))]


def test_a_chart_without_those_in_it_is_an_error_said_once(
    helm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chart = written(tmp_path / "c")
    for path in (chart / "charts" / "exporter").rglob("*.yaml"):
        path.unlink()
    assert main([str(chart), *CHOSEN, "--helm", str(helm)]) == 2
    said = capsys.readouterr().err
    assert said.count("exporter") == 1 and "helm dependency build" in said


def test_what_the_schema_refuses_is_told_by_its_path(
    helm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = '{"type": "object", "properties": {"crds": {"type": "string"}}}'
    rc, lines = told(written(tmp_path / "c", {"values.schema.json": schema}), helm, capsys)
    assert rc == 1
    (line,) = (line for line in lines if line.startswith("schema: service="))
    assert "crds" in line
    assert "string" in line


def test_what_a_template_refuses_is_told_in_its_words(
    helm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refuses = {"templates/refuses.yaml": '{{ fail "thirteen is refused" }}'}
    rc, lines = told(written(tmp_path / "c", refuses), helm, capsys)
    assert rc == 1
    assert any(line.startswith("refused: service=") and "thirteen is refused" in line for line in lines)


@pytest.mark.drawn(1, of="charts and clusters that few recipes have")
def test_objects_are_compared_with_those_that_were_accepted(
    helm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ("--accepted", str(tmp_path / "kept"))

    def different(chart: Path, *more: str) -> list[str]:
        lines = told(chart, helm, capsys, *kept, *more)[1]
        return [line.partition(": ")[2].partition(": ")[2] for line in lines if line.startswith("different: ")]

    old, new = written(tmp_path / "old"), written(tmp_path / "new", {"values.yaml": "replicaCount: 2\nwebhook: {}\n"})
    assert different(old) == ["nothing was accepted yet"]
    assert different(old, "--accept") == []
    assert different(old) == [], "a password that is made anew at each rendering is no difference"
    found = different(new)
    assert "Deployment cert-manager/controller: spec.replicas is 2, was 1" in found
    assert "ConfigMap webhook is gone" in found
    assert different(new, "--accept") == []
    assert different(new) == []
