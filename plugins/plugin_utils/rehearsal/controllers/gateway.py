# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of the controller of a gateway: it accepts its class and programs the gateways of that class.

Conditions and their owners: gateway-api.sigs.k8s.io, "GatewayClass status" and "Gateway status".
"""

from __future__ import annotations

from ...clients.kube.kinds import DEPLOYMENTS, Kind
from .cluster_facts import ClusterFacts
from .cluster_view import MERGE, Change, ClusterView, Json, available, is_deleted, is_true

MANAGER = "agentgateway"
CONTROLLER = "agentgateway.dev/agentgateway"
_API = "gateway.networking.k8s.io/v1"
GATEWAY_CLASSES = Kind(_API, "GatewayClass", "gatewayclasses", namespaced=False)
GATEWAYS = Kind(_API, "Gateway", "gateways")
WATCHED = (GATEWAY_CLASSES, GATEWAYS)
_SINCE = "2026-01-01T00:00:00Z"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of the controller, while it runs."""
    if not available(view, DEPLOYMENTS, "app.kubernetes.io/name", MANAGER):
        return []
    classes = [
        item for item in view.all(GATEWAY_CLASSES) if (item.get("spec") or {}).get("controllerName") == CONTROLLER
    ]
    own = {item["metadata"]["name"] for item in classes}
    gateways = [item for item in view.all(GATEWAYS) if (item.get("spec") or {}).get("gatewayClassName") in own]
    return [
        *(_with(GATEWAY_CLASSES, item, "Accepted") for item in classes if _lacks(item, "Accepted")),
        *(_with(GATEWAYS, item, "Accepted", "Programmed") for item in gateways if _lacks(item, "Programmed")),
    ]


def _lacks(item: Json, condition: str) -> bool:
    return not is_deleted(item) and not is_true(item, condition)


def _with(kind: Kind, item: Json, *conditions: str) -> Change:
    entries = [
        {"type": name, "status": "True", "reason": name, "message": "", "lastTransitionTime": _SINCE}
        for name in conditions
    ]
    name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
    body = {"status": {"conditions": entries}}
    return Change(MANAGER, MERGE, kind, name, namespace, body=body, subresource="status")
