# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifest files with template expressions, rendered by the real helm: all of upstream's, and what is wrong in one."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rehearsal_harness import ROOT

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Templated, render
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import components_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.render import Renderer, rendered
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import supported_combinations
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.controller import (
    alive_check,
    controller_process,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.ensure import (
    Workshop,
    ensure_toolchain,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

VALUES = {"name": "x", "list": [{"key": "a", "operator": "Exists"}], "nested": {"on": True}}


@pytest.fixture(scope="module")
def helm() -> str:
    progress, alive = Progress(silent), alive_check(controller_process())
    sources = ROOT / "rehearsal" / "roles" / "rehearsal" / "files" / "toolchain"
    return str(ensure_toolchain(Workshop(sources, default_cache(os.environ), os.environ, progress, alive))["helm"].path)


def file(text: str, *, name: str = "gpu-operator", version: str = "v1.2.3") -> Templated:
    """Return a file of a component."""
    return Templated(file="m.yaml", text=text, component=name, namespace="ns", version=version, values=VALUES)


def plain(text: str) -> str:
    """Return a rendering without the marks between documents."""
    return "\n".join(line for line in text.splitlines() if line.strip() and line != "---")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: {{ .Values.name }}", "a: x"),
        ('a: {{ (index .Values "gpu-operator").name }}', "a: x"),
        ("a: {{ .Release.Namespace }}/{{ .Release.Service }}", "a: ns/Helm"),
        ("a: {{ .Chart.Name }}-{{ .Chart.Version }}", "a: gpu-operator-v1.2.3"),
        ("a:\n  {{- toYaml .Values.list | nindent 2 }}", "a:\n  - key: a\n    operator: Exists"),
        ('a: {{ ne (toString (.Values.off | default true)) "false" }}', "a: true"),
        ("{{- if .Values.nested.on }}\na: 1\n{{- end }}", "a: 1"),
        ("{{- if .Values.off }}\na: 1\n{{- end }}", ""),
    ],
)
def test_what_helm_makes_of_a_file(text: str, expected: str, helm: str) -> None:
    assert plain(render(file(text), helm)) == expected


@pytest.mark.parametrize("version", ["", "main", "1.2", "v1.2.3-rc.1"])
def test_any_version_will_do(version: str, helm: str) -> None:
    assert plain(render(file("a: {{ .Values.name }}", version=version), helm)) == "a: x"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb: {{ unheardOf .Values.name }}\n", 2, 'function "unheardOf" not defined'),
        ("a: 1\n\nb: {{ .Values.gone.below }}\n", 3, "nil pointer"),
        ("a: {{ required \"name it\" .Values.gone }}\n", 1, "name it"),
        ("a: 1\nb: {{ if }}\n", 2, "missing value for if"),
        ("a: 1\nb: {{ include \"helper\" . }}\n", 2, "no template"),
    ],
)  # fmt: skip
def test_what_helm_refuses_has_the_line_of_the_file(text: str, line: int, says: str, helm: str) -> None:
    with pytest.raises(InputError, match=rf"^m\.yaml:{line}: helm cannot render it: .*{re.escape(says)}") as caught:
        render(file(text), helm)
    assert "templates/" not in str(caught.value) and "/tmp" not in str(caught.value)


def test_every_component_of_upstreams_tree_can_be_installed(shared: Path, helm: str) -> None:
    catalogue = load_catalogue([shared / "upstream" / "aicr-0.11.1" / "recipes"])
    different: dict[str, Any] = {}
    for criteria in supported_combinations(catalogue):
        for ref in hydrated(resolve(criteria, catalogue), catalogue)["componentRefs"]:
            alone = {**ref, "dependencyRefs": []}
            different[json.dumps(alone, sort_keys=True)] = alone
    assert len(different) > 30
    for ref in different.values():
        (component,) = components_of(
            rendered({"componentRefs": [ref], "deploymentOrder": [ref["name"]]}, Renderer(helm=helm))
        )
        assert component.has_chart or component.manifests, component.name
