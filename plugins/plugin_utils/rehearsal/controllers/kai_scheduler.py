# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""KAI: its groups are handed to the API server's own gang scheduling, and what that decides is written back."""

from __future__ import annotations

from collections.abc import Iterable

from ...clients.kube.kinds import DEPLOYMENTS, KAI_POD_GROUPS, NATIVE_POD_GROUPS, PODS
from .truth import ADMITS_NOTHING, ADMITS_SINGLY, Truth
from .world import (
    CREATE,
    MERGE,
    Change,
    Json,
    World,
    annotations_of,
    available,
    is_deleted,
    key_of,
    owner_reference,
)

MANAGER = "kai-scheduler"
GROUP_ANNOTATION = "pod-group-name"
_SCHEDULER = "kai-scheduler-default"


def reconcile(world: World, truth: Truth) -> list[Change]:
    """Return what KAI's scheduler would do now."""
    if not available(world, DEPLOYMENTS, "app", _SCHEDULER) or truth.gang_admission == ADMITS_NOTHING:
        return []
    groups = [group for group in world.all(KAI_POD_GROUPS) if not is_deleted(group)]
    return [change for group in groups for change in _group(world, truth, group)]


def _group(world: World, truth: Truth, group: Json) -> Iterable[Change]:
    namespace, name = key_of(group)
    smallest = int((group.get("spec") or {}).get("minMember") or 1)
    if world.find(NATIVE_POD_GROUPS, name, namespace) is None:
        count = 1 if truth.gang_admission == ADMITS_SINGLY else smallest
        metadata = {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [owner_reference(group, "scheduling.run.ai/v2alpha2", "PodGroup")],
        }
        body = {"metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": count}}}}
        yield Change(MANAGER, CREATE, NATIVE_POD_GROUPS, name, namespace, body)
    pods = [pod for pod in world.all(PODS) if annotations_of(pod).get(GROUP_ANNOTATION) == name]
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in pods if pod["metadata"]["namespace"] == namespace)
    phase = "Running" if bound >= smallest else "Pending"
    if (group.get("status") or {}).get("phase") != phase:
        yield Change(
            MANAGER, MERGE, KAI_POD_GROUPS, name, namespace, {"status": {"phase": phase}}, subresource="status"
        )
