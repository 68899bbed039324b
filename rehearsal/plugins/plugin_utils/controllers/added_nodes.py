# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes added for pending pods: the common part of the stand-ins of Karpenter and cluster-autoscaler.

Both handle pods that the scheduler marks as Unschedulable and that belong to no DaemonSet (kubernetes-sigs/karpenter,
pkg/utils/pod/scheduling.go: IsProvisionable; kubernetes/autoscaler, cluster-autoscaler FAQ), and both remove a node
again that has only pods of DaemonSets. A node appears as a kubelet registers it; the GPU operator adds its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import EVENTS, NODES, PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc

from ..control_plane.kwok import NodeSpec, node_object
from .cluster_facts import (
    CREATE,
    GPU_RESOURCE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    annotations_of,
    condition_of,
    is_deleted,
    key_of,
)

# On an added node: the uid of the pod that it was added for.
ADDED = "rehearsal.gpufleet.invalid/added-for"
_BROKEN_DRIVER = {"nvidia-driver-daemonset": "CrashLoopBackOff"}


class Told:
    """Creates events about pods, each message once per pod."""

    def __init__(self, component: str) -> None:
        """Start without events."""
        self._component = component
        self._told: set[tuple[str, str]] = set()

    def about(self, pod: Json, kind: str, reason: str, message: str) -> Iterator[Change]:
        """Create an event, unless it was created before."""
        uid, (namespace, name) = pod["metadata"]["uid"], key_of(pod)
        if (uid, message) in self._told:
            return
        self._told.add((uid, message))
        event, now = f"{name}.{uid[:8]}.{len(self._told):x}", now_utc()
        body = {
            "metadata": {"name": event, "namespace": namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": namespace, "uid": uid},
            "type": kind, "reason": reason, "message": message, "count": 1, "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": self._component}, "reportingComponent": self._component,
        }  # fmt: skip
        yield Change(self._component, CREATE, EVENTS, event, namespace, body)


def unschedulable(view: ClusterView) -> list[Json]:
    """Return the GPU pods for which the scheduler has no node."""
    return [
        pod
        for pod in view.all(PODS)
        if not pod["spec"].get("nodeName")
        and not is_deleted(pod)
        and condition_of(pod, "PodScheduled").get("reason") == "Unschedulable"
        and not _of_daemon_set(pod)
        and gpus_of(pod)
    ]


def gpus_of(pod: Json) -> int:
    """Return the number of GPUs that a pod requests."""
    limits = [(entry.get("resources") or {}).get("limits") or {} for entry in pod["spec"]["containers"]]
    return sum(int(entry.get(GPU_RESOURCE, 0)) for entry in limits)


def affinity_expressions(pod: Json) -> list[Json]:
    """Return the expressions of a pod's required node affinity, from all terms."""
    return [entry for term in _terms(pod) for entry in term.get("matchExpressions") or []]


def names_nodes(pod: Json) -> bool:
    """Return whether a pod's required node affinity has fields, which select nodes by name."""
    return any(term.get("matchFields") for term in _terms(pod))


def _terms(pod: Json) -> list[Json]:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or []


def added_nodes(view: ClusterView) -> list[Json]:
    """Return the added nodes."""
    return [node for node in view.all(NODES) if ADDED in annotations_of(node)]


def idle(view: ClusterView, node: Json) -> bool:
    """Return whether an added node can go: its pod is gone and it has only pods of DaemonSets."""
    waiting = any(pod["metadata"]["uid"] == annotations_of(node)[ADDED] for pod in view.all(PODS))
    return not waiting and all(_of_daemon_set(pod) for pod in view.pods_on(node["metadata"]["name"]))


def new_node(name: str, uid: str, labels: dict[str, str], owners: Iterable[Json] = ()) -> Json:
    """Return a node for the pod of that uid, as its kubelet registers it."""
    spec = NodeSpec(name=name, labels=labels, annotations={ADDED: uid})
    body = node_object(spec)
    return {**body, "metadata": {**body["metadata"], "ownerReferences": list(owners)}}


def with_added_nodes(view: ClusterView, facts: ClusterFacts) -> ClusterFacts:
    """Return the facts including those of added nodes. Their hardware is that of the first node."""
    like = next(iter(facts.nodes.values()), None)
    names = [node["metadata"]["name"] for node in added_nodes(view)]
    if like is None or not names or facts.model is None:
        return facts
    broken = facts.model.stack.added_node == "without-gpus"
    faults = _BROKEN_DRIVER if broken else {}
    more = {
        name: replace(like, name=name, resources={GPU_RESOURCE: len(like.gpus)}, taints=(), pod_faults=faults)
        for name in names
    }
    return replace(facts, nodes={**facts.nodes, **more})


def _of_daemon_set(pod: Json) -> bool:
    return any(owner.get("kind") == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or [])
