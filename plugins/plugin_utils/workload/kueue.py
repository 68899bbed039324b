# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kueue before the pods of a test: a LocalQueue of the test's namespace, through which its jobs go to a ClusterQueue.

A job that names a queue is suspended by Kueue's webhook until a Workload that Kueue makes of it is admitted; the pods
of such a job are left alone, a pod without an owner is gated on its own, or with others of its group
(kubernetes-sigs/kueue, pkg/controller/jobframework/defaults.go and pkg/controller/jobs/pod; its pages "Run a Kubernetes
Job" and "Run Plain Pods"). Why a Workload waits stands in its condition QuotaReserved, why a queue takes none in the
condition Active of LocalQueue and ClusterQueue (apis/kueue/v1beta2). With quota it waits for the admission checks of
its queue, whose states and words are in its status: that of ProvisioningRequests is Pending until cluster-autoscaler
has the nodes (pkg/controller/admissionchecks/provisioning/controller.go: syncCheckStates).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.conditions import condition
from ..clients.kube.kinds import Kind
from ..clients.kube.permission import Permission
from ..outcome.errors import BringupError, InputError, NotFoundError

Json = dict[str, Any]
GROUP = "kueue.x-k8s.io"
QUEUE = f"{GROUP}/queue-name"
LOCAL_QUEUE = "tests"
SETTING = "gpufleet_settings: {gpu_stack: {cluster_queue: <name>}}"
PERMISSIONS = (
    *(Permission(verb, "localqueues", GROUP) for verb in ("get", "list", "create", "delete")),
    Permission("get", "clusterqueues", GROUP),
    Permission("list", "workloads", GROUP),
)
_VERSIONS = ("v1beta2", "v1beta1")
_MADE_OF_PODS = ("Job", "MPIJob", "RayCluster")
# Shows who waits in which queue, and why.
QUEUES = "kubectl get clusterqueues; kubectl get workloads -A"


def open_queue(cluster: Cluster, namespace: str, labels: dict[str, str], cluster_queue: str) -> Kind:
    """Make the LocalQueue of a namespace; return its kind.

    Raises:
        NotFoundError: the cluster has no Kueue, or no such ClusterQueue.
        InputError: the ClusterQueue admits nobody now.
        BringupError: the API server does not answer, or refuses.
    """
    version = served_version(cluster)
    title = f"ClusterQueue {cluster_queue}"
    hint = f"state another one, or none if Kueue does not manage the namespaces of tests: {SETTING}"
    if not version:
        raise NotFoundError(title, f"the API server serves no version of {GROUP} that we know.", hint)
    found = cluster.find(Kind(version, "ClusterQueue", "clusterqueues", namespaced=False), cluster_queue)
    if found is None:
        raise NotFoundError(title, "does not exist.", f"kubectl get clusterqueues; {hint}")
    active = condition(found, "Active")
    if active.get("status") == "False":
        reason = f"admits no workloads: {active.get('message') or active.get('reason') or 'no reason given'}."
        raise InputError(title, reason, f"kubectl describe clusterqueue {cluster_queue}; {hint}")
    kind = Kind(version, "LocalQueue", "localqueues")
    metadata = {"name": LOCAL_QUEUE, "namespace": namespace, "labels": labels}
    # Of a custom resource the API server takes nothing that does not say what it is.
    about = {"apiVersion": kind.api_version, "kind": kind.kind}
    cluster.create(kind, {**about, "metadata": metadata, "spec": {"clusterQueue": cluster_queue}}, namespace)
    return kind


def queued(body: Json) -> Json:
    """Return an object of a test with its queue, where it is one that Kueue admits; others as they are."""
    bare_pod = body["kind"] == "Pod"
    if body["kind"] not in _MADE_OF_PODS and not bare_pod:
        return body
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), QUEUE: LOCAL_QUEUE}}}


def pods_together(objects: Iterable[Json], group: str) -> list[Json]:
    """Return objects of which the pods are admitted together or not at all; the others as they are."""
    objects = list(objects)
    total = str(sum(body["kind"] == "Pod" for body in objects))
    return [_grouped(body, group, total) if body["kind"] == "Pod" else body for body in objects]


def why_held(cluster: Cluster, namespace: str, job: str) -> str:
    """Return why the queue has not admitted a job, in Kueue's words; empty if nothing says so."""
    version = served_version(cluster)
    try:
        workloads = cluster.list_objects(Kind(version, "Workload", "workloads"), namespace) if version else []
        queue = cluster.find(Kind(version, "LocalQueue", "localqueues"), LOCAL_QUEUE, namespace) if version else None
    except BringupError as error:
        return f"its Workload cannot be read: {error.reason}"
    for workload in workloads:
        owners = workload["metadata"].get("ownerReferences") or []
        if job not in (owner.get("name") for owner in owners):
            continue
        for kind in ("Evicted", "QuotaReserved", "Admitted"):
            said = condition(workload, kind)
            if said.get("status") == ("True" if kind == "Evicted" else "False"):
                words = str(said.get("message") or said.get("reason") or "")
                return "; ".join(filter(None, (words, _checks_open(workload))))[:300]
        if _checks_open(workload):
            return _checks_open(workload)[:300]
    active = condition(queue, "Active")
    return str(active.get("message") or active.get("reason") or "")[:300] if active.get("status") == "False" else ""


def _checks_open(workload: Json) -> str:
    """Return which admission checks a Workload waits for, with their words; empty for none."""
    checks = (workload.get("status") or {}).get("admissionChecks") or []
    waiting = [entry for entry in checks if entry.get("state") != "Ready"]
    texts = (
        f"admission check {entry.get('name')} is {entry.get('state')}: {entry.get('message')}" for entry in waiting
    )
    return "; ".join(text.removesuffix(": ").removesuffix(": None") for text in texts)


def waits_for_pods(cluster: Cluster, namespace: str) -> bool | None:
    """Return whether Kueue waits until all pods of what it admitted are ready, and evicts it else (waitForPodsReady of
    its configuration); None where no Workload says so. Only with it a Workload has the condition PodsReady, from before
    it is admitted on (kubernetes-sigs/kueue, pkg/controller/jobframework/reconciler.go: generatePodsReadyCondition)."""
    version = served_version(cluster)
    try:
        workloads = cluster.list_objects(Kind(version, "Workload", "workloads"), namespace) if version else []
    except BringupError:
        return None
    return any(condition(workload, "PodsReady") for workload in workloads) if workloads else None


def _grouped(body: Json, group: str, total: str) -> Json:
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {}), f"{GROUP}/pod-group-name": group}
    annotations = {**(metadata.get("annotations") or {}), f"{GROUP}/pod-group-total-count": total}
    return {**body, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def served_version(cluster: Cluster) -> str:
    """Return group and version of Kueue that the server has and we know, the newest; empty if none."""
    served = cluster.served_versions(GROUP)
    return next((f"{GROUP}/{version}" for version in _VERSIONS if version in served), "")
