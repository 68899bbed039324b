# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Volcano: its groups are handed to the API server's own gang scheduling, and what that decides is written back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...clients.kube.kinds import DEPLOYMENTS, NATIVE_POD_GROUPS, PODS, VOLCANO_POD_GROUPS, Kind
from ...runtime.clock import now_utc
from .truth import ADMITS_NOTHING, ADMITS_SINGLY, Truth
from .world import (
    CREATE,
    MERGE,
    Change,
    Json,
    Key,
    World,
    annotations_of,
    available,
    condition_of,
    is_deleted,
    key_of,
    owner_reference,
)

MANAGER = "volcano"
QUEUES = Kind("scheduling.volcano.sh/v1beta1", "Queue", "queues", namespaced=False)
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
_DEFAULT_QUEUES = ("root", "default")


def reconcile(world: World, truth: Truth) -> list[Change]:
    """Return what Volcano's controllers and scheduler would do now."""
    changes: list[Change] = []
    if available(world, DEPLOYMENTS, "app", "volcano-controller"):
        changes += _queues(world)
    if not available(world, DEPLOYMENTS, "app", "volcano-scheduler") or truth.gang_admission == ADMITS_NOTHING:
        return changes
    pods = _pods_by_group(world)
    for group in world.all(VOLCANO_POD_GROUPS):
        if not is_deleted(group):
            changes += _group(world, truth, group, pods.get(key_of(group), []))
    return changes


def _queues(world: World) -> Iterable[Change]:
    for name in _DEFAULT_QUEUES:
        known = world.find(QUEUES, name)
        if known is None:
            body = {"metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": name != "root"}}
            yield Change(MANAGER, CREATE, QUEUES, name, body=body)
        elif not known.get("status"):
            yield Change(MANAGER, MERGE, QUEUES, name, body={"status": {"state": "Open"}}, subresource="status")


def _pods_by_group(world: World) -> Mapping[Key, list[Json]]:
    groups: dict[Key, list[Json]] = {}
    for pod in world.all(PODS):
        group = annotations_of(pod).get(GROUP_ANNOTATION)
        if group and not is_deleted(pod):
            groups.setdefault((pod["metadata"]["namespace"], group), []).append(pod)
    return groups


def _group(world: World, truth: Truth, group: Json, pods: list[Json]) -> Iterable[Change]:
    namespace, name = key_of(group)
    smallest = int((group.get("spec") or {}).get("minMember") or 1)
    native = world.find(NATIVE_POD_GROUPS, name, namespace)
    if native is None:
        singly = truth.gang_admission == ADMITS_SINGLY or 0 < truth.gang_largest < smallest
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
    """Return the status of a group, None when it says so already.

    Args:
        group: the Volcano PodGroup.
        smallest: how many pods it wants at once.
        pods: its pods.
        decided: the condition PodGroupScheduled of the group that the scheduler sees.
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
    if same and [_essence(item) for item in known.get("conditions") or []] == [_essence(item) for item in conditions]:
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


def _essence(condition: Json) -> tuple[str, str, str]:
    return condition.get("type", ""), condition.get("reason", ""), condition.get("message", "")
