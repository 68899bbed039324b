# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Freeing nodes of their pods, by the rules of `kubectl drain` (kubernetes/kubectl, pkg/drain).

Pods of DaemonSets and the kubelet's own (mirror) pods stay, finished ones harm nobody. A pod that nobody would make
again, or that loses what it wrote into an emptyDir, is in the way unless the site says otherwise, and then nothing of
its node is evicted. Nothing is ever deleted where an eviction is refused. As there, what comes to a node after its
drain began, because it tolerates the cordon, is not waited for: evicted, it would only come again. A pod that asks for
GPUs is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.eviction import evict
from ..clients.kube.objects import PODS, controller_of
from ..clients.kube.permission import Permission
from ..runtime.clock import Deadline, elapsed_text
from ..runtime.pool import map_bounded
from ..runtime.progress import Emit, Progress, silent
from ..workload.capacity import gpus_asked
from ..workload.nodes import CORDON_TAINT, toleration_of

Json = dict[str, Any]
_MIRROR = "kubernetes.io/config.mirror"
_FINISHED = ("Succeeded", "Failed")
_AT_ONCE = 8
_SHOWN = 3
RIGHTS = (Permission("list", "pods"), Permission("create", "pods", subresource="eviction"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainLimits:
    """How nodes are drained: `timeout_s` for all nodes of a wave together, `grace_s` for a pod to end (None: as long as
    it says itself), `unmanaged`: pods without controller may go, `empty_dirs`: pods with emptyDir volumes may go."""

    timeout_s: float = 900.0
    grace_s: int | None = None
    unmanaged: bool = False
    empty_dirs: bool = False
    poll_s: float = 5.0


@dataclass(frozen=True, slots=True)
class _Look:
    """One node at one moment: the pods that are still there, and those that may not be evicted, with why."""

    left: tuple[Json, ...]
    kept: tuple[str, ...]


def drain_nodes(
    cluster: Cluster,
    nodes: Mapping[str, str],
    limits: DrainLimits,
    emit: Emit = silent,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, str]:
    """Evict the pods of these nodes and wait until they are gone; return by node what is in the way, empty for nothing.

    Args:
        cluster: where.
        nodes: their names in the cluster, by the name that the answer has.
        limits: what may be done, for how long.
        emit: takes the progress lines.
        sleep: waits for so many seconds.

    Raises:
        BringupError: the API server does not answer or forbids it.
    """
    deadline, progress, turn = Deadline.after(limits.timeout_s), Progress(emit), _one_turn(cluster, limits)
    open_nodes, done = dict(nodes), dict[str, str]()
    while open_nodes:
        found = dict(zip(open_nodes, map_bounded(turn, list(open_nodes.values()), _AT_ONCE), strict=True))
        late = deadline.left_s <= 0
        for name, (left, refused, for_good) in found.items():
            if not left or for_good:
                done[name] = for_good
                del open_nodes[name]
            elif late:
                waiting = [f"pod {_title(pod)} does not end" for pod in left if _title(pod) not in refused]
                done[name] = f"after {elapsed_text(limits.timeout_s)}: {_shown([*refused.values(), *waiting])}"
                del open_nodes[name]
        if open_nodes:
            blockers = [text for name in open_nodes for text in found[name][1].values()]
            pods = sum(len(found[name][0]) for name in open_nodes)
            progress.tick(f"draining {len(open_nodes)} nodes: {pods} pods left{f'; {blockers[0]}' if blockers else ''}")
            sleep(min(limits.poll_s, max(0.1, deadline.left_s)))
    return done


def preview_drain(cluster: Cluster, nodes: Mapping[str, str], limits: DrainLimits) -> dict[str, str]:
    """Return by node what would be in the way of its drain now, as the server says; nothing is evicted."""
    turns = map_bounded(_one_turn(cluster, limits, dry_run=True), list(nodes.values()), _AT_ONCE)
    return {
        name: for_good or _shown(list(refused.values()))
        for name, (_left, refused, for_good) in zip(nodes, turns, strict=True)
    }


def _one_turn(
    cluster: Cluster, limits: DrainLimits, *, dry_run: bool = False
) -> Callable[[str], tuple[tuple[Json, ...], dict[str, str], str]]:
    """Return what asks for the eviction of all pods of a node once: the pods left, refusals by pod, and what is in the
    way for good."""

    first: dict[str, frozenset[str]] = {}

    def turn(node: str) -> tuple[tuple[Json, ...], dict[str, str], str]:
        pods = cluster.list_objects(PODS, fields=f"spec.nodeName={node}")
        first.setdefault(node, frozenset(pod["metadata"]["uid"] for pod in pods))
        look = _sorted_out([pod for pod in pods if not stays(pod, first[node])], limits)
        if look.kept:
            return look.left, {}, _shown(list(look.kept))
        refused, for_good = dict[str, str](), list[str]()
        for pod in look.left:
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp"):
                continue
            said = evict(
                cluster, metadata["name"], metadata["namespace"], uid=metadata.get("uid", ""), grace_s=limits.grace_s,
                dry_run=dry_run,
            )  # fmt: skip
            if not said.accepted:
                refused[_title(pod)] = f"pod {_title(pod)}{_owner_text(pod)}: {said.refused}"
            if said.for_good:
                for_good.append(refused[_title(pod)])
        return look.left, refused, _shown(for_good)

    return turn


def stays(pod: Json, first: Collection[str]) -> bool:
    """Tell whether a pod came to a cordoned node because it tolerates that, and is in nobody's way.

    Args:
        pod: the pod.
        first: UIDs of the pods that were there when the drain began.
    """
    spec = pod.get("spec") or {}
    if pod["metadata"]["uid"] in first or gpus_asked(spec) or spec.get("resourceClaims"):
        return False
    return any(toleration_of(body).covers(CORDON_TAINT) for body in spec.get("tolerations") or [])


def _sorted_out(pods: Sequence[Json], limits: DrainLimits) -> _Look:
    left, kept = list[Json](), list[str]()
    for pod in sorted(pods, key=_title):
        metadata, owner = pod["metadata"], controller_of(pod)
        finished = (pod.get("status") or {}).get("phase") in _FINISHED
        if finished or _MIRROR in (metadata.get("annotations") or {}) or owner.get("kind") == "DaemonSet":
            continue
        left.append(pod)
        if metadata.get("deletionTimestamp"):
            continue
        if not owner and not limits.unmanaged:
            kept.append(
                f"pod {_title(pod)} has no controller that would make it again (gpufleet_wave_delete_unmanaged: true)"
            )
        volumes = (pod.get("spec") or {}).get("volumes") or []
        if not limits.empty_dirs and any("emptyDir" in volume for volume in volumes):
            kept.append(
                f"pod {_title(pod)}{_owner_text(pod)} would lose its emptyDir (gpufleet_wave_delete_empty_dirs: true)"
            )
    return _Look(tuple(left), tuple(kept))


def _title(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def _owner_text(pod: Json) -> str:
    owner = controller_of(pod)
    return f" ({owner.get('kind')} {owner.get('name')})" if owner else ""


def _shown(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more
