# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes that somebody adds for pending pods: what Karpenter and cluster-autoscaler have in common.

Both look at pods that the scheduler calls Unschedulable and that are of no DaemonSet (kubernetes-sigs/karpenter,
pkg/utils/pod/scheduling.go: IsProvisionable; kubernetes/autoscaler, cluster-autoscaler FAQ), and both take a node away
again that has no pods but those of DaemonSets. A node comes as a kubelet registers it; its GPUs are the GPU operator's.
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

# On a node that was added: for which pod (its uid).
ADDED = "rehearsal.gpufleet.invalid/added-for"
_BROKEN_DRIVER = {"nvidia-driver-daemonset": "CrashLoopBackOff"}


class Told:
    """Makes events about pods, each message once a pod."""

    def __init__(self, component: str) -> None:
        """Nothing was told yet."""
        self._component = component
        self._told: set[tuple[str, str]] = set()

    def about(self, pod: Json, kind: str, reason: str, message: str) -> Iterator[Change]:
        """Make an event, unless it was made before."""
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
    """Return the pods with GPUs that the scheduler has no node for."""
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
    """Return how many GPUs a pod asks for."""
    limits = [(entry.get("resources") or {}).get("limits") or {} for entry in pod["spec"]["containers"]]
    return sum(int(entry.get(GPU_RESOURCE, 0)) for entry in limits)


def affinity_expressions(pod: Json) -> list[Json]:
    """Return the expressions of a pod's required node affinity, of all its terms."""
    return [entry for term in _terms(pod) for entry in term.get("matchExpressions") or []]


def names_nodes(pod: Json) -> bool:
    """Whether a pod's required node affinity has fields, which are the names of nodes."""
    return any(term.get("matchFields") for term in _terms(pod))


def _terms(pod: Json) -> list[Json]:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or []


def added_nodes(view: ClusterView) -> list[Json]:
    """Return the nodes that were added."""
    return [node for node in view.all(NODES) if ADDED in annotations_of(node)]


def idle(view: ClusterView, node: Json) -> bool:
    """Whether a node that was added has done what it came for: the pod is gone and it has none but those of
    DaemonSets."""
    waiting = any(pod["metadata"]["uid"] == annotations_of(node)[ADDED] for pod in view.all(PODS))
    return not waiting and all(_of_daemon_set(pod) for pod in view.pods_on(node["metadata"]["name"]))


def new_node(name: str, uid: str, labels: dict[str, str], owners: Iterable[Json] = ()) -> Json:
    """Return a node that comes for the pod of that uid, as its kubelet registers it."""
    spec = NodeSpec(name=name, labels=labels, annotations={ADDED: uid})
    body = node_object(spec)
    return {**body, "metadata": {**body["metadata"], "ownerReferences": list(owners)}}


def with_added_nodes(view: ClusterView, facts: ClusterFacts) -> ClusterFacts:
    """Return the facts with those of the nodes that were added: hardware as that of the first node."""
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
