# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of Kueue for Jobs: a Workload for each that names a queue. The Job is resumed once its GPUs have quota.

As in kubernetes-sigs/kueue: why a ClusterQueue is not Active (pkg/cache/scheduler/clusterqueue.go: inactiveReason), the
message of a Workload without quota (pkg/scheduler/flavorassigner: insufficient unused quota), that an admitted Job is
resumed (pkg/controller/jobframework/reconciler.go), and, if its configuration has waitForPodsReady, the condition
PodsReady of every Workload (generatePodsReadyCondition there). Its webhook, which suspends such Jobs, is in the
stand-in chart. One flavor per queue, no cohorts, no preemption, no eviction; only GPUs are counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import documents

from .cluster_facts import (
    CREATE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    available,
    condition_of,
    is_deleted,
    is_true,
    key_of,
    labels_of,
    owner_reference,
)

MANAGER = "kueue"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_VERSION = "kueue.x-k8s.io/v1beta2"
CLUSTER_QUEUES = Kind(_VERSION, "ClusterQueue", "clusterqueues", namespaced=False)
LOCAL_QUEUES = Kind(_VERSION, "LocalQueue", "localqueues")
FLAVORS = Kind(_VERSION, "ResourceFlavor", "resourceflavors", namespaced=False)
WORKLOADS = Kind(_VERSION, "Workload", "workloads")
CONFIGURATION, _CONFIGURATION_KEY = "kueue-manager-config", "controller_manager_config.yaml"
WATCHED = (CONFIG_MAPS, CLUSTER_QUEUES, LOCAL_QUEUES, FLAVORS, WORKLOADS)
_GPU = "nvidia.com/gpu"


def reconcile(view: ClusterView, _facts: ClusterFacts) -> list[Change]:
    """Return the writes of Kueue; none while its Deployment is not available."""
    if not available(view, DEPLOYMENTS, "app.kubernetes.io/name", MANAGER):
        return []
    changes = [change for queue in view.all(CLUSTER_QUEUES) for change in _queue(view, queue)]
    used: dict[str, int] = {}
    waiting: list[tuple[Json, Json]] = []
    waits = _waits_for_pods(view)
    for job in view.all(JOBS):
        if not labels_of(job).get(QUEUE_LABEL) or is_deleted(job):
            continue
        workload = view.find(WORKLOADS, workload_name(job), key_of(job)[0])
        if workload is None:
            changes.append(_workload(job))
            continue
        pods_ready = list(_pods_ready(job, workload)) if waits else []
        changes += pods_ready
        if not is_true(workload, "Admitted"):
            # One write of its conditions at a time.
            waiting += [] if pods_ready else [(job, workload)]
        elif not (is_true(job, "Complete") or is_true(job, "Failed")):
            name = _cluster_queue(view, job)
            used[name] = used.get(name, 0) + _gpus(job)
            changes += _resumed(job)
    for job, workload in sorted(waiting, key=lambda pair: str(pair[0]["metadata"].get("creationTimestamp"))):
        changes += _admitted(view, job, workload, used)
    return changes


def workload_name(job: Json) -> str:
    """Return the name of a Job's Workload."""
    name = job["metadata"]["name"]
    return f"job-{name}-{hashlib.sha256(str(job['metadata'].get('uid')).encode()).hexdigest()[:5]}"


def _queue(view: ClusterView, queue: Json) -> Iterable[Change]:
    why = []
    if (queue.get("spec") or {}).get("stopPolicy", "None") != "None":
        why.append("is stopped")
    flavor, _quota = _quota_of(queue)
    if flavor and view.find(FLAVORS, flavor) is None:
        why.append(f"references missing ResourceFlavor(s): {flavor}")
    reason = ("Stopped" if why[0] == "is stopped" else "FlavorNotFound") if why else "Ready"
    message = f"Can't admit new workloads: {', '.join(why)}." if why else "Can admit new workloads"
    yield from _condition(CLUSTER_QUEUES, queue, "Active", "False" if why else "True", reason, message)


