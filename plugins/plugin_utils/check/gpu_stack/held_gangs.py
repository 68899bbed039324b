# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gangs that somebody keeps from the scheduler, about which they say nothing.

Pods wait for a scheduling gate, a RayCluster makes no pods while it is suspended (ray-project/kuberay, ray-operator/
apis/ray/v1/raycluster_types.go: RayClusterSpec.suspend). Kueue does both to what it manages: also to what names no
queue, where it is told to (kueue.sigs.k8s.io, "Setup manageJobsWithoutQueueName").
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...workload.kueue import QUEUES, SETTING, why_held
from ...workload.namespace import TemporaryNamespace
from ...workload.pending import HELD_HINT, held_by_gates, suspended
from .ray_gang import RAY_CLUSTERS

GANG = "gpufleet.io/gang"


def held_gangs(namespace: TemporaryNamespace, *, ray: bool) -> dict[str, str]:
    """Return by whom gangs are held, by their names.

    Raises:
        BringupError: the API server does not answer, or refuses.
    """
    waiting = [pod for pod in namespace.pods() if not (pod.get("spec") or {}).get("nodeName")]
    held = {str(pod["metadata"]["labels"].get(GANG, "")): text for pod in waiting if (text := held_by_gates(pod))}
    for body in (namespace.cluster.find_all(RAY_CLUSTERS, namespace.name) or []) if ray else []:
        if text := suspended({"kind": RAY_CLUSTERS.kind, **body}):
            name = body["metadata"]["name"]
            queue = namespace.cluster_queue
            said = why_held(namespace.cluster, namespace.name, name) if queue else ""
            held[name] = f"{RAY_CLUSTERS.kind} {name} waits for ClusterQueue {queue}: {said}" if said else text
    return held


def held_back(held: Mapping[str, str], bound: Mapping[str, int], asked: int, queue: str) -> dict[str, Any]:
    """Return problem, reason and hint of a result whose gangs were kept from competing, else nothing. Pure.

    Of one that is held and one that was placed nobody learns whether the scheduler would have placed a part of the
    other.

    Args:
        held: by whom, by gang.
        bound: pods with a place, by gang.
        asked: GPUs that all gangs ask for together.
        queue: ClusterQueue of the site through which they go, empty for none.
    """
    out = [name for name in bound if name in held and not bound[name]]
    if not out:
        return {}
    placed = [name for name in bound if bound[name]]
    hint = _with_queue(asked, queue) if queue else HELD_HINT
    return {"problem": "held-by-admission", "reason": f"{held[out[0]]}{_alone(placed)}", "hint": hint}


def _alone(placed: Collection[str]) -> str:
    return f"; {', '.join(placed)} was placed, but nothing competed with it" if placed else ""


def _with_queue(asked: int, queue: str) -> str:
    return (
        f"give ClusterQueue {queue} room for both gangs of the test at once ({asked} GPUs), name another one "
        f"({SETTING}), or let Kueue itself be tested (gpufleet_settings: {{gang-admission: {{provider: kueue}}}}); "
        f"{QUEUES}"
    )
