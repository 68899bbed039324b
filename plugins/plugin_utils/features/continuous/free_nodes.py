# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which nodes of a Kubernetes cluster are free for a test of the whole node, and why the others are not. Pure.

A node is free if it is Ready, takes pods, has no taint but those of GPU platforms, has GPUs of which none is allocated
to a pod or a claim, and has no pod of a user. A user's pod without GPUs counts as well: it would share CPUs and memory
with the test and be measured by it. A pod of a user is one that neither a DaemonSet nor the kubelet created, that is
not ours and not in a system namespace. A pod counts from the moment at which the scheduler chose the node, also while
it waits for others to go (`nominatedNodeName`; kubernetes.io, "Pod Priority and Preemption").
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...clients.kube.api_versions import GROUP
from ...clients.kube.objects import Cleaner, controller_of, read_node
from ...clients.kube.permission import Permission
from ...outcome.wording import count, first_of
from ...workload.capacity import NodeCapacity, gpu_claimants, gpus_asked, node_capacity, pod_runs
from ...workload.lease import NAMESPACE
from ...workload.namespace import OWNER_LABELS
from ...workload.node_use import NodeUse, Use, absent
from ...workload.nodes import HELD_TAINT, MARK, REASON, Toleration, closed, known_tolerations

Json = dict[str, Any]
# Namespaces of Kubernetes itself and ours; those of the site's components are added.
SYSTEM = frozenset({"kube-system", "kube-public", "kube-node-lease", NAMESPACE})
RIGHTS = (
    Permission("list", "nodes"),
    Permission("list", "pods"),
    *(Permission("list", name, GROUP) for name in ("resourceclaims", "resourceslices")),
)
_MIRROR = "kubernetes.io/config.mirror"
# Taints of nodes that we keep out of service ourselves.
OURS = (Toleration(key="node.kubernetes.io/unschedulable"), Toleration(key=HELD_TAINT))
_SHOWN = 3


def free_nodes(
    nodes: Iterable[Json],
    pods: Iterable[Json],
    claims: Iterable[Json],
    slices: Iterable[Json],
    names: Collection[str],
    *,
    system: Collection[str] = SYSTEM,
    tolerations: tuple[Toleration, ...] | None = None,
    beside_others: bool = False,
) -> dict[str, NodeUse]:
    """Return what is on each of these nodes, by name.

    Args:
        nodes: all nodes of the cluster, as the API server returns them.
        pods: all its pods.
        claims: its ResourceClaims.
        slices: its ResourceSlices.
        names: the nodes to return.
        system: namespaces whose pods without GPUs are not pods of users.
        tolerations: the tolerations of test pods; None: the taints of platforms.
        beside_others: whether pods of users without GPUs may run beside a test.
    """
    every, wanted = {node["metadata"]["name"]: node for node in nodes}, frozenset(names)
    there, claimed = list(pods), list(claims)
    capacities = node_capacity(every.values(), there, claimed, slices, wanted, tolerations)
    namespaces = None if beside_others else frozenset(system)
    users = _users(there, gpu_claimants(claimed), wanted, namespaces)
    return {
        name: _use(every[name], capacities[name], users.get(name, ()), tolerations)
        if name in every
        else absent(name, "the cluster")
        for name in sorted(wanted)
    }


def _use(
    obj: Json, capacity: NodeCapacity, users: Sequence[str], tolerations: tuple[Toleration, ...] | None
) -> NodeUse:
    name, ours, why = capacity.name, _kept_by_us(obj), capacity.closed
    if why and ours:
        # What remains without our own cordon.
        node = replace(read_node(obj, Cleaner())[1], unschedulable=False)
        why = closed(node, (*(known_tolerations() if tolerations is None else tolerations), *OURS))
    if why:
        return NodeUse(name=name, use=Use.CLOSED, why=why)
    if obj["metadata"].get("deletionTimestamp"):
        return NodeUse(name=name, use=Use.CLOSED, why="it is being removed from the cluster")
    if not capacity.total and not capacity.parts:
        return NodeUse(name=name, use=Use.CLOSED, why="it offers no GPU, neither by device plugin nor by DRA")
    on_hold = capacity.used + sum(capacity.parts_used.values())
    if users or on_hold:
        why = (
            first_of(users, _SHOWN) or f"claims hold {count(capacity.used, 'GPU')} of it, and no pod that is there does"
        )
        return NodeUse(name=name, use=Use.BUSY, why=why)
    return NodeUse(name=name, use=Use.OURS, why=ours) if ours else NodeUse(name=name, use=Use.FREE)


def _kept_by_us(obj: Json) -> str:
    """Return which of our cordons keeps a node out of service, empty for none."""
    notes = obj["metadata"].get("annotations") or {}
    mark = str(notes.get(MARK) or "")
    if not mark or not (obj.get("spec") or {}).get("unschedulable"):
        return ""
    reason = str(notes.get(REASON) or "")
    return f"cordoned by us ({mark}){f': {reason}' if reason else ''}"


def _users(
    pods: Iterable[Json], claimants: Collection[str], names: frozenset[str], harmless: frozenset[str] | None
) -> Mapping[str, list[str]]:
    """Return by node the pods that keep it busy, as text, those with GPUs first.

    Args:
        pods: all pods.
        claimants: pods for which claims of GPUs are reserved, as `namespace/name`.
        names: the nodes.
        harmless: namespaces whose pods without GPUs may run beside a test; None: all.
    """
    found: dict[str, list[tuple[bool, str]]] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName") or (pod.get("status") or {}).get("nominatedNodeName") or ""
        if node in names and not _ended(pod):
            title = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
            holds = title in claimants or any(gpus_asked(pod["spec"]).values())
            ours = _ours(pod)
            beside = harmless is None or pod["metadata"].get("namespace") in harmless
            if holds or ours or not (beside or _of_the_node(pod)):
                whose = "our pod" if ours else "pod"
                what = "holds GPUs" if holds and pod_runs(pod) else "is there" if pod_runs(pod) else "waits for it"
                found.setdefault(node, []).append((not holds, f"{whose} {title} {what}"))
    return {node: [text for _without, text in sorted(reported)] for node, reported in found.items()}


def _ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _ours(pod: Json) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in OWNER_LABELS.items())


def _of_the_node(pod: Json) -> bool:
    """Whether the pod runs on every such node (DaemonSet, mirror pod), so that it does not make this one busy."""
    mirrored = _MIRROR in (pod["metadata"].get("annotations") or {})
    return mirrored or controller_of(pod).get("kind") in ("DaemonSet", "Node")