def _quota_of(queue: Json) -> tuple[str, int]:
    """Return flavor and number of the GPUs of a queue."""
    for group in (queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                if resource["name"] == _GPU:
                    return flavor["name"], int(resource["nominalQuota"])
    return "", 0


def _cluster_queue(view: ClusterView, job: Json) -> str:
    local = view.find(LOCAL_QUEUES, labels_of(job)[QUEUE_LABEL], key_of(job)[0])
    return str((local or {}).get("spec", {}).get("clusterQueue", ""))


def _gpus(job: Json) -> int:
    spec = job["spec"]
    limits = [(entry.get("resources") or {}).get("limits") or {} for entry in spec["template"]["spec"]["containers"]]
    return int(spec.get("parallelism", 1)) * sum(int(entry.get(_GPU, 0)) for entry in limits)


def _workload(job: Json) -> Change:
    namespace, _name = key_of(job)
    name = workload_name(job)
    pods = {"name": "main", "count": job["spec"].get("parallelism", 1), "template": job["spec"]["template"]}
    body = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [owner_reference(job, "batch/v1", "Job")],
        },
        "spec": {"queueName": labels_of(job)[QUEUE_LABEL], "podSets": [pods]},
    }
    return Change(MANAGER, CREATE, WORKLOADS, name, namespace, body)


def _admitted(view: ClusterView, job: Json, workload: Json, used: dict[str, int]) -> Iterable[Change]:
    name = _cluster_queue(view, job)
    queue = view.find(CLUSTER_QUEUES, name)
    wanted = _gpus(job)
    if queue is None or not is_true(queue, "Active"):
        where = f"ClusterQueue {name}" if name else f"LocalQueue {labels_of(job)[QUEUE_LABEL]}"
        text = f"{where} is inactive" if queue else f"{where} doesn't exist"
        yield from _condition(WORKLOADS, workload, "QuotaReserved", "False", "Inadmissible", text)
        return
    flavor, quota = _quota_of(queue)
    missing = used.get(name, 0) + wanted - quota
    if wanted and missing > 0:
        text = (
            f"couldn't assign flavors to pod set main: insufficient unused quota for {_GPU} in flavor {flavor}, "
            f"{missing} more needed"
        )
        yield from _condition(WORKLOADS, workload, "QuotaReserved", "False", "Pending", text)
        return
    used[name] = used.get(name, 0) + wanted
    text = f"Quota reserved in ClusterQueue {name}"
    yield from _condition(WORKLOADS, workload, "QuotaReserved", "True", "QuotaReserved", text, "Admitted")


def _waits_for_pods(view: ClusterView) -> bool:
    """Return whether the configuration has waitForPodsReady: in v1beta2 by its presence, before that by `enable`."""
    for item in view.all(CONFIG_MAPS):
        if key_of(item)[1] == CONFIGURATION:
            text = (item.get("data") or {}).get(_CONFIGURATION_KEY) or ""
            found = next(iter(documents(text)), None) or {}
            configured = found.get("waitForPodsReady")
            return configured is not None and (
                str(found.get("apiVersion")).endswith("v1beta2") or bool(configured["enable"])
            )
    return False


def _pods_ready(job: Json, workload: Json) -> Iterable[Change]:
    status = job.get("status") or {}
    ready = int(status.get("ready") or 0) + int(status.get("succeeded") or 0) >= int(job["spec"].get("parallelism", 1))
    if is_true(workload, "Admitted") and ready:
        text = "All pods reached readiness and the workload is running"
        yield from _condition(WORKLOADS, workload, "PodsReady", "True", "Started", text)
    elif not condition_of(workload, "PodsReady"):
        text = "Not all pods are ready or succeeded"
        yield from _condition(WORKLOADS, workload, "PodsReady", "False", "WaitForStart", text)


def _resumed(job: Json) -> Iterable[Change]:
    if job["spec"].get("suspend"):
        namespace, name = key_of(job)
        yield Change(MANAGER, MERGE, JOBS, name, namespace, {"spec": {"suspend": False}})


def _condition(
    kind: Kind, item: Json, name: str, status: str, reason: str, message: str, *more: str
) -> Iterable[Change]:
    """Write a condition, and others with the same text, unless the object has it already."""
    known = condition_of(item, name)
    if (known.get("status"), known.get("message")) == (status, message):
        return
    about = {"status": status, "reason": reason, "message": message, "lastTransitionTime": now_utc()}
    others = [
        entry for entry in (item.get("status") or {}).get("conditions") or [] if entry["type"] not in (name, *more)
    ]
    conditions = [*others, *({"type": kept, **about} for kept in (name, *more))]
    namespace, own = key_of(item)
    yield Change(MANAGER, MERGE, kind, own, namespace, {"status": {"conditions": conditions}}, subresource="status")
