# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of Volcano: its PodGroups become native ones, and the decisions of the real scheduler are copied back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    DEPLOYMENTS,
    NATIVE_POD_GROUPS,
    PODS,
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUES,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc

from .cluster_facts import (
    ADMITS_NOTHING,
    ADMITS_SINGLY,
    CREATE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    Key,
    annotations_of,
    available,
    condition_of,
    is_deleted,
    key_of,
    owner_reference,
)

MANAGER = "volcano"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
_DEFAULT_QUEUES = ("root", "default")


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of Volcano's controllers and scheduler."""
    changes: list[Change] = []
    if available(view, DEPLOYMENTS, "app", "volcano-controller"):
        changes += _queues(view)
    if not available(view, DEPLOYMENTS, "app", "volcano-scheduler") or facts.gang_admission == ADMITS_NOTHING:
        return changes
    pods = _pods_by_group(view)
    for group in view.all(VOLCANO_POD_GROUPS):
        if not is_deleted(group):
            changes += _group(view, facts, group, pods.get(key_of(group), []))
    return changes


def _queues(view: ClusterView) -> Iterable[Change]:
    for name in _DEFAULT_QUEUES:
        known = view.find(VOLCANO_QUEUES, name)
        if known is None:
            body = {"metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": name != "root"}}
            yield Change(MANAGER, CREATE, VOLCANO_QUEUES, name, body=body)
        elif not known.get("status"):
            yield Change(MANAGER, MERGE, VOLCANO_QUEUES, name, body={"status": {"state": "Open"}}, subresource="status")


def _pods_by_group(view: ClusterView) -> Mapping[Key, list[Json]]:
    groups: dict[Key, list[Json]] = {}
    for pod in view.all(PODS):
        group = annotations_of(pod).get(GROUP_ANNOTATION)
        if group and not is_deleted(pod):
            groups.setdefault((pod["metadata"]["namespace"], group), []).append(pod)
    return groups


def _group(view: ClusterView, facts: ClusterFacts, group: Json, pods: list[Json]) -> Iterable[Change]:
    namespace, name = key_of(group)
    spec = group.get("spec") or {}
    smallest = int(spec.get("minMember") or 1)
    queue = view.find(VOLCANO_QUEUES, str(spec.get("queue") or "default"))
    if queue is None or (queue.get("status") or {}).get("state") not in (None, "Open"):
        # The real one's admission refuses the group; here it stays pending.
        if (group.get("status") or {}).get("phase") != "Pending":
            yield Change(MANAGER, MERGE, VOLCANO_POD_GROUPS, name, namespace, {"status": {"phase": "Pending"}})
        return
    native = view.find(NATIVE_POD_GROUPS, name, namespace)
    if native is None:
        singly = facts.gang_admission == ADMITS_SINGLY or 0 < facts.gang_largest < smallest
        count = 1 if singly else smallest
        metadata = {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [owner_reference(group, "scheduling.volcano.sh/v1beta1", "PodGroup")],
        }
        body = {"metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": count}}}}
        yield Change(MANAGER, CREATE, NATIVE_POD_GROUPS, name, namespace, body)
    status = group_status(group, smallest, pods, condition_of(native or {}, "PodGroupScheduled"))
    if status is not None:
        yield Change(MANAGER, MERGE, VOLCANO_POD_GROUPS, name, namespace, {"status": status})


def group_status(group: Json, smallest: int, pods: list[Json], decided: Json) -> Json | None:
    """Return the status of a group, None if it has that status already.

    Args:
        group: the Volcano PodGroup.
        smallest: `minMember`, the pods that have to start together.
        pods: its pods.
        decided: condition PodGroupScheduled of the native PodGroup.
    """
    phases = [(pod.get("status") or {}).get("phase", "Pending") for pod in pods]
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in pods)
    counts = {"running": phases.count("Running"), "succeeded": phases.count("Succeeded")}
    counts["failed"] = phases.count("Failed")
    if pods and counts["succeeded"] == len(pods):
        phase = "Completed"
    elif bound >= smallest:
        phase = "Running"
    else:
        phase = "Inqueue"
    conditions = [_condition(group, smallest, len(pods), bound, decided)] if pods else []
    wanted: Json = {"phase": phase, **counts}
    known = group.get("status") or {}
    same = {key: known.get(key, 0) for key in wanted} == wanted
    before = [_compared_fields(item) for item in known.get("conditions") or []]
    if same and before == [_compared_fields(item) for item in conditions]:
        return None
    return {**wanted, "conditions": conditions}


def _condition(group: Json, smallest: int, total: int, bound: int, decided: Json) -> Json:
    common = {"status": "True", "lastTransitionTime": now_utc(), "transitionID": group["metadata"]["uid"]}
    if bound >= smallest:
        return {**common, "type": "Scheduled", "reason": "tasks in gang are ready to be scheduled", "message": ""}
    waiting = total - bound
    message = (
        f"{waiting}/{total} tasks in gang unschedulable: pod group is not ready, {waiting} Pending, "
        f"{smallest} minAvailable"
    )
    reason = "NotEnoughPods" if total < smallest else "NotEnoughResources"
    more = f"; {decided['message']}" if decided.get("status") == "False" and decided.get("message") else ""
    return {**common, "type": "Unschedulable", "reason": reason, "message": message + more}


def _compared_fields(condition: Json) -> tuple[str, str, str]:
    return condition.get("type", ""), condition.get("reason", ""), condition.get("message", "")
