# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of KAI: its PodGroups become native ones, and the decisions of the real scheduler are copied back.

Queues as in kai-scheduler/KAI-Scheduler: the chart brings the first two (its values, defaultQueue), a group whose queue
does not exist waits with QueueDoesNotExist (820), one of a queue without a parent is not placed (its #621), and
PodGroup.spec.queue decides, not a label (docs, external PodGroups). A group that requests more GPUs than its queue, or
one above it, has left of its limit waits with OverLimit; a limit of 0 or a missing one is no limit
(docs/queues/README.md; pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go, whose message is
GetJobOverMaxAllowedMessageForQueue's).
"""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    DEPLOYMENTS,
    KAI_POD_GROUPS,
    KAI_QUEUES,
    NATIVE_POD_GROUPS,
    PODS,
)

from .cluster_facts import (
    ADMITS_NOTHING,
    ADMITS_SINGLY,
    CREATE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    annotations_of,
    available,
    is_deleted,
    key_of,
    owner_reference,
)

MANAGER = "kai-scheduler"
GROUP_ANNOTATION = "pod-group-name"
_SCHEDULER = "kai-scheduler-default"
_GPU = "nvidia.com/gpu"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of KAI's scheduler."""
    if not available(view, DEPLOYMENTS, "app", _SCHEDULER) or facts.gang_admission == ADMITS_NOTHING:
        return []
    queues = list(view.all(KAI_QUEUES))
    groups = [group for group in view.all(KAI_POD_GROUPS) if not is_deleted(group)]
    return [change for group in groups for change in _queued(view, facts, group, queues)]


def _queued(view: ClusterView, facts: ClusterFacts, group: Json, queues: list[Json]) -> Iterable[Change]:
    """Admit a group whose queue can be used. Any other one waits, with the reason in its status."""
    parents = {item["metadata"]["name"]: (item.get("spec") or {}).get("parentQueue") or "" for item in queues}
    queue = str((group.get("spec") or {}).get("queue") or "")
    usable, over = queue in parents and parents[queue] in parents, ""
    namespace, name = key_of(group)
    if usable and view.find(NATIVE_POD_GROUPS, name, namespace) is None:
        over = _over_limit(view, group, queue, {item["metadata"]["name"]: item for item in queues})
    if usable and not over:
        yield from _group(view, facts, group)
        return
    known = (group.get("status") or {}).get("schedulingConditions")
    if not known:
        condition = {"type": "UnschedulableOnNodePool", "status": "True", "reason": "Unschedulable"}
        if over:
            condition["message"] = over
        elif queue not in parents:
            condition["message"] = f"QueueDoesNotExist: Queue '{queue}' does not exist."
        body = {"status": {"phase": "Pending", "schedulingConditions": [condition]}}
        yield Change(MANAGER, MERGE, KAI_POD_GROUPS, name, namespace, body, subresource="status")


def _over_limit(view: ClusterView, group: Json, queue: str, queues: dict[str, Json]) -> str:
    """Return KAI's message for a group if its queue, or one above it, has too few GPUs; else empty."""
    wanted = sum(map(_gpus, _pods_of(view, group)))
    on_hold = [(entry, _gpus_held(view, entry)) for entry in view.all(KAI_POD_GROUPS)] if wanted else []
    name = queue
    while wanted and name in queues:
        resources = (queues[name].get("spec") or {}).get("resources") or {}
        limit = float((resources.get("gpu") or {}).get("limit") or 0)
        used = sum(
            gpus for entry, gpus in on_hold if name in _chain(queues, (entry.get("spec") or {}).get("queue") or "")
        )
        if 0 <= limit < used + wanted:
            return (
                f"OverLimit: {name} quota has reached the allowable limit of GPUs. Limit is {limit:g} GPUs, currently "
                f"{used} GPUs allocated and workload requested {wanted} GPUs"
            )
        name = (queues[name].get("spec") or {}).get("parentQueue") or ""
    return ""


def _chain(queues: dict[str, Json], name: str) -> list[str]:
    chain: list[str] = []
    while name in queues and name not in chain:
        chain.append(name)
        name = (queues[name].get("spec") or {}).get("parentQueue") or ""
    return chain


def _pods_of(view: ClusterView, group: Json) -> list[Json]:
    namespace, name = key_of(group)
    named = [pod for pod in view.all(PODS) if annotations_of(pod).get(GROUP_ANNOTATION) == name]
    return [pod for pod in named if pod["metadata"]["namespace"] == namespace]


def _gpus_held(view: ClusterView, group: Json) -> int:
    ended = ("Succeeded", "Failed")
    pods = [pod for pod in _pods_of(view, group) if (pod.get("status") or {}).get("phase") not in ended]
    return sum(_gpus(pod) for pod in pods if pod["spec"].get("nodeName"))


def _gpus(pod: Json) -> int:
    limits = [(entry.get("resources") or {}).get("limits") or {} for entry in pod["spec"].get("containers") or []]
    return sum(int(entry.get(_GPU, 0)) for entry in limits)


def _group(view: ClusterView, facts: ClusterFacts, group: Json) -> Iterable[Change]:
    namespace, name = key_of(group)
    smallest = int((group.get("spec") or {}).get("minMember") or 1)
    if view.find(NATIVE_POD_GROUPS, name, namespace) is None:
        count = 1 if facts.gang_admission == ADMITS_SINGLY else smallest
        metadata = {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [owner_reference(group, "scheduling.run.ai/v2alpha2", "PodGroup")],
        }
        body = {"metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": count}}}}
        yield Change(MANAGER, CREATE, NATIVE_POD_GROUPS, name, namespace, body)
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in _pods_of(view, group))
    phase = "Running" if bound >= smallest else "Pending"
    if (group.get("status") or {}).get("phase") != phase:
        yield Change(
            MANAGER, MERGE, KAI_POD_GROUPS, name, namespace, {"status": {"phase": phase}}, subresource="status"
        )
