# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of KubeRay: the pods of a RayCluster for the operator's configured scheduler, and their group.

As in ray-project/kuberay: a head and the replicas of each group of workers, with the template's labels and its own
`ray.io/...` (ray-operator/controllers/ray/common/pod.go); with Volcano a PodGroup `ray-<cluster>-pg` of all of them,
named by an annotation of each pod, and schedulerName volcano (batchscheduler/volcano/volcano_scheduler.go); with KAI
schedulerName kai-scheduler and the queue as a label (batchscheduler/kai-scheduler/kai_scheduler.go). KAI's pod grouper
then creates the group, of the head and the least replicas of each group of workers, and names it in the pods
(KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/ray/ray_grouper.go). Here that happens when the pod is created, since
the rehearsal's scheduler reads it only then. An operator without a configured scheduler creates pods for the default
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    DEPLOYMENTS,
    KAI_POD_GROUPS,
    PODS,
    VOLCANO_POD_GROUPS,
    Kind,
)

from . import kai_scheduler, volcano
from .cluster_facts import (
    CREATE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    available,
    is_deleted,
    key_of,
    labels_of,
    owner_reference,
)

MANAGER = "kuberay-operator"
RAY_CLUSTERS = Kind("ray.io/v1", "RayCluster", "rayclusters")
WATCHED = (RAY_CLUSTERS,)
TOLD = "rehearsal.gpufleet.invalid/batch-scheduler"
_QUEUES = {"volcano": "volcano.sh/queue-name", "kai-scheduler": "kai.scheduler/queue"}


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the groups and pods to create; none while the operator is not available."""
    operator = available(view, DEPLOYMENTS, "app.kubernetes.io/name", MANAGER)
    if operator is None or (facts.model is not None and facts.model.stack.ray == "makes-nothing"):
        return []
    reported = labels_of(operator).get(TOLD, "")
    if facts.model is not None and facts.model.stack.ray == "groups-nothing":
        reported = ""
    clusters = [item for item in view.all(RAY_CLUSTERS) if not is_deleted(item)]
    return [change for item in clusters for change in _of_cluster(view, item, reported)]


def _of_cluster(view: ClusterView, item: Json, reported: str) -> Iterable[Change]:
    namespace, name = key_of(item)
    spec, owner = item.get("spec") or {}, owner_reference(item, "ray.io/v1", "RayCluster")
    workers = [(str(group["groupName"]), group) for group in spec.get("workerGroupSpecs") or ()]
    size = 1 + sum(int(group.get("replicas") or 0) for _name, group in workers)
    queue, group = labels_of(item).get(_QUEUES.get(reported, ""), ""), ""
    if reported == "volcano":
        group = f"ray-{name}-pg"
        yield from _group(view, VOLCANO_POD_GROUPS, group, namespace, owner, {"minMember": size, "queue": queue})
    elif reported == "kai-scheduler":
        size = 1 + sum(int(entry.get("minReplicas") or entry.get("replicas") or 0) for _name, entry in workers)
        group = f"pg-{name}-{item['metadata']['uid']}"
        yield from _group(view, KAI_POD_GROUPS, group, namespace, owner, {"minMember": size, "queue": queue})
    pods = [(f"{name}-head", "headgroup", spec["headGroupSpec"])]
    pods += [(f"{name}-{g}-worker-{n}", g, e) for g, e in workers for n in range(int(e.get("replicas") or 0))]
    for pod, kind, entry in pods:
        if view.find(PODS, pod, namespace) is None:
            body = _pod(
                pod, namespace, entry["template"], reported, group, {"ray.io/cluster": name, "ray.io/group": kind}
            )
            body["metadata"]["ownerReferences"] = [owner]
            yield Change(MANAGER, CREATE, PODS, pod, namespace, body)


def _group(view: ClusterView, kind: Kind, name: str, namespace: str, owner: Json, spec: Json) -> Iterable[Change]:
    if view.find(kind, name, namespace) is None:
        metadata = {"name": name, "namespace": namespace, "ownerReferences": [owner]}
        configured = {key: value for key, value in spec.items() if value}
        yield Change(MANAGER, CREATE, kind, name, namespace, {"metadata": metadata, "spec": configured})


def _pod(name: str, namespace: str, template: Json, reported: str, group: str, labels: dict[str, str]) -> Json:
    given: dict[str, Any] = template.get("metadata") or {}
    named = {"volcano": volcano.GROUP_ANNOTATION, "kai-scheduler": kai_scheduler.GROUP_ANNOTATION}.get(reported)
    annotations = {**(given.get("annotations") or {}), **({named: group} if named else {})}
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {**(given.get("labels") or {}), **labels},
        "annotations": annotations,
    }
    return {"metadata": metadata, "spec": {**template["spec"], **({"schedulerName": reported} if reported else {})}}
