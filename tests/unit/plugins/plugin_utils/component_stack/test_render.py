# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kustomize components are built, or taken built from the mirror; what cannot be is an error that says what to do."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from served import served

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kustomize import KustomizeSource
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import components_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.render import Renderer, rendered
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.hydrate import hydrated
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.resolve import resolve
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.support import supported_combinations
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.simulators import charts_of

MPI = {
    "name": "mpi-operator",
    "namespace": "mpi-operator",
    "type": "Kustomize",
    "path": "manifests/overlays/standalone",
    "source": "https://git.example/mpi-operator",
    "tag": "v0.8.0",
}
QUOTA = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: pods}\nspec: {}\n"
TARGET = "https://git.example/mpi-operator//manifests/overlays/standalone?ref=v0.8.0"


def recipe(*refs: dict[str, Any]) -> dict[str, Any]:
    """Return a hydrated recipe of these components."""
    return {"componentRefs": list(refs), "deploymentOrder": [str(ref["name"]) for ref in refs]}


def programs(directory: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> Path:
    """Make these programs the only ones beside a shell's, each noting how it was called."""
    directory.mkdir()
    for name, script in scripts.items():
        path = directory / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >> {directory}/called\n{script}\n', encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/bin" if scripts else str(directory))
    monkeypatch.setattr(
        "shutil.which", lambda name, **_: str(directory / Path(name).name) if Path(name).name in scripts else None
    )
    return directory / "called"


@pytest.mark.parametrize(
    ("there", "called"),
    [({"kustomize": "", "kubectl": ""}, f"kustomize build {TARGET}"), ({"kubectl": ""}, f"kubectl kustomize {TARGET}")],
)
def test_a_component_is_built_with_what_is_there(
    there: dict[str, str], called: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = dict.fromkeys(there, f"cat <<'END'\n{QUOTA}END")
    log = programs(tmp_path / "bin", monkeypatch, **scripts)
    found = rendered(recipe(MPI), Renderer())
    (component,) = components_of(found)
    assert log.read_text(encoding="utf-8").strip() == called
    assert not component.has_chart
    assert [manifest.title for manifest in component.manifests] == ["ResourceQuota pods"]
    assert component.manifests[0].file == TARGET
    # Once built it is built: whoever reads the run's recipe asks nothing.
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rendered(found, Renderer()) == found
    assert rendered(recipe(MPI), Renderer(), built=found)["componentRefs"] == found["componentRefs"]


def test_a_component_is_taken_from_the_mirror_and_nothing_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = programs(tmp_path / "bin", monkeypatch, kustomize="exit 1")
    build_mirror(tmp_path / "mirror", [MPI])
    (component,) = components_of(rendered(recipe(MPI), Renderer(mirror=str(tmp_path / "mirror"))))
    assert [manifest.title for manifest in component.manifests] == [
        "CustomResourceDefinition mpijobs.kubeflow.org", "ServiceAccount mpi-operator", "Deployment mpi-operator",
    ]  # fmt: skip
    assert not log.exists()


def test_own_files_come_around_what_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path / "bin", monkeypatch, kustomize=f"cat <<'END'\n{QUOTA}END")
    texts = {"before": QUOTA.replace("pods", "first"), "after": QUOTA.replace("pods", "last")}
    entry = {**MPI, "preManifestFiles": ["a.yaml"], "manifestFiles": ["b.yaml"],
             "manifests": [{"when": when, "file": f"{'ab'[when == 'after']}.yaml", "text": text}
                           for when, text in texts.items()]}  # fmt: skip
    (component,) = components_of(rendered(recipe(entry), Renderer()))
    assert [(m.body["metadata"]["name"], m.before) for m in component.manifests] == [
        ("first", True), ("pods", False), ("last", False),
    ]  # fmt: skip


def test_expressions_in_what_was_built_are_the_operators_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rules}\ndata: {text: "{{ $labels.node }}"}\n'
    programs(tmp_path / "bin", monkeypatch, kustomize=f"cat <<'END'\n{rule}END")
    (component,) = components_of(rendered(recipe(MPI), Renderer()))
    assert component.manifests[0].body["data"] == {"text": "{{ $labels.node }}"}


@pytest.mark.parametrize(
    ("change", "scripts", "expected"),
    [
        (
            {},
            {},
            r"neither kustomize nor kubectl is on PATH.*put mpi-operator-v0\.8\.0\.yaml into gpufleet_chart_mirror",
        ),
        ({"source": ""}, {"kustomize": ""}, "names no Kustomize source"),
        ({"tag": ""}, {"kustomize": ""}, "pins no tag"),
        ({}, {"kustomize": "echo 'Error: no such ref' >&2; exit 1"}, r"v0\.8\.0 failed: Error: no such ref.*reaches"),
    ],
)
def test_what_cannot_be_built_is_one_problem_of_its_component(
    change: dict[str, str], scripts: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path / "bin", monkeypatch, **scripts)
    with pytest.raises(ProblemsError, match=f"component mpi-operator: .*{expected}") as caught:
        rendered(recipe({**MPI, **change}), Renderer())
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (["mpi-operator-v0.7.0.yaml"], r"there is mpi-operator-v0\.7\.0\.yaml"),
        ([], "nothing of that component is there"),
    ],
)
def test_a_mirror_that_lacks_it_is_told_how_to_get_it(there: list[str], expected: str, tmp_path: Path) -> None:
    for name in there:
        (tmp_path / name).write_text(QUOTA, encoding="utf-8")
    command = rf"'{TARGET}' > mpi-operator-v0\.8\.0\.yaml".replace("?", r"\?")
    with pytest.raises(ProblemsError, match=f"does not exist; {expected}.*{command}"):
        rendered(recipe(MPI), Renderer(mirror=str(tmp_path)))


