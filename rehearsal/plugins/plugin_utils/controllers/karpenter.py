# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of Karpenter: a NodeClaim and a node for a GPU pod that fits a NodePool, removed once it is empty.

As in kubernetes-sigs/karpenter: pods that it ignores without an event (pkg/controllers/provisioning/provisioner.go:
Validate, pkg/apis/v1/labels.go: RestrictedLabels), labels that a pool does not have, limits of a pool
(pkg/controllers/provisioning/scheduling/scheduler.go), its events (scheduling/events.go), and a claim that is
Initialized once the requested GPUs are allocatable (pkg/controllers/nodeclaim/lifecycle/initialization.go). An empty
node that is Initialized is removed (pkg/controllers/disruption/emptiness.go). Pools that are Ready are tried in the
order of their names. There is no bin packing: one node per pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES, PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc

from .added_nodes import (
    ADDED,
    Told,
    added_nodes,
    affinity_expressions,
    gpus_of,
    idle,
    names_nodes,
    new_node,
    unschedulable,
)
from .cluster_facts import (
    CREATE,
    DELETE,
    GPU_RESOURCE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    annotations_of,
    is_true,
    owner_reference,
)

MANAGER = "karpenter"
GROUP = "karpenter.sh"
NODE_POOLS = Kind(f"{GROUP}/v1", "NodePool", "nodepools", namespaced=False)
NODE_CLAIMS = Kind(f"{GROUP}/v1", "NodeClaim", "nodeclaims", namespaced=False)
WATCHED = (NODE_POOLS, NODE_CLAIMS)
_POOL = f"{GROUP}/nodepool"
_DOMAINS = ("kubernetes.io", "k8s.io", GROUP)
_EXCEPTIONS = ("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")
_KNOWN = frozenset(
    {
        _POOL,
        f"{GROUP}/capacity-type",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/windows-build",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)


class Karpenter:
    """Adds and removes nodes where the cluster has Karpenter."""

    def __init__(self) -> None:
        """Start without events."""
        self._told = Told(MANAGER)

    def reconcile(self, view: ClusterView, facts: ClusterFacts) -> list[Change]:
        """Return its writes; none where the cluster has no Karpenter."""
        if facts.model is None or facts.model.stack.node_autoscaler != "karpenter":
            return []
        behaviour = facts.model.stack.added_node
        changes = [change for pod in unschedulable(view) for change in self._for(view, pod)]
        if behaviour != "never-comes":
            changes += [change for claim in view.all(NODE_CLAIMS) for change in _launched(view, claim)]
        changes += [change for claim in view.all(NODE_CLAIMS) for change in _given_up(view, claim)]
        for node in added_nodes(view):
            changes += _initialized(view, node)
            if behaviour != "stays" and idle(view, node) and is_true(_claim_of(view, node), "Initialized"):
                changes += _removed(node)
        return changes

    def _for(self, view: ClusterView, pod: Json) -> Iterator[Change]:
        if any(annotations_of(claim).get(ADDED) == pod["metadata"]["uid"] for claim in view.all(NODE_CLAIMS)):
            return
        if names_nodes(pod) or any(_is_restricted(key) for key in _keys(pod)):
            return
        pools = sorted(
            (p for p in view.all(NODE_POOLS) if is_true(p, "Ready")), key=lambda p: str(p["metadata"]["name"])
        )
        refusals = []
        for pool in pools:
            refused = _refused(view, pool, pod)
            if not refused:
                claim = _claim(pool, pod)
                yield Change(MANAGER, CREATE, NODE_CLAIMS, claim["metadata"]["name"], body=claim)
                message = f"Pod should schedule on: nodeclaim/{claim['metadata']['name']}"
                yield from self._told.about(pod, "Normal", "Nominated", message)
                return
            refusals.append(refused)
        if refusals:
            message = f"Failed to schedule pod, {'; '.join(refusals)}"
            yield from self._told.about(pod, "Warning", "FailedScheduling", message)


def _keys(pod: Json) -> list[str]:
    return [*(pod["spec"].get("nodeSelector") or {}), *(entry["key"] for entry in affinity_expressions(pod))]


def _is_restricted(key: str) -> bool:
    domain = key.split("/")[0] if "/" in key else ""
    if key in _KNOWN or domain.endswith(_EXCEPTIONS):
        return False
    return domain.endswith(_DOMAINS)


def _refused(view: ClusterView, pool: Json, pod: Json) -> str:
    """Return why the pool creates no node for the pod, empty if it does."""
    name, template = pool["metadata"]["name"], (pool["spec"].get("template") or {})
    labels: dict[str, Any] = {**((template.get("metadata") or {}).get("labels") or {}), _POOL: name}
    for key, value in (pod["spec"].get("nodeSelector") or {}).items():
        if key not in labels:
            text = f'label "{key}" does not have known values'
            return f'incompatible with nodepool "{name}", daemonset overhead={{}}, incompatible requirements, {text}'
        if labels[key] != value:
            text = f"key {key}, {key} In [{value}] not in {key} In [{labels[key]}]"
            return f'incompatible with nodepool "{name}", daemonset overhead={{}}, incompatible requirements, {text}'
    for entry in affinity_expressions(pod):
        if entry["operator"] in ("In", "Exists") and entry["key"] not in labels:
            text = f'label "{entry["key"]}" does not have known values'
            return f'incompatible with nodepool "{name}", daemonset overhead={{}}, incompatible requirements, {text}'
    limit = (pool["spec"].get("limits") or {}).get(GPU_RESOURCE)
    used = sum(int(c["spec"]["resources"]["requests"].get(GPU_RESOURCE, 0)) for c in view.all(NODE_CLAIMS))
    if limit is not None and used + gpus_of(pod) > int(limit):
        return f'all available instance types exceed limits for nodepool: "{name}"'
    return ""


def _claim(pool: Json, pod: Json) -> Json:
    name, uid = pool["metadata"]["name"], pod["metadata"]["uid"]
    labels = ((pool["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
    return {
        "metadata": {
            "name": f"{name}-{uid[:5]}",
            "labels": {**labels, _POOL: name},
            "annotations": {ADDED: uid},
            "ownerReferences": [owner_reference(pool, NODE_POOLS.api_version, "NodePool")],
        },
        "spec": {"resources": {"requests": {GPU_RESOURCE: str(gpus_of(pod))}}},
    }


def _launched(view: ClusterView, claim: Json) -> Iterator[Change]:
    name = f"ip-{claim['metadata']['name']}"
    uid = annotations_of(claim).get(ADDED, "")
    if uid and not (claim.get("status") or {}).get("nodeName") and view.find(NODES, name) is None:
        owner = owner_reference(claim, NODE_CLAIMS.api_version, "NodeClaim")
        body = new_node(name, uid, dict(claim["metadata"].get("labels") or {}), [owner])
        yield Change(MANAGER, CREATE, NODES, name, body=body)
        yield _status(claim, {"nodeName": name, "conditions": [_condition("Launched")]})


def _given_up(view: ClusterView, claim: Json) -> Iterator[Change]:
    """Remove a claim without a machine, once its pod is gone."""
    uid, launched = annotations_of(claim).get(ADDED), (claim.get("status") or {}).get("nodeName")
    if uid and not launched and all(pod["metadata"]["uid"] != uid for pod in view.all(PODS)):
        yield Change(MANAGER, DELETE, NODE_CLAIMS, claim["metadata"]["name"])


def _claim_of(view: ClusterView, node: Json) -> Json:
    owners = [owner["name"] for owner in node["metadata"].get("ownerReferences") or []]
    return view.find(NODE_CLAIMS, owners[0]) or {} if owners else {}


def _initialized(view: ClusterView, node: Json) -> Iterator[Change]:
    """Write into a claim whether its node has the requested GPUs."""
    claim = _claim_of(view, node)
    if not claim or is_true(claim, "Initialized"):
        return
    if int(((node.get("status") or {}).get("allocatable") or {}).get(GPU_RESOURCE, 0)):
        yield _status(claim, {"conditions": [_condition("Launched"), _condition("Initialized")]})
        label = {"metadata": {"labels": {f"{GROUP}/initialized": "true"}}}
        yield Change(MANAGER, MERGE, NODES, node["metadata"]["name"], body=label)


def _removed(node: Json) -> Iterator[Change]:
    for owner in node["metadata"].get("ownerReferences") or []:
        yield Change(MANAGER, DELETE, NODE_CLAIMS, owner["name"])
    yield Change(MANAGER, DELETE, NODES, node["metadata"]["name"])


def _status(claim: Json, status: Json) -> Change:
    return Change(MANAGER, MERGE, NODE_CLAIMS, claim["metadata"]["name"], body={"status": status}, subresource="status")


def _condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": now_utc()}
