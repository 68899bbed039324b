# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight keeps a recipe whose manifests are plain and without secrets; the installer gets them with secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack import render
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import components_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.app import resolve_recipe
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.recipe.secrets import recipe_with_secrets
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror

CRITERIA = {"service": "generic", "accelerator": "h100", "intent": "training", "os": "ubuntu"}
OVERLAY = """apiVersion: gpufleet.bringup/v1
kind: RecipeMetadata
metadata: {name: mine}
spec:
  criteria: {service: generic, accelerator: h100, intent: training, os: ubuntu}
  componentRefs: [{name: nfd, manifestFiles: [components/nfd/secret.yaml], overrides: {token: ""}}]
"""
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: hub}\nstringData: {token: {{ .Values.token | quote }}}\n"


def started(directory: Path, platform: str = "") -> Run:
    """Return a run that preflight has begun."""
    criteria = {**CRITERIA, **({"platform": platform} if platform else {})}
    site = make_site(criteria=criteria, gates=("gpu_stack",), capabilities=("kubernetes",))
    run = Run(directory)
    run.save_site(site)
    run.save_hardware({})
    run.save_record(new_run("r1", "lab", "2026-11-22T10:00:00Z", site.gates, rehearsal=False))
    return run


def test_a_kustomize_component_is_in_the_runs_recipe(tmp_path: Path) -> None:
    run = started(tmp_path / "run", "mpi-operator")
    options: dict[str, Any] = {"recipe_data": [], "overrides": {}, "chart_mirror": str(tmp_path)}
    with pytest.raises(ProblemsError, match=r"component mpi-operator: .*mpi-operator-v.*\.yaml does not exist"):
        resolve_recipe(run, options, print)
    build_mirror(tmp_path, [{"name": "mpi-operator", "type": "Kustomize", "tag": "v0.8.0"}])
    resolve_recipe(run, options, print)
    for path in tmp_path.glob("*.yaml"):
        path.unlink()
    # Whoever reads the run asks no mirror any more.
    recipe = recipe_with_secrets(run, options)
    assert recipe is not None
    component = next(found for found in components_of(recipe) if found.name == "mpi-operator")
    assert "Deployment mpi-operator" in [manifest.title for manifest in component.manifests]


def test_a_secret_in_a_rendered_file_is_in_no_file_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("overlays/mine.yaml", OVERLAY), ("components/nfd/secret.yaml", SECRET)):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    # Helm's part of it; what helm makes of files is tested with helm.
    word = "{{ .Values.token | quote }}"
    monkeypatch.setattr(render, "render", lambda file, _helm: file.text.replace(word, f"'{file.values['token']}'"))
    run = started(tmp_path / "run")
    options: dict[str, Any] = {"recipe_data": [str(tmp_path / "data")], "overrides": {"nfd": {"token": "cAnArY"}}}
    resolve_recipe(run, options, print)
    assert [path for path in run.path.rglob("*") if path.is_file() and b"cAnArY" in path.read_bytes()] == []
    recipe = recipe_with_secrets(run, options)
    assert recipe is not None
    component = next(found for found in components_of(recipe) if found.name == "nfd")
    assert component.manifests[-1].body["stringData"] == {"token": "cAnArY"}
    with pytest.raises(InputError, match=r"rendered from values that are not stated any more|is a secret"):
        recipe_with_secrets(run, {**options, "overrides": {}})
