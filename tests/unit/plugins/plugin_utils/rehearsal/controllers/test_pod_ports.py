# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers on loopback that stand for what pods serve: which pods get which port-forwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    ClusterView,
    key_of,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.pod_ports import (
    PORT_FORWARDS,
    PodPorts,
    backends_directory,
    register_backend,
)

Json = dict[str, Any]


def pod(name: str, **labels: str) -> Json:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels}}


def view(*pods: Json, forwards: tuple[Json, ...] = ()) -> ClusterView:
    return ClusterView({PODS: {key_of(p): p for p in pods}, PORT_FORWARDS: {key_of(f): f for f in forwards}})


def test_only_pods_with_the_labels_serve_and_a_move_is_followed(tmp_path: Path) -> None:
    ports = PodPorts(backends_directory(tmp_path))
    here = view(pod("web-0", app="web"), pod("other", app="other"))
    assert ports.reconcile(here, None) == []
    register_backend(tmp_path, "web", {"app": "web"}, {9090: 21000})
    assert ports.refresh()
    (change,) = ports.reconcile(here, None)
    assert (change.verb, change.namespace, change.name) == ("create", "ns", "web-0")
    assert change.body["spec"] == {"forwards": [{"ports": [9090], "target": {"port": 21000, "address": "127.0.0.1"}}]}
    assert change.body["metadata"]["ownerReferences"][0]["uid"] == "uid-web-0"
    there = view(pod("web-0", app="web"), forwards=(change.body,))
    assert ports.reconcile(there, None) == []
    assert not ports.refresh()
    register_backend(tmp_path, "web", {"app": "web"}, {9090: 21999, 9093: 22000})
    assert ports.refresh()
    (moved,) = ports.reconcile(there, None)
    assert (moved.verb, len(moved.body["spec"]["forwards"])) == ("merge", 2)


def test_another_namespace_does_not_serve(tmp_path: Path) -> None:
    register_backend(tmp_path, "web", {"app": "web"}, {9090: 21000}, namespace="elsewhere")
    assert PodPorts(backends_directory(tmp_path)).reconcile(view(pod("web-0", app="web")), None) == []


def test_a_broken_file_counts_as_none_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register_backend(tmp_path, "web", {"app": "web"}, {9090: 21000})
    (backends_directory(tmp_path) / "broken.json").write_text("{}")
    assert len(PodPorts(backends_directory(tmp_path)).reconcile(view(pod("web-0", app="web")), None)) == 1
    assert "broken.json" in capsys.readouterr().err


def test_without_labels_it_would_stand_for_every_pod(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every pod"):
        register_backend(tmp_path, "web", {}, {9090: 21000})
