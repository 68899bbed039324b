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

from ...clients.kube.kinds import JOBS, Kind
from ...workload.kueue import QUEUES, SETTING, why_held
from ...workload.namespace import TemporaryNamespace
from ...workload.pending import HELD_HINT, held_by_gates, suspended
from .ray_gang import RAY_CLUSTERS

GANG = "gpufleet.io/gang"
_LEFT_ALONE = (
    "does managedJobsNamespaceSelector of Kueue leave out namespaces with the label gpufleet.io/purpose=test? From "
    "0.15 on (before, with feature gate ManagedJobsNamespaceSelectorAlwaysRespected) Kueue leaves jobs there alone, "
    f"also those that name a queue: let it take them, and name a ClusterQueue for the other tests ({SETTING}). Else: "
    "is batch/job among integrations.frameworks of its configuration? What says the log of kueue-controller-manager?"
)


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


def left_alone(namespace: TemporaryNamespace, workloads: Kind) -> dict[str, str]:
    """Return which Jobs wait for Kueue without a Workload, by their names: nobody decides about them.

    Kueue looks at the namespace before anything else (kubernetes-sigs/kueue, pkg/controller/jobframework/reconciler.go;
    its page "Opt-in Namespace Management").

    Raises:
        BringupError: the API server does not answer, or refuses.
    """
    made = {
        owner.get("name")
        for item in namespace.cluster.find_all(workloads, namespace.name) or []
        for owner in item["metadata"].get("ownerReferences") or ()
        if owner.get("kind") == JOBS.kind
    }
    jobs = namespace.cluster.find_all(JOBS, namespace.name) or []
    waiting = [str(job["metadata"]["name"]) for job in jobs if (job.get("spec") or {}).get("suspend")]
    return {name: f"Kueue made no Workload of Job {name}, which waits for one" for name in waiting if name not in made}


def held_back(
    held: Mapping[str, str], bound: Mapping[str, int], asked: int, queue: str, *, by_kueue: bool = False
) -> dict[str, Any]:
    """Return problem, reason and hint of a result whose gangs were kept from competing, else nothing. Pure.

    Of one that is held and one that was placed nobody learns whether the scheduler would have placed a part of the
    other.

    Args:
        held: by whom, by gang.
        bound: pods with a place, by gang.
        asked: GPUs that all gangs ask for together.
        queue: ClusterQueue of the site through which they go, empty for none.
        by_kueue: Kueue itself is to admit them, by a queue of the test.
    """
    out = [name for name in bound if name in held and not bound[name]]
    if not out:
        return {}
    placed = [name for name in bound if bound[name]]
    hint = _LEFT_ALONE if by_kueue else _with_queue(asked, queue) if queue else HELD_HINT
    return {"problem": "held-by-admission", "reason": f"{held[out[0]]}{_alone(placed)}", "hint": hint}


def _alone(placed: Collection[str]) -> str:
    return f"; {', '.join(placed)} was placed, but nothing competed with it" if placed else ""


def _with_queue(asked: int, queue: str) -> str:
    return (
        f"give ClusterQueue {queue} room for both gangs of the test at once ({asked} GPUs), name another one "
        f"({SETTING}), or let Kueue itself be tested (gpufleet_settings: {{gang-admission: {{provider: kueue}}}}); "
        f"{QUEUES}; from 0.15 on managedJobsNamespaceSelector of Kueue has to take namespaces of tests as well"
    )
