# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of KAI: its PodGroups become native ones, and what the real scheduler decides is copied back."""

from __future__ import annotations

from collections.abc import Iterable

from ...clients.kube.kinds import DEPLOYMENTS, KAI_POD_GROUPS, NATIVE_POD_GROUPS, PODS
from .cluster_facts import ADMITS_NOTHING, ADMITS_SINGLY, ClusterFacts
from .cluster_view import (
    CREATE,
    MERGE,
    Change,
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


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of KAI's scheduler."""
    if not available(view, DEPLOYMENTS, "app", _SCHEDULER) or facts.gang_admission == ADMITS_NOTHING:
        return []
    groups = [group for group in view.all(KAI_POD_GROUPS) if not is_deleted(group)]
    return [change for group in groups for change in _group(view, facts, group)]


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
    pods = [pod for pod in view.all(PODS) if annotations_of(pod).get(GROUP_ANNOTATION) == name]
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in pods if pod["metadata"]["namespace"] == namespace)
    phase = "Running" if bound >= smallest else "Pending"
    if (group.get("status") or {}).get("phase") != phase:
        yield Change(
            MANAGER, MERGE, KAI_POD_GROUPS, name, namespace, {"status": {"phase": phase}}, subresource="status"
        )
