# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of cluster-autoscaler with one node group, to which the GPU nodes belong.

As in kubernetes/autoscaler: a future node is simulated with the labels of an existing one, except its host name, and
with only its DaemonSet pods (cluster-autoscaler/simulator/node_info_utils.go); pods of a priority below -10 are
expendable and get no node; its events, and the ConfigMap with its status (FAQ; clusterstate/api/types.go). A node
without pods is removed after a while (FAQ: how does scale-down work).
"""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import CONFIG_MAPS, NODES

from .added_nodes import ADDED, Told, added_nodes, affinity_expressions, idle, names_nodes, new_node, unschedulable
from .cluster_facts import CREATE, DELETE, Change, ClusterFacts, ClusterView, Json, annotations_of, labels_of

MANAGER = "cluster-autoscaler"
_STATUS, _PLACE = "cluster-autoscaler-status", "kube-system"
_GROUP = "gpu-nodes"
_HOSTNAME = "kubernetes.io/hostname"
_EXPENDABLE = -10


class ClusterAutoscaler:
    """Adds and removes nodes where the cluster has a cluster-autoscaler."""

    def __init__(self) -> None:
        """Start without events."""
        self._told = Told(MANAGER)
        self._reported = False

    def reconcile(self, view: ClusterView, facts: ClusterFacts) -> list[Change]:
        """Return its writes; none where the cluster has no cluster-autoscaler."""
        if facts.model is None or facts.model.stack.node_autoscaler != MANAGER:
            return []
        behaviour, changes = facts.model.stack.added_node, self._status()
        for pod in unschedulable(view):
            changes += self._for(view, facts, pod)
        if behaviour != "stays":
            gone = (node["metadata"]["name"] for node in added_nodes(view) if idle(view, node))
            changes += [Change(MANAGER, DELETE, NODES, name) for name in gone]
        return changes

    def _status(self) -> list[Change]:
        """Write the status once, since nothing else writes it."""
        if self._reported:
            return []
        self._reported = True
        text = (
            f"autoscalerStatus: Running\nclusterWide:\n  health:\n    status: Healthy\nnodeGroups:\n- name: {_GROUP}\n"
        )
        body = {"metadata": {"name": _STATUS, "namespace": _PLACE}, "data": {"status": text}}
        return [Change(MANAGER, CREATE, CONFIG_MAPS, _STATUS, _PLACE, body)]

    def _for(self, view: ClusterView, facts: ClusterFacts, pod: Json) -> Iterator[Change]:
        if int(pod["spec"].get("priority") or 0) < _EXPENDABLE:
            return
        nodes = [node for name in facts.nodes if (node := view.find(NODES, name)) is not None]
        size = len(nodes) + len(added_nodes(view))
        uid, behaviour = pod["metadata"]["uid"], facts.model.stack.added_node if facts.model else ""
        if any(annotations_of(node)[ADDED] == uid for node in added_nodes(view)):
            return
        name = f"{_GROUP}-{uid[:5]}"
        labels = {key: text for key, text in labels_of(nodes[0]).items() if key != _HOSTNAME} if nodes else {}
        why = ""
        if not _fits(pod, {**labels, _HOSTNAME: f"template-node-for-{_GROUP}-1"}):
            why = "1 node(s) didn't match Pod's node affinity/selector"
        elif behaviour == "at-limit":
            why = "1 max node group size reached"
        if why:
            message = f"pod didn't trigger scale-up: {why}"
            yield from self._told.about(pod, "Normal", "NotTriggerScaleUp", message)
            return
        message = f"pod triggered scale-up: [{{{_GROUP} {size}->{size + 1} (max: {size + 1})}}]"
        yield from self._told.about(pod, "Normal", "TriggeredScaleUp", message)
        if behaviour != "never-comes":
            kept = {key: text for key, text in labels.items() if not key.startswith("nvidia.com/")}
            yield Change(MANAGER, CREATE, NODES, name, body=new_node(name, uid, kept))


def _fits(pod: Json, labels: dict[str, str]) -> bool:
    if names_nodes(pod):
        return False
    selector = (pod["spec"].get("nodeSelector") or {}).items()
    return selector <= labels.items() and all(_holds(entry, labels) for entry in affinity_expressions(pod))


def _holds(entry: Json, labels: dict[str, str]) -> bool:
    value, values = labels.get(entry["key"]), entry.get("values") or []
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }.get(entry["operator"], False)