def test_a_mirror_in_a_registry_holds_charts_only() -> None:
    with pytest.raises(ProblemsError, match=r"the chart mirror oci://x holds charts only"):
        rendered(recipe(MPI), Renderer(mirror="oci://x"))


class _Mirror(BaseHTTPRequestHandler):
    """A mirror at an address: it has the MPI operator and nothing else."""

    def do_GET(self) -> None:
        there = self.path == "/charts/mpi-operator-v0.8.0.yaml"
        self.send_response(200 if there else 404)
        self.end_headers()
        self.wfile.write(QUOTA.encode() if there else b"no such file")

    def log_message(self, *words: object) -> None:
        """Say nothing."""


def test_a_mirror_at_an_address_is_asked_for_the_file() -> None:
    with served(ThreadingHTTPServer(("127.0.0.1", 0), _Mirror)) as server:
        address = f"http://127.0.0.1:{server.server_port}/charts"
        (component,) = components_of(rendered(recipe(MPI), Renderer(mirror=f"{address}/")))
        assert [manifest.title for manifest in component.manifests] == ["ResourceQuota pods"]
        with pytest.raises(ProblemsError, match=r"/charts/mpi-operator-v9\.yaml answers 404\. Fix: where the internet"):
            rendered(recipe({**MPI, "tag": "v9"}), Renderer(mirror=address))
    with pytest.raises(ProblemsError, match="component mpi-operator: the chart mirror http://127"):
        rendered(recipe(MPI), Renderer(mirror=address))


def test_what_is_built_is_no_plain_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path / "bin", monkeypatch, kustomize="echo 'a: ['")
    with pytest.raises(ProblemsError, match=r"component mpi-operator: https://.*: is not plain YAML"):
        components_of(rendered(recipe(MPI), Renderer()))


def test_a_directory_of_this_machine_needs_no_tag() -> None:
    source = KustomizeSource(component="c", source="/srv/kustomize", path="overlays/site")
    assert source.is_local
    assert source.target == "/srv/kustomize/overlays/site"


HELM = """
words=$(cat)
case "$words" in *'"fail"'*)
  echo 'Error: parse error at (c/templates/manifest.yaml:7): function "fail7" not defined' >&2; exit 1;; esac
echo '---'; echo '# Source: c/templates/manifest.yaml'; echo "$words" > DIR/values
echo 'apiVersion: v1'; echo 'kind: ConfigMap'; echo 'metadata: {name: x}'; echo 'data: {a: "{{ b }}"}'
"""


def test_a_file_with_expressions_is_rendered_with_the_components_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path / "bin", monkeypatch, helm=HELM.replace("DIR", str(tmp_path)))
    ref = {"name": "c", "namespace": "ns", "manifestFiles": ["m.yaml"], "values": {"password": "x"},
           "manifests": [{"when": "after", "file": "m.yaml", "text": "name: {{ .Values.c.password }}\n"}]}  # fmt: skip
    found = rendered(recipe(ref), Renderer(helm=str(tmp_path / "bin" / "helm")))
    (component,) = components_of(found)
    # What a rendering leaves in braces is text.
    assert component.manifests[0].body["data"] == {"a": "{{ b }}"}
    values = json.loads((tmp_path / "values").read_text(encoding="utf-8"))
    assert values == {"password": "x", "c": {"password": "x"}}
    assert "x" not in (tmp_path / "bin" / "called").read_text(encoding="utf-8").replace("template", "").split()


def test_what_helm_refuses_has_the_files_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path / "bin", monkeypatch, helm=HELM.replace("DIR", str(tmp_path)))
    ref = {"name": "c", "namespace": "ns", "manifestFiles": ["m.yaml"], "values": {"fail": 1},
           "manifests": [{"when": "after", "file": "m.yaml", "text": "name: {{ fail7 }}\n"}]}  # fmt: skip
    with pytest.raises(ProblemsError, match=r'component c: m\.yaml:7: helm cannot render it: .*"fail7" not defined'):
        rendered(recipe(ref), Renderer(helm=str(tmp_path / "bin" / "helm")))


def test_a_component_whose_files_render_to_nothing_has_no_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path / "bin", monkeypatch, helm="true")
    ref = {"name": "c", "namespace": "ns", "manifestFiles": ["m.yaml"],
           "manifests": [{"when": "after", "file": "m.yaml", "text": "{{ if false }}{{ end }}\n"}]}  # fmt: skip
    (component,) = components_of(rendered(recipe(ref), Renderer(helm=str(tmp_path / "bin" / "helm"))))
    assert not component.has_chart and component.manifests == ()


def test_every_leaf_of_the_catalogue_is_installed_from_the_mirror_of_a_rehearsal(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path / "bin", monkeypatch)
    data = repository / "recipes"
    build_mirror(tmp_path / "mirror", charts_of([data]))
    catalogue, built = load_catalogue([data]), set()
    for criteria in supported_combinations(catalogue):
        whole = rendered(
            hydrated(resolve(criteria, catalogue), catalogue), Renderer(helm="", mirror=str(tmp_path / "mirror"))
        )
        for component in components_of(whole):
            assert component.has_chart or component.manifests, (criteria, component.name)
            built |= set() if component.has_chart or component.source == "" else {component.name}
    assert {"mpi-operator", "gateway-api"} <= built
