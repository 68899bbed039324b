# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stand-in of mpi-operator: worker pods, then the launcher as a Job, and conditions from the launcher."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import DEPLOYMENTS, JOBS, PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import now_utc

from .cluster_facts import (
    CREATE,
    MERGE,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    available,
    condition_of,
    is_deleted,
    is_true,
    key_of,
    owner_reference,
)

MANAGER = "mpi-operator"
MPI_JOBS = Kind("kubeflow.org/v2beta1", "MPIJob", "mpijobs")
_PREFIX = "training.kubeflow.org"


def reconcile(view: ClusterView, facts: ClusterFacts) -> list[Change]:
    """Return the writes of mpi-operator."""
    if not available(view, DEPLOYMENTS, "app", "mpi-operator"):
        return []
    return [change for job in view.all(MPI_JOBS) if not is_deleted(job) for change in _job(view, job)]


def _job(view: ClusterView, job: Json) -> Iterable[Change]:
    namespace, name = key_of(job)
    replicas = int(job["spec"]["mpiReplicaSpecs"]["Worker"].get("replicas", 1))
    finished = is_true(job, "Succeeded") or is_true(job, "Failed")
    workers = [view.find(PODS, f"{name}-worker-{number}", namespace) for number in range(replicas)]
    launcher = view.find(JOBS, f"{name}-launcher", namespace)
    if not finished:
        for number, worker in enumerate(workers):
            if worker is None:
                yield _worker(job, number)
        ready = all(worker is not None and is_true(worker, "Ready") for worker in workers)
        waits = job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady"
        if launcher is None and (ready or not waits):
            yield _launcher(job)
    yield from _status(job, launcher, workers)


def _labels(job: Json, role: str) -> dict[str, str]:
    about = {"job-name": job["metadata"]["name"], "job-role": role, "operator-name": "mpi-operator"}
    return {f"{_PREFIX}/{key}": value for key, value in about.items()}


def _worker(job: Json, number: int) -> Change:
    namespace, name = key_of(job)
    template = deepcopy(job["spec"]["mpiReplicaSpecs"]["Worker"]["template"])
    metadata = template.get("metadata") or {}
    pod_name = f"{name}-worker-{number}"
    labels = {**(metadata.get("labels") or {}), **_labels(job, "worker"), f"{_PREFIX}/replica-index": str(number)}
    about = {
        "name": pod_name, "namespace": namespace, "labels": labels, "annotations": metadata.get("annotations") or {},
        "ownerReferences": [owner_reference(job, MPI_JOBS.api_version, MPI_JOBS.kind)],
    }  # fmt: skip
    spec = {**template["spec"], "hostname": pod_name, "subdomain": name, "restartPolicy": "Never"}
    return Change(MANAGER, CREATE, PODS, pod_name, namespace, {"metadata": about, "spec": spec})


def _launcher(job: Json) -> Change:
    namespace, name = key_of(job)
    template = deepcopy(job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"])
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **_labels(job, "launcher")}
    template["spec"] |= {"hostname": f"{name}-launcher", "restartPolicy": "Never"}
    policy = job["spec"].get("runPolicy") or {}
    spec = {"template": template, "backoffLimit": policy.get("backoffLimit", 0)}
    if policy.get("activeDeadlineSeconds"):
        spec["activeDeadlineSeconds"] = policy["activeDeadlineSeconds"]
    about = {
        "name": f"{name}-launcher", "namespace": namespace, "labels": _labels(job, "launcher"),
        "ownerReferences": [owner_reference(job, MPI_JOBS.api_version, MPI_JOBS.kind)],
    }  # fmt: skip
    return Change(MANAGER, CREATE, JOBS, f"{name}-launcher", namespace, {"metadata": about, "spec": spec})


def _status(job: Json, launcher: Json | None, workers: list[Json | None]) -> Iterable[Change]:
    namespace, name = key_of(job)
    running = [worker for worker in workers if worker is not None and is_true(worker, "Ready")]
    wanted = {"Created": "MPIJobCreated"}
    if launcher is not None and len(running) == len(workers):
        wanted["Running"] = "MPIJobRunning"
    if launcher is not None and is_true(launcher, "Complete"):
        wanted["Succeeded"] = "MPIJobSucceeded"
    elif launcher is not None and is_true(launcher, "Failed"):
        wanted["Failed"] = condition_of(launcher, "Failed").get("reason") or "MPIJobFailed"
    known = {entry["type"]: entry for entry in (job.get("status") or {}).get("conditions") or []}
    if wanted.keys() <= known.keys():
        return
    now = now_utc().partition(".")[0] + "Z"
    fresh = [
        {
            "type": kind, "status": "True", "reason": reason, "message": f"MPIJob {namespace}/{name}: {reason}",
            "lastTransitionTime": now, "lastUpdateTime": now,
        }
        for kind, reason in wanted.items()
        if kind not in known
    ]  # fmt: skip
    body = {"status": {"conditions": [*known.values(), *fresh]}}
    yield Change(MANAGER, MERGE, MPI_JOBS, name, namespace, body, subresource="status")
