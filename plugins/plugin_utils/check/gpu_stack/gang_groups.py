# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The objects that keep the pods of gangs together, and what those who admit gangs say in them."""

from __future__ import annotations

from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.kinds import NATIVE_POD_GROUPS, Kind
from ...clients.kube.pod_groups import native_pod_groups
from ...component_stack.facts import GangFacts
from ...outcome.errors import NotFoundError
from ...workload.kueue import why_held
from ...workload.namespace import TemporaryNamespace
from .kueue_gang import kueue_kinds

GROUP = "PodGroup"


def told(namespace: TemporaryNamespace, kind: Kind, name: str, *, by_quota: bool) -> str:
    """Return what whoever admits a gang says of it."""
    if by_quota:
        return why_held(namespace.cluster, namespace.name, name)
    return _condition(group_of(namespace, kind, name))


def group_of(namespace: TemporaryNamespace, kind: Kind, name: str) -> dict[str, Any] | None:
    """Return the group of a gang: the one of its name, or what was made for the object of that name."""
    found = namespace.cluster.find(kind, name, namespace.name)
    if found is not None:
        return found
    return next(
        (item for item in namespace.cluster.find_all(kind, namespace.name) or () if _made_for(item, name)), None
    )


def _made_for(item: dict[str, Any], name: str) -> bool:
    return any(owner.get("name") == name for owner in item["metadata"].get("ownerReferences") or ())


def group_kind(cluster: Cluster, facts: GangFacts) -> Kind:
    """Return the kind of the objects that keep gangs together: groups of pods, or Workloads of Kueue.

    Raises:
        NotFoundError: the API server does not serve it.
    """
    if facts.kind != GROUP:
        return kueue_kinds(cluster).workloads
    if facts.api_version == NATIVE_POD_GROUPS.api_version:
        return native_pod_groups(cluster) or NATIVE_POD_GROUPS
    try:
        return cluster.kind(facts.api_version, GROUP)
    except NotFoundError as error:
        raise NotFoundError(error.subject, error.reason, "install the gang scheduler's CRDs") from None


def words_in(group: dict[str, Any] | None) -> list[str]:
    """Return the conditions of a group, in words."""
    status = (group or {}).get("status") or {}
    # KAI keeps its own in schedulingConditions.
    conditions = [*(status.get("conditions") or []), *(status.get("schedulingConditions") or [])]
    return [f"{c['type']}={c['status']} {c.get('message') or c.get('reason', '')}".strip() for c in conditions]


def _condition(group: dict[str, Any] | None) -> str:
    phase = ((group or {}).get("status") or {}).get("phase")
    return "; ".join(([str(phase)] if phase else []) + words_in(group))[:300]
