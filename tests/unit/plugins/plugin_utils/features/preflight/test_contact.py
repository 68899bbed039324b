# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster of simulated nodes makes the run a rehearsal, whatever connection its hosts have."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import MARK
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.pins import chart_pins
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.inventory.hosts import Inventory
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.preflight import contact
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.load import load_catalogue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.tree import catalogue_directories
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.run.run import Run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.run import new_run, run_summary
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.prime import (
    LocalApi,
    mark_cluster,
)


class Api:
    """An API server with two nodes."""

    def __init__(self, annotations: dict[str, str], of_cluster: dict[str, str], *, server: str = "v1.34.0") -> None:
        self.annotations, self.of_cluster, self.server = annotations, of_cluster, server

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def version(self) -> str:
        return self.server

    def list_metadata(self, _kind: object) -> list[dict[str, Any]]:
        return [{"name": "n1"}, {"name": "n2", "annotations": self.annotations}]

    def get(self, _kind: object, _name: str) -> dict[str, Any]:
        return {"metadata": {"uid": "1-2-3", "annotations": self.of_cluster}}


def contacted(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, api: Api, recipe: dict[str, Any] | None = None
) -> list[str]:
    """What the contact says of a run whose hosts have a connection of real ones."""
    if recipe is not None:
        (run_dir / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
    hosts = (Host(name="gpu01", sku="h100", node_name="n1"),)
    site = make_site(hosts, name="here", gates=("gpu_stack",), capabilities=("kubernetes",))
    run = Run(run_dir)
    run.save_site(site)
    run.save_hardware({})
    run.save_record(new_run("r1", "here", "2026-11-22T10:00:00Z", site.gates, rehearsal=False))
    monkeypatch.setattr(contact, "Cluster", lambda _connection, **_options: api)
    monkeypatch.setattr(contact, "connection_from", lambda options: options)
    monkeypatch.setattr(contact, "ask_all", lambda _cluster, _wanted: ())
    lines: list[str] = []
    contact.check_contact(run, {}, Inventory({}, {}, simulated=False), lines.append)
    return lines


@pytest.mark.parametrize(
    ("annotations", "rehearsal"), [({}, False), ({"other": "x"}, False), ({"kwok.x-k8s.io/node": "fake"}, True)]
)
def test_simulated_nodes_mark_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, annotations: dict[str, str], rehearsal: bool
) -> None:
    lines = contacted(tmp_path, monkeypatch, Api(annotations, {}))
    again = Run(tmp_path)
    assert (again.record.rehearsal, again.site.rehearsal) == (rehearsal, rehearsal)
    assert ("REHEARSAL" in run_summary(again.record)) == rehearsal
    assert any("simulated (KWOK), n2" in line for line in lines) == rehearsal
    assert json.loads((tmp_path / "cluster.json").read_text("utf-8"))["simulated_nodes"] == int(rehearsal)


def test_the_object_that_tells_a_cluster_from_others_says_that_it_is_a_rehearsal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No node has to be there, and no connection of a host has to say it."""
    lines = contacted(tmp_path, monkeypatch, Api({}, {MARK: "true"}))
    again = Run(tmp_path)
    assert (again.record.rehearsal, again.site.rehearsal) == (True, True)
    assert any("the cluster 1-2-3 was started for a rehearsal" in line for line in lines)


@pytest.mark.parametrize(("server", "said"), [("v1.35.4", False), ("v1.36.0-eks-1", True)])
def test_a_kubernetes_that_a_chart_is_not_for_is_said_before_the_chart_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, said: bool
) -> None:
    volcano = chart_pins(load_catalogue(catalogue_directories(())))["volcano"]
    refs = [{"name": "volcano", "version": volcano}, {"name": "cert-manager", "overrides": {"enabled": False}}]
    recipe = {"componentRefs": refs, "deploymentOrder": ["volcano"]}
    lines = contacted(tmp_path, monkeypatch, Api({}, {}, server=server), recipe)
    text = (
        f"Kubernetes {server} is not what these charts are for: volcano {volcano} (its project supports 1.24 to 1.35)"
    )
    assert (f"contact: {text}" in lines) == (text in Run(tmp_path).record.notes) == said
    contacted(tmp_path, monkeypatch, Api({}, {}, server=server), recipe)
    assert Run(tmp_path).record.notes.count(text) == said


def test_a_rehearsal_marks_its_cluster_on_the_object_with_its_uid() -> None:
    class Local:
        asked: tuple[str, ...] = ()
        body: Any = None

        def call(self, method: str, path: str, body: Any = None, kind: str = "") -> tuple[int, Any]:
            self.asked, self.body = (method, path.partition("?")[0], kind), body
            return 200, {}

    api = Local()
    mark_cluster(cast(LocalApi, api))
    # Server-side apply: made if it is not there yet, and nothing of it is replaced.
    assert api.asked == ("PATCH", "/api/v1/namespaces/kube-system", "application/apply-patch+yaml")
    assert api.body["metadata"] == {"name": "kube-system", "annotations": {MARK: "true"}}


@pytest.mark.parametrize(
    ("command", "way_on"),
    [
        ("ansible-playbook x -i 'my site/hosts.yml' -i b.yml", "try: ansible gpu01 -i 'my site/hosts.yml' -i b.yml -b"),
        ("", "try: ansible gpu01 -b -m raw"),
    ],
)
def test_the_command_that_looks_at_a_silent_host_names_the_inventory_of_the_call(
    tmp_path: Path, command: str, way_on: str
) -> None:
    run = Run(tmp_path)
    site = make_site((Host(name="gpu01", sku="h100", node_name="n1"),), name="here", gates=("nodes",), capabilities=())
    run.save_site(site)
    record = new_run("r1", "here", "2026-11-22T10:00:00Z", site.gates, rehearsal=False)
    run.save_record(replace(record, command=command))
    silent = Inventory({}, {"gpu01": {}}, simulated=False)
    with pytest.raises(ProblemsError) as refused:
        contact.check_contact(run, {}, silent, lambda _line: None)
    assert refused.value.problems[0].hint.startswith(way_on)
