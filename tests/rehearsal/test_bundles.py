# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle applied with the real helm and kubectl to a real API server ends in the objects of gate 4."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from catalogue_bench import CatalogueBench, catalogue_bench, leaves, not_ready
from cluster_bench import CHARTS
from seeds import drawing
from served import served
from stack_bench import StackBench

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import CRDS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import Component
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.render import Renderer, rendered
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.app import (
    bundle_for,
    files_of,
    write_bundle,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.bundle.parts import ChartRepository

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="deploy.sh needs kubectl, which is not installed"
)
# Recipes with manifests before a chart, behind one, without one, of OLM, and with what Kustomize builds.
KINDS = ("service=gke,intent=training", "service=generic,intent=training", "service=ocp", "platform=dynamo")


_VOLUMES = ("PersistentVolume", "PersistentVolumeClaim")


class Charts(SimpleHTTPRequestHandler):
    """The mirror at an address."""

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogueBench]:
    """A cluster for all of them."""
    with catalogue_bench(tmp_path_factory.mktemp("bundles")) as bench:
        yield bench


def said(bench: CatalogueBench) -> dict[str, Any]:
    """Return what there is by somebody's order: what each object says, without who wrote it and what became of it."""
    helm = bench.client
    stack = StackBench(
        helm, bench.cluster, bench.directory / CHARTS, frozenset(), str(bench.kubeconfig), str(bench.helm)
    )
    found = {}
    for kind in stack._kinds():
        for item in bench.cluster.list_objects(kind):
            metadata = item["metadata"]
            if metadata.get("ownerReferences") or item.get("type") == "helm.sh/release.v1":
                continue
            # What the control plane makes with each namespace.
            if kind.kind == "Namespace" or metadata["name"] in ("kube-root-ca.crt", "default"):
                continue
            # What the API server makes for each definition, and what StatefulSets keep, as after any helm uninstall.
            if (kind.kind == "APIService" and not item["spec"].get("service")) or kind.kind in _VOLUMES:
                continue
            key = f"{kind.title} {metadata.get('namespace', '')}/{metadata['name']}"
            found[key] = {name: value for name, value in item.items() if name not in ("metadata", "status")}
            for given in ("clusterIP", "clusterIPs", "volumeName"):
                (item.get("spec") or {}).pop(given, None)
    return found


def run(bench: CatalogueBench, directory: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script of a bundle against the cluster."""
    (bench.directory / "path").mkdir(exist_ok=True)
    link = bench.directory / "path" / "helm"
    if not link.is_symlink():
        link.symlink_to(bench.helm)
    env = {**os.environ, "PATH": f"{link.parent}:{os.environ['PATH']}", "KUBECONFIG": str(bench.kubeconfig)}
    command = [str(directory / script), *words]
    return subprocess.run(
        command, env=env | {"GPUFLEET_POLL_S": "0.2"}, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.mark.drawn(1)
@pytest.mark.parametrize("kind", KINDS)
def test_deploy_ends_in_the_objects_of_gate_4_and_undeploy_removes_them(
    kind: str, bench: CatalogueBench, tmp_path: Path
) -> None:
    words = kind.split(",")
    chosen = [leaf for leaf in leaves() if all(word in leaf.name for word in words)]
    recipe = drawing(f"bundle {kind}").choice(chosen).recipe
    components: tuple[Component, ...] = bench.components(recipe)
    bench.serve(recipe)
    empty = said(bench)
    mirror = bench.directory / CHARTS
    plain = rendered(recipe, Renderer(helm=str(bench.helm), mirror=str(mirror)))
    with served(ThreadingHTTPServer(("127.0.0.1", 0), partial(Charts, directory=str(mirror)))) as server:
        bundle = bundle_for(plain, "helm", ChartRepository(), f"http://127.0.0.1:{server.server_port}")
        write_bundle(tmp_path / "stack", files_of(bundle))
        first = run(bench, tmp_path / "stack", "deploy.sh", "--timeout", "180")
        assert (first.returncode, first.stderr) == (0, "")
        applied = said(bench)
        again = run(bench, tmp_path / "stack", "deploy.sh", "--timeout", "180")
        assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
        assert said(bench) == applied
        gone = run(bench, tmp_path / "stack", "undeploy.sh")
        assert (gone.returncode, gone.stderr) == (0, "")
    left = {name for name in said(bench) if name not in empty}
    definitions = {name for name in left if name.startswith("customresourcedefinitions.")}
    assert left - definitions == set()
    # They stay, with the objects of users, and would be somebody else's to gate 4.
    for name in definitions:
        bench.cluster.delete(CRDS, name.rpartition("/")[2])
    assert not_ready(bench.become(recipe)) == []
    installed = said(bench)
    bench.clear()
    assert {*applied} == {*installed}
    assert [name for name in applied if applied[name] != installed[name]] == []
    assert len(components) > 3
