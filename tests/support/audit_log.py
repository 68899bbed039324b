# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one identity changed in a cluster, by the audit log of its API server, and what of it was not its own to change.

Fields of an event and what a level records: kubernetes.io/docs/tasks/debug/debug-cluster/audit. At level Metadata an
object that is made has its name in the event as well (kubernetes/kubernetes, apiserver/pkg/audit/request.go).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from accounts import kubeconfig_of_account

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    NAMESPACES,
    SERVICE_ACCOUNTS,
    Kind,
)

_LOOKS = ("get", "list", "watch")
# These go into a pod, whatever the verb (a WebSocket is a GET); the driver's own pods are asked so.
_ENTERS = ("exec", "attach", "portforward")
_OPERATORS = "gpu-operator"
# Namespaces and objects without a namespace that are ours begin with it: of a test, of the Lease, of a priority class.
_OURS = "gpufleet-"
# Questions that leave no object.
_QUESTIONS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")
_BINDINGS = Kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
_SPACE, _NAME = "site-operations", "continuous"
IDENTITY = f"system:serviceaccount:{_SPACE}:{_NAME}"


def kubeconfig_of_identity(admin: Path, target: Path) -> Path:
    """Write a kubeconfig of a service account that may do everything: only the audit log says what it did."""
    with Cluster(Connection(kubeconfig=str(admin))) as cluster:
        cluster.create(NAMESPACES, {"metadata": {"name": _SPACE}})
        cluster.create(SERVICE_ACCOUNTS, {"metadata": {"name": _NAME}}, _SPACE)
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        who = {"kind": "ServiceAccount", "name": _NAME, "namespace": _SPACE}
        cluster.create(_BINDINGS, {"metadata": {"name": _NAME}, "roleRef": role, "subjects": [who]})
    return kubeconfig_of_account(admin, _NAME, _SPACE, target)


def changes(log: Path, since: int = 0) -> list[dict[str, Any]]:
    """Return the requests of the identity that may have changed something, from that line of the log on."""
    lines = log.read_text(encoding="utf-8").splitlines()[since:]
    events = [event for event in map(json.loads, lines) if event["user"]["username"] == IDENTITY]
    asked = [event for event in events if _may_change(event) and "dryRun=" not in event["requestURI"]]
    return [event for event in asked if event.get("objectRef", {}).get("resource") not in _QUESTIONS]


def _may_change(event: dict[str, Any]) -> bool:
    return event["verb"] not in _LOOKS or event.get("objectRef", {}).get("subresource") in _ENTERS


def disturbances(events: Iterable[dict[str, Any]], *, nodes: bool = False) -> list[str]:
    """Return the changes of what is not ours; with `nodes` the policy may patch nodes, but for their status."""
    found = []
    for event in events:
        about = event.get("objectRef") or {}
        place, name, resource = (about.get(key, "") for key in ("namespace", "name", "resource"))
        ours = place.startswith(_OURS) if place else name.startswith(_OURS)
        ours = ours or (place == _OPERATORS and about.get("subresource") == "exec")
        marks = resource == "nodes" and event["verb"] == "patch" and not about.get("subresource")
        if not (ours or (nodes and marks)):
            what = "/".join(part for part in (resource, about.get("subresource", ""), place, name) if part)
            found.append(f"{event['verb']} {what}: {event['requestURI']}")
    return found
