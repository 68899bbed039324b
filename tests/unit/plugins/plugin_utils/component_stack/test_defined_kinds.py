# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds that a release defines among its templates are served before what depends on the release is installed."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack import install
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import DeadlineError, NotFoundError

MANIFEST = """---
# Source: prometheus-operator-crds/charts/crds/templates/crd-prometheuses.yaml
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: prometheuses.monitoring.coreos.com
spec: {group: monitoring.coreos.com}
"""


class SlowServer:
    """Establishes a definition at the third look, and lists its kind at the second look after that."""

    def __init__(self, looks: int = 2, lists: int = 1) -> None:
        self.looks, self.lists = looks, lists

    def find(self, _kind: Kind, name: str, _namespace: str = "") -> dict[str, Any]:
        self.looks -= 1
        spec = {
            "group": "monitoring.coreos.com", "names": {"kind": "Prometheus"},
            "versions": [{"name": "v1", "served": True}, {"name": "v1alpha1", "served": False}],
        }  # fmt: skip
        status = {"conditions": [{"type": "Established", "status": "True" if self.looks < 0 else "False"}]}
        return {"metadata": {"name": name}, "spec": spec, "status": status}

    def kind(self, api_version: str, kind: str) -> Kind:
        assert (api_version, kind) == ("monitoring.coreos.com/v1", "Prometheus")
        self.lists -= 1
        if self.lists >= 0:
            raise NotFoundError(api_version, "is not served")
        return Kind(api_version, kind, "prometheuses", True)


def awaited(cluster: Any, manifest: str, release: str) -> None:
    """Wait with a stand-in for the cluster, of which two questions are asked."""
    install.await_served(cluster, manifest, release)


def test_it_waits_until_the_kind_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install.time, "sleep", lambda _s: None)
    server = SlowServer()
    awaited(server, MANIFEST, "prometheus-operator-crds")
    assert server.looks < 0 and server.lists < 0


def test_a_release_without_definitions_asks_nothing() -> None:
    awaited(None, "kind: Deployment\n", "x")


def test_a_kind_that_is_never_served_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "_SERVED_S", 0.05)
    with pytest.raises(DeadlineError, match=r"prometheuses\.monitoring"):
        awaited(SlowServer(lists=10**6), MANIFEST, "x")
