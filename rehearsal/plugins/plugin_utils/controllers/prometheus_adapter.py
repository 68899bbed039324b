# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of prometheus-adapter in the cluster: its APIService, and its rules for the server on loopback.

The server (telemetry/adapter.py) is no pod, so its Service has an external name, which the API server resolves itself
(kubernetes/kubernetes, staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go: ResolveCluster). The chart has a Service
with an address and the same APIService (prometheus-community/helm-charts,
charts/prometheus-adapter/templates/external-metrics-apiservice.yaml). One difference: an adapter without pods continues
to serve, so that no namespace waits for a missing API (kubernetes/kubernetes#60807).
"""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import DEPLOYMENTS, SERVICES, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic

from ..model.site import AdapterState
from ..telemetry.adapter import GROUP, VERSION
from ..telemetry.plan import ADAPTER_FILE, PORTS_FILE, telemetry_directory
from .cluster_facts import (
    CREATE,
    DELETE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    annotations_of,
    is_deleted,
    is_true,
    key_of,
    labels_of,
    owner_reference,
)

MANAGER = "prometheus-adapter"
API_SERVICES = Kind("apiregistration.k8s.io/v1", "APIService", "apiservices", namespaced=False)
WATCHED = (API_SERVICES,)
RULES = "rehearsal/external-rules"
_NAME = f"{VERSION}.{GROUP}"
_OF_HELM = "meta.helm.sh/"


class PrometheusAdapter:
    """Keeps the APIService and the rules up to date; does nothing where telemetry does not run."""

    def __init__(self, rehearsal: Path) -> None:
        """Keep the directory."""
        self._directory = telemetry_directory(rehearsal)
        self._written = ""

    def reconcile(self, view: ClusterView, facts: ClusterFacts) -> list[Change]:
        """Return the objects to create or to delete, and write the rules."""
        port = self._port()
        if port is None or facts.model is None:
            return []
        found = next((item for item in view.all(DEPLOYMENTS) if _is_adapter(item)), None)
        there = view.find(API_SERVICES, _NAME)
        if found is None:
            return [Change(MANAGER, DELETE, API_SERVICES, _NAME)] if there is not None else []
        rules = json.loads(annotations_of(found).get(RULES) or "[]")
        self._write(rules, facts.model.stack.telemetry.adapter)
        if not rules or not is_true(found, "Available"):
            return []
        return [*_service(view, found), *([] if there else [_api_service(found, port)])]

    def _port(self) -> int | None:
        try:
            ports = json.loads((self._directory / PORTS_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return int(ports["adapter"])

    def _write(self, rules: list[Json], state: AdapterState) -> None:
        text = json.dumps({"rules": rules, "state": state})
        if text != self._written:
            write_atomic(self._directory / ADAPTER_FILE, text)
            self._written = text


def _is_adapter(item: Json) -> bool:
    return RULES in annotations_of(item) and not is_deleted(item)


def _service(view: ClusterView, adapter: Json) -> list[Change]:
    namespace, name = key_of(adapter)
    if view.find(SERVICES, name, namespace) is not None:
        return []
    owners = [owner_reference(adapter, DEPLOYMENTS.api_version, DEPLOYMENTS.kind)]
    body = {
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
    }
    return [Change(MANAGER, CREATE, SERVICES, name, namespace, body)]


def _api_service(adapter: Json, port: int) -> Change:
    namespace, name = key_of(adapter)
    notes = {key: text for key, text in annotations_of(adapter).items() if key.startswith(_OF_HELM)}
    body = {
        "apiVersion": API_SERVICES.api_version,
        "kind": API_SERVICES.kind,
        "metadata": {"name": _NAME, "labels": dict(labels_of(adapter)), "annotations": notes},
        "spec": {
            "service": {"name": name, "namespace": namespace, "port": port},
            "group": GROUP, "version": VERSION, "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100, "versionPriority": 100,
        },
    }  # fmt: skip
    return Change(MANAGER, CREATE, API_SERVICES, _NAME, body=body)
