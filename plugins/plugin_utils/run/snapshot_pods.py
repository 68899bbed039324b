# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hosts of a snapshot on nodes that nobody logs in to: each is asked by a pod of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..clients.kube.cluster import Cluster
from ..collect.node_pod import is_whole, node_facts, node_script
from ..collect.snapshot_cluster import Collection
from ..collect.snapshot_hosts import all_hosts, host_from_pod, result_of
from ..component_stack.facts import stack_facts
from ..outcome.errors import BringupError
from ..snapshot.gpus import gpu_nodes
from ..snapshot.model import (
    Collected,
    CollectorResult,
    Host,
    Snapshot,
)
from ..snapshot.node import Node
from ..workload.node_pods import NodePods, Printed, run_on_nodes
from ..workload.tolerations import Toleration, known_tolerations

# For the container's start and end.
_AROUND_S = 10.0
_HINT = "see why, and take the snapshot again: what a pod there needs is in docs/snapshot.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsAsked:
    """Which nodes are asked by pods: those with GPUs, or `everywhere`; `image` and `runtime_class` are of the pods,
    empty for the release's image and the cluster's usual runtime; `tolerations` are those of the pods."""

    everywhere: bool = False
    image: str = ""
    runtime_class: str = ""
    tolerations: tuple[Toleration, ...] = field(default_factory=known_tolerations)
    limit_s: float = 30.0
    start_s: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSsh:
    """What a run knows of hosts: those that it read, why it did not read others, and the names in the inventory by
    those in the cluster. `failed` is why nothing of it is known, `told` where it is from, `rehearsal` whether they
    are simulated."""

    hosts: Mapping[str, Host] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    failed: CollectorResult | None = None
    told: str = ""
    rehearsal: bool = False


def with_pods(cluster: Cluster, snapshot: Snapshot, over_ssh: OverSsh, asked: PodsAsked) -> Collection:
    """Return the hosts that were read over SSH, with those beside them that pods read.

    Args:
        cluster: where.
        snapshot: whose nodes are looked at.
        over_ssh: what is known of hosts.
        asked: which nodes, and how.
    """
    read, names = dict(over_ssh.hosts), over_ssh.names
    if over_ssh.failed is not None:
        return _failed(read, over_ssh.failed.reason, over_ssh.failed.hint)
    wanted = snapshot.nodes if asked.everywhere else {name: snapshot.nodes[name] for name in _with_gpus(snapshot)}
    nodes = {name: node for name, node in wanted.items() if names.get(name, name) not in read}
    if not snapshot.whole("nodes"):
        reason = f"no node was asked by a pod: the nodes are not known ({snapshot.collectors['nodes'].reason})"
        return _failed(read, reason, "let collector nodes look first")
    if not nodes and not read:
        return _failed(read, "no node has GPUs, so none was asked by a pod", "set node_pods to all")
    try:
        printed = _asked(cluster, nodes, asked) if nodes else {}
    except BringupError as error:
        return _failed(read, f"no node was asked by a pod: {error.subject}: {error.reason}".rstrip("."), error.hint)
    missing = {name: reason for name, reason in over_ssh.missing.items() if name not in map(names.get, nodes, nodes)}
    for node, found in sorted(printed.items()):
        name = names.get(node, node)
        if is_whole(found.log):
            read[name] = host_from_pod(node_facts(name, found.log, asked.limit_s))
        else:
            missing[name] = found.reason or "the log of its pod is cut off"
    result = result_of(read, missing, _HINT)
    told = "; ".join(filter(None, (result.reason, over_ssh.told, f"{len(nodes)} asked by pods")))
    return Collection(name="hosts", parts={"hosts": all_hosts(read, missing)}, result=replace(result, reason=told))


def _with_gpus(snapshot: Snapshot) -> tuple[str, ...]:
    return gpu_nodes(replace(snapshot, hosts={}))


def _asked(cluster: Cluster, nodes: Mapping[str, Node], asked: PodsAsked) -> dict[str, Printed]:
    facts = stack_facts()
    pods = NodePods(
        image=asked.image or facts.dra.image,
        script=node_script(asked.limit_s),
        prefix=facts.test_pods.namespace_prefix,
        priority=facts.test_pods.priority,
        runtime_class=asked.runtime_class,
        tolerations=asked.tolerations,
        start_s=asked.start_s,
        run_s=asked.limit_s + _AROUND_S,
    )
    return run_on_nodes(cluster, nodes, pods)


def _failed(read: Mapping[str, Host], reason: str, hint: str) -> Collection:
    failed = CollectorResult(state=Collected.FAILED, reason=reason, hint=hint)
    return Collection(name="hosts", parts={"hosts": dict(read)}, result=failed)
