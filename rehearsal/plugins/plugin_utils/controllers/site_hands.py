# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Actions of the site on its cluster: it taints and cordons nodes, deletes or scales workloads of charts.

Taints as in the documentation of GKE, AKS and EKS (recipes/workloads/tolerations.yaml). helm does not notice that an
object of a release was deleted, and still lists it as deployed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import DEPLOYMENTS, NODES

from .cluster_facts import (
    DELETE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    NodeFacts,
    annotations_of,
    is_deleted,
    key_of,
)

MANAGER = "rehearsal"
_RELEASE = "meta.helm.sh/release-name"
# Annotations of a node with these actions.
_TAINTED, _CORDONED = "rehearsal.gpufleet.invalid/tainted", "rehearsal.gpufleet.invalid/cordoned"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the site's current actions."""
    changes = [change for node in facts.nodes.values() for change in _node(view, node)]
    for name in sorted(facts.deleted | facts.scaled):
        changes += _workload(view, name, deleted=name in facts.deleted)
    return changes


def _node(view: ClusterView, node: NodeFacts) -> Iterable[Change]:
    item = view.find(NODES, node.name)
    if item is None:
        return
    spec, notes = item.get("spec") or {}, annotations_of(item)
    taints = spec.get("taints") or []
    # The site removes its own taints again, and leaves those of others unchanged.
    before = {tuple(entry) for entry in json.loads(notes.get(_TAINTED) or "[]")}
    wanted = [*(t for t in taints if not _compared([t]) & before), *(dict(taint) for taint in node.taints)]
    ours = sorted(_compared(dict(taint) for taint in node.taints))
    body: Json = {}
    if _compared(taints) != _compared(wanted):
        body["taints"] = _distinct(wanted) or None
    if node.cordoned != (_CORDONED in notes):
        body["unschedulable"] = node.cordoned or None
    marks: Json = {}
    if {tuple(entry) for entry in ours} != before:
        marks[_TAINTED] = json.dumps(ours) if ours else None
    if node.cordoned != (_CORDONED in notes):
        marks[_CORDONED] = "true" if node.cordoned else None
    changed = ({"metadata": {"annotations": marks}} if marks else {}) | ({"spec": body} if body else {})
    if changed:
        yield Change(MANAGER, MERGE, NODES, node.name, body=changed)


def _distinct(taints: Iterable[Json]) -> list[Json]:
    return list({next(iter(_compared([taint]))): taint for taint in taints}.values())


def _compared(taints: Iterable[Json]) -> set[tuple[str, str, str]]:
    return {(str(t.get("key")), str(t.get("value") or ""), str(t.get("effect"))) for t in taints}


def _workload(view: ClusterView, release: str, *, deleted: bool) -> Iterable[Change]:
    mine = [item for item in view.all(DEPLOYMENTS) if annotations_of(item).get(_RELEASE) == release]
    for item in sorted(mine, key=key_of)[:1]:
        namespace, name = key_of(item)
        if deleted and not is_deleted(item):
            yield Change(MANAGER, DELETE, DEPLOYMENTS, name, namespace)
        elif not deleted and (item.get("spec") or {}).get("replicas") != 0:
            yield Change(MANAGER, MERGE, DEPLOYMENTS, name, namespace, {"spec": {"replicas": 0}})
