# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of the controllers of gateways.

Each accepts its class, creates a Deployment and a Service for every Gateway of that class, and marks the Gateway as
programmed whatever the state of their pods. Conditions and their owners: gateway-api.sigs.k8s.io, "GatewayClass status"
and "Gateway status"; created objects and their labels: GEP-1762 there, and agentgateway/agentgateway,
controller/pkg/deployer and controller/pkg/controller/gw_controller.go; names of controllers: that project and
kgateway-dev/kgateway. Without load balancers: the address is the Service's.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import DEPLOYMENTS, SERVICES, Kind

from .cluster_facts import (
    CREATE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    available,
    is_deleted,
    is_true,
    key_of,
    owner_reference,
)

CONTROLLERS = {"agentgateway": "agentgateway.dev/agentgateway", "kgateway": "kgateway.dev/kgateway"}
_API = "gateway.networking.k8s.io/v1"
GATEWAY_CLASSES = Kind(_API, "GatewayClass", "gatewayclasses", namespaced=False)
GATEWAYS = Kind(_API, "Gateway", "gateways")
WATCHED = (GATEWAY_CLASSES, GATEWAYS)
_SINCE = "2026-01-01T00:00:00Z"
_NAME = "gateway.networking.k8s.io/gateway-name"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of the controllers that run."""
    del facts
    running = (name for name in CONTROLLERS if available(view, DEPLOYMENTS, "app.kubernetes.io/name", name))
    return [change for name in running for change in _of_controller(view, name)]


def _of_controller(view: ClusterView, manager: str) -> Iterable[Change]:
    classes = [
        item
        for item in view.all(GATEWAY_CLASSES)
        if (item.get("spec") or {}).get("controllerName") == CONTROLLERS[manager]
    ]
    own = {item["metadata"]["name"] for item in classes}
    for item in classes:
        if _lacks(item, "Accepted"):
            yield _with(manager, GATEWAY_CLASSES, item, {}, "Accepted")
    for item in view.all(GATEWAYS):
        if (item.get("spec") or {}).get("gatewayClassName") in own and not is_deleted(item):
            yield from _served(view, manager, item)


def _served(view: ClusterView, manager: str, item: Json) -> Iterable[Change]:
    """Yield the objects that serve a Gateway, then its status."""
    namespace, name = key_of(item)
    labels = {_NAME: name}
    metadata = {
        "name": name, "namespace": namespace, "labels": labels,
        "ownerReferences": [owner_reference(item, GATEWAYS.api_version, GATEWAYS.kind)],
    }  # fmt: skip
    if view.find(DEPLOYMENTS, name, namespace) is None:
        pods = {"containers": [{"name": manager, "image": f"cr.{manager}.dev/{manager}:v1"}]}
        template = {"metadata": {"labels": labels}, "spec": pods}
        spec: Json = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        yield Change(manager, CREATE, DEPLOYMENTS, name, namespace, body={"metadata": metadata, "spec": spec})
    service = view.find(SERVICES, name, namespace)
    if service is None:
        spec = {"selector": labels, "ports": [{"name": "http", "port": 80}]}
        yield Change(manager, CREATE, SERVICES, name, namespace, body={"metadata": metadata, "spec": spec})
    elif _lacks(item, "Programmed"):
        address = str((service.get("spec") or {}).get("clusterIP") or "")
        reported = {"addresses": [{"type": "IPAddress", "value": address}]} if address else {}
        yield _with(manager, GATEWAYS, item, reported, "Accepted", "Programmed")


def _lacks(item: Json, condition: str) -> bool:
    return not is_deleted(item) and not is_true(item, condition)


def _with(manager: str, kind: Kind, item: Json, more: Json, *conditions: str) -> Change:
    entries = [
        {"type": name, "status": "True", "reason": name, "message": "", "lastTransitionTime": _SINCE}
        for name in conditions
    ]
    name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
    body = {"status": {"conditions": entries, **more}}
    return Change(manager, MERGE, kind, name, namespace, body=body, subresource="status")
