# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Objects for the simulated operators to see, and what they want done with them; no cluster."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CLUSTER_POLICIES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NODES,
    PODS,
    Kind,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    Change,
    ClusterView,
    Json,
    key_of,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.operands import (
    daemon_set,
    wanted_operands,
)


def meta(name: str, namespace: str = "", **more: Any) -> Json:
    """Return the metadata of an object."""
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **more}


def view_of(*items: tuple[Kind, Json]) -> ClusterView:
    """Return what an operator sees of the cluster."""
    objects: dict[Kind, dict[tuple[str, str], Json]] = {}
    for kind, item in items:
        objects.setdefault(kind, {})[key_of(item)] = item
    return ClusterView(objects)


def a_deployment(app: str, available: bool = True, namespace: str = "ns") -> tuple[Kind, Json]:
    """Return a Deployment with that label `app`."""
    condition = {"type": "Available", "status": str(available)}
    return DEPLOYMENTS, {"metadata": meta(app, namespace, labels={"app": app}), "status": {"conditions": [condition]}}


def a_node(name: str, **labels: str) -> tuple[Kind, Json]:
    """Return a node that offers nothing yet."""
    return NODES, {"metadata": meta(name, labels=labels), "status": {"capacity": {}, "allocatable": {}}}


def a_pod(name: str, node: str, app: str, ready: bool = True, **annotations: str) -> tuple[Kind, Json]:
    """Return a running pod with that label `app`."""
    metadata = meta(name, "ns", labels={"app": app}, annotations=annotations)
    status = {"conditions": [{"type": "Ready", "status": str(ready)}], "phase": "Running"}
    return PODS, {"metadata": metadata, "spec": {"nodeName": node, "containers": []}, "status": status}


def a_policy(**spec: Any) -> tuple[Kind, Json]:
    """Return a GPU operator's policy."""
    return CLUSTER_POLICIES, {"metadata": meta("cluster-policy"), "spec": spec}


def operand_sets(policy: Json) -> list[tuple[Kind, Json]]:
    """Return the DaemonSets that a policy wants, all of them ready on two nodes."""
    found = []
    for operand in wanted_operands(policy):
        body = daemon_set(operand, policy, "ns")
        counts = {"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2, "observedGeneration": 1}
        found.append((DAEMON_SETS, {**body, "metadata": {**body["metadata"], "generation": 1}, "status": counts}))
    return found


def changes_of(changes: list[Change], kind: Kind) -> list[Change]:
    """Return the changes of one kind."""
    return [change for change in changes if change.kind is kind]
