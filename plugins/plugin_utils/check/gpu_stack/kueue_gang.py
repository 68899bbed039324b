# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gangs that Kueue admits: two Jobs compete for a ClusterQueue of the test, whose quota fits one of them.

A Job that names a queue is suspended, and is resumed as a whole once its Workload has quota. The ClusterQueue admits
only test jobs and is in no cohort. Its quota is what is free on the nodes of the test, so that an admitted gang also
fits on them. A finalizer keeps a ClusterQueue while it has Workloads (kubernetes-sigs/kueue,
apis/kueue/v1beta2/clusterqueue_types.go: ResourceInUseFinalizerName).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.objects import JOBS, Kind
from ...clients.kube.wait import until
from ...component_stack.facts import stack_facts
from ...outcome.errors import BringupError, NotFoundError
from ...runtime.clock import Deadline, unlimited
from ...runtime.files import RECIPES
from ...workload.manifests import render
from ...workload.namespace import MARGIN_S, OWNER_LABELS, TemporaryNamespace
from ...workload.queue import GROUP, LOCAL_QUEUE, QUEUE, served_version

Json = dict[str, Any]
KUEUE = "kueue"
_ACTIVE_S = 30.0
_SELECTOR = ",".join(f"{key}={value}" for key, value in OWNER_LABELS.items())


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Kueue's kinds in the version that the server serves."""

    flavors: Kind
    queues: Kind
    local: Kind
    workloads: Kind


def kueue_kinds(cluster: Cluster) -> _Kinds:
    """Return Kueue's kinds.

    Raises:
        NotFoundError: the API server serves no supported version of them.
    """
    version = served_version(cluster)
    if not version:
        raise NotFoundError(GROUP, "is not served in a version that we know.", "install Kueue, or correct the recipe")
    return _Kinds(
        Kind(version, "ResourceFlavor", "resourceflavors", namespaced=False),
        Kind(version, "ClusterQueue", "clusterqueues", namespaced=False),
        Kind(version, "LocalQueue", "localqueues"),
        Kind(version, "Workload", "workloads"),
    )


@dataclass(slots=True)
class OwnQueue:
    """A ClusterQueue of one test, with its flavor and LocalQueue. `leftovers` is what could not be removed."""

    namespace: TemporaryNamespace
    kinds: _Kinds
    leftovers: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the ClusterQueue and of the flavor."""
        return self.namespace.name

    def open(self, resource: str, quota: int) -> None:
        """Create them, and wait until the queue admits.

        Raises:
            BringupError: the API server refuses, or the queue does not become active.
        """
        cluster, labels = self.namespace.cluster, self.namespace.labels
        for kind in (self.kinds.queues, self.kinds.flavors):
            # Of a run that died: only one run at a time holds the cluster.
            for dead in cluster.find_all(kind, labels=_SELECTOR) or []:
                cluster.delete(kind, dead["metadata"]["name"])
        flavors = [{"name": self.name, "resources": [{"name": resource, "nominalQuota": quota}]}]
        spec = {
            "namespaceSelector": {"matchLabels": OWNER_LABELS},
            "resourceGroups": [{"coveredResources": [resource], "flavors": flavors}],
        }
        metadata = {"name": self.name, "labels": labels}
        cluster.create(self.kinds.flavors, self._body(self.kinds.flavors, metadata, {}))
        cluster.create(self.kinds.queues, self._body(self.kinds.queues, metadata, spec))
        local = {"name": LOCAL_QUEUE, "namespace": self.name, "labels": labels}
        cluster.create(self.kinds.local, self._body(self.kinds.local, local, {"clusterQueue": self.name}), self.name)
        until(self._is_active, Deadline.after(_ACTIVE_S), f"ClusterQueue {self.name} admits workloads")

    @staticmethod
    def _body(kind: Kind, metadata: Mapping[str, Any], spec: Json) -> Json:
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": dict(metadata), "spec": spec}

    def _is_active(self) -> bool:
        found = self.namespace.cluster.find(self.kinds.queues, self.name) or {}
        conditions = (found.get("status") or {}).get("conditions") or []
        return any(entry.get("type") == "Active" and entry.get("status") == "True" for entry in conditions)

    def close(self, cleanup_s: float) -> None:
        """Remove the jobs first, whose Workloads keep the queue, and then the queue."""
        cluster, deadline = self.namespace.cluster, Deadline.after(cleanup_s)
        self._step("Jobs", partial(self._dismiss, JOBS))
        self._step("Workloads", lambda: self._gone(self.kinds.workloads, deadline))
        self._step("LocalQueue", partial(self._dismiss, self.kinds.local))
        for kind in (self.kinds.queues, self.kinds.flavors):
            self._step(f"{kind.kind} {self.name}", partial(cluster.delete, kind, self.name))

            def is_gone(kind: Kind = kind) -> bool:
                return cluster.find(kind, self.name) is None

            self._step(f"{kind.kind} {self.name}", partial(until, is_gone, deadline, f"{kind.kind} {self.name} gone"))

    def _dismiss(self, kind: Kind) -> None:
        for item in self.namespace.cluster.find_all(kind, self.name) or []:
            self.namespace.cluster.delete(kind, item["metadata"]["name"], self.name)

    def _gone(self, kind: Kind, deadline: Deadline) -> None:
        until(
            lambda: not self.namespace.cluster.find_all(kind, self.name), deadline, f"{kind.kind} of {self.name} gone"
        )

    def _step(self, what: str, action: Callable[[], Any]) -> None:
        try:
            action()
        except BringupError as error:
            self.leftovers.append(f"{what}: {error.reason}")


@contextmanager
def own_queue(namespace: TemporaryNamespace, resource: str, quota: int, cleanup_s: float) -> Iterator[OwnQueue]:
    """Yield a ClusterQueue of the test with this quota of a resource. It is removed on every exit."""
    queue = OwnQueue(namespace, kueue_kinds(namespace.cluster))
    try:
        queue.open(resource, quota)
        yield queue
    finally:
        with unlimited():
            queue.close(cleanup_s)


def job_of_gang(
    namespace: TemporaryNamespace, name: str, image: str, nodes: tuple[str, ...], size: int, gpus: int, resource: str,
    longest_s: float,
) -> list[Json]:  # fmt: skip
    """Return the Job of one gang.

    Raises:
        InputError: the template does not render with these values.
    """
    labels = {**namespace.labels, "gpufleet.io/gang": name}
    return render(
        RECIPES / "workloads" / "gang-kueue.yaml.j2",
        {
            "name": name,
            "namespace": namespace.name,
            "size": size,
            "gpus": gpus,
            "resource": resource,
            "nodes": list(nodes),
            "image": image or stack_facts().test_pods.image,
            "priority_class": namespace.priority_class,
            "tolerations": namespace.tolerated,
            "queue_labels": {**labels, QUEUE: LOCAL_QUEUE},
            "pod_labels": labels,
            "deadline_s": longest_s + MARGIN_S,
        },
    )
