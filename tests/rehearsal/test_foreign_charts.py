# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts of definitions as their projects publish them, on a real control plane: installed, looked at, removed."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from archives import files_in
from helm_program import helm_program
from stack_bench import StackBench, stack_bench
from yaml_samples import SAMPLES

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import FIELD_MANAGER
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import CRDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import components_of
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror, package

CHART, NAMESPACE = "prometheus-operator-crds", "monitoring"
NEEDED = "alertmanagerconfigs.monitoring.coreos.com"
STACK = "kube-prometheus-stack"


def _recipe(version: str) -> dict[str, Any]:
    crds = {"name": CHART, "namespace": NAMESPACE, "chart": CHART, "version": version, "dependencyRefs": []}
    stack = {"name": STACK, "namespace": NAMESPACE, "chart": STACK, "version": "84.4.0", "dependencyRefs": [CHART]}
    stack["values"] = {"crds": {"enabled": False}}
    return {"componentRefs": [crds, stack], "deploymentOrder": [CHART, STACK]}


def _published(shared: Path, version: str) -> dict[str, str]:
    """The chart as published: the tree of prometheus-community/helm-charts, the published definitions in it."""
    part = {"apiVersion": "v2", "name": "crds", "version": "0.0.0"}
    whole = {
        "apiVersion": "v2",
        "name": CHART,
        "version": version,
        "dependencies": [{"name": "crds", "version": "0.0.0"}],
    }
    files, switches = {"Chart.yaml": json.dumps(whole), "charts/crds/Chart.yaml": json.dumps(part)}, {}
    for path in sorted((shared / "crds" / "prometheus-operator").iterdir()):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        plural = path.name.partition(".")[0]
        given = "\n  annotations:\n{{- with .Values.annotations }}\n{{- toYaml . | nindent 4 }}\n{{- end }}\n"
        assert text.count("\n  annotations:\n") == 1
        body = text.replace("\n  annotations:\n", given)
        files[f"charts/crds/templates/crd-{plural}.yaml"] = (
            f"{{{{- if .Values.{plural}.enabled -}}}}\n{body}{{{{- end -}}}}\n"
        )
        switches[plural] = {"enabled": True}
    files["charts/crds/values.yaml"] = json.dumps({"annotations": {}, **switches})
    return files


def _put(mirror: Path, version: str, files: Mapping[str, str] | None) -> None:
    build_mirror(mirror, _recipe(version)["componentRefs"])
    if files is not None:
        (mirror / f"{CHART}-{version}.tgz").write_bytes(package(CHART, files))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[StackBench]:
    with stack_bench(tmp_path_factory.mktemp("foreign"), repository, []) as made:
        yield made


def _text(mirror: Path, version: str) -> dict[str, str]:
    packed = (mirror / f"{CHART}-{version}.tgz").read_bytes()
    return {name: content.decode() for name, content in files_in(packed).items()}


@pytest.mark.drawn(1, of="charts and clusters that few recipes have")
@pytest.mark.parametrize(
    "chart",
    [
        "stand-in",
        pytest.param("published", marks=pytest.mark.long("the stand-in has the same large definitions and bare `=`")),
    ],
)
def test_a_chart_of_definitions_comes_and_goes_twice(bench: StackBench, shared: Path, chart: str) -> None:
    older, newer = _recipe("28.0.1"), _recipe("28.0.2")
    for version in ("28.0.1", "28.0.2"):
        _put(bench.mirror, version, _published(shared, version) if chart == "published" else None)
    (template,) = (
        t for name, t in _text(bench.mirror, "28.0.1").items() if name.endswith("crd-alertmanagerconfigs.yaml")
    )
    assert re.search(r"^ +- =$", template, re.MULTILINE), "what readers of YAML 1.1 stop at"
    empty = bench.census()
    checked = bench.installer().preview(bench.plan(older), components_of(older))
    assert checked[CHART] == "server", checked
    assert set(bench.install(older).values()) == {"ready"}
    definition = bench.cluster.find(CRDS, NEEDED)
    assert definition is not None and len(json.dumps(definition["spec"])) > 256 * 1024
    managers = {entry["manager"] for entry in definition["metadata"]["managedFields"]}
    assert FIELD_MANAGER not in managers, "the release owns it alone"
    assert bench.actions(older) == ["unchanged", "unchanged"]

    bench.write("kubectl-edit", CRDS, NEEDED, "", {"spec": {"names": {"shortNames": ["edited"]}}})
    step = bench.plan(older).step(CHART)
    assert (step.action.value, step.reason) == (
        "upgrade",
        f"changed by hand: CustomResourceDefinition {NEEDED} spec.names.shortNames",
    )
    assert set(bench.install(older).values()) == {"ready"}
    assert bench.actions(older) == ["unchanged", "unchanged"]

    assert bench.actions(newer) == ["upgrade", "unchanged"]
    assert bench.installer().preview(bench.plan(newer), components_of(newer)) == {CHART: "server"}
    for recipe in (newer, older):
        # The second time it comes to a cluster from which it went.
        assert set(bench.install(recipe).values()) == {"ready"}
        assert bench.actions(recipe) == ["unchanged", "unchanged"]
        gone = bench.remove(recipe, NAMESPACE, crds=True)
        assert {entry.state for entry in gone.values()} == {"removed"}, gone
        assert bench.census() == empty


def test_helm_reads_yaml_as_we_do(tmp_path: Path) -> None:
    chart = {"Chart.yaml": '{"apiVersion": "v2", "name": "samples", "version": "1.0.0"}'}
    chart |= {f"texts/{number:03}": text for number, text in enumerate(SAMPLES)}
    ask = "{{ $.Files.Get $path | fromYaml | toJson }}"
    chart["templates/all.yaml"] = (
        f'{{{{- range $path, $_ := .Files.Glob "texts/*" }}}}\n---\n"meant": {ask}\n{{{{- end }}}}\n'
    )
    path = tmp_path / "samples-1.0.0.tgz"
    path.write_bytes(package("samples", chart))
    done = subprocess.run(
        [helm_program(), "template", "x", path], capture_output=True, text=True, timeout=60, check=True
    )
    said = [json.loads(line.partition(": ")[2]) for line in done.stdout.splitlines() if line.startswith('"meant"')]
    assert said == list(SAMPLES.values())
