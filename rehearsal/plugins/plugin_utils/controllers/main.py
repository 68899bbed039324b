# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The loop of the simulated operators: read the cluster, write changes, wait for a change."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ConflictError, GoneError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CLUSTER_POLICIES,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    KAI_POD_GROUPS,
    KAI_QUEUES,
    NATIVE_POD_GROUPS,
    NIC_CLUSTER_POLICIES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUES,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.pool import map_bounded

from ..model.spec import applied_file, file_version
from . import (
    cluster_autoscaler,
    compute_domains,
    dra_driver,
    driver_upgrade,
    gateway,
    gpu_operator,
    kai_scheduler,
    karpenter,
    kuberay,
    kueue,
    llm_servers,
    mpi_operator,
    network_operator,
    operands,
    pod_faults,
    pod_ports,
    pod_programs,
    prometheus_adapter,
    prometheus_operator,
    rdma_plugin,
    site_hands,
    slurm_operator,
    volcano,
)
from .added_nodes import with_added_nodes
from .cluster_facts import (
    CREATE,
    DELETE,
    REPLACE,
    STRATEGIC,
    Change,
    ClusterFacts,
    ClusterView,
    Json,
    Key,
    key_of,
    read_cluster_facts,
)

# Objects of a cluster, kept up to date by watches, and the controllers' writes to the API server.


_WATCH_S = 600.0
# Pause before a server that is down, or does not serve a kind yet, is queried again.
_AGAIN_S = 0.5
# CRDs come with installed components. While no Deployment is added or changed, the groups are queried less often.
_QUIET_AFTER_S, _QUIET_AGAIN_S = 10.0, 2.0
_DELETED_KEPT = 4096


class Store:
    """Objects by kind. `changed` is set when one changed."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        """Make an empty store for these kinds."""
        self.changed = threading.Event()
        self._lock = threading.Lock()
        self._objects: dict[Kind, dict[Key, Json]] = {kind: {} for kind in kinds}
        self._deleted: dict[tuple[Kind, Key], int] = {}
        self._installed_at = time.monotonic()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing was installed for a while."""
        return time.monotonic() - self._installed_at >= _QUIET_AFTER_S

    def view(self) -> ClusterView:
        """Return the currently known objects."""
        with self._lock:
            return ClusterView({kind: dict(items) for kind, items in self._objects.items()})

    def put(self, kind: Kind, item: Json) -> None:
        """Keep an object, unless a later version of it is known, it was deleted since, or its kind is not watched."""
        if kind not in self._objects:
            return
        item["metadata"].pop("managedFields", None)
        key, version = key_of(item), _version(item)
        with self._lock:
            known = self._objects[kind].get(key)
            if version <= max(_version(known) if known else -1, self._deleted.get((kind, key), -1)):
                return
            self._objects[kind][key] = item
            if kind == DEPLOYMENTS:
                self._installed_at = time.monotonic()
        self.changed.set()

    def remove(self, kind: Kind, item: Json) -> None:
        """Remove an object. A late response to an earlier write does not bring it back."""
        key, version = key_of(item), _version(item)
        with self._lock:
            known = self._objects[kind].get(key)
            if known and _version(known) <= version:
                del self._objects[kind][key]
            self._deleted[(kind, key)] = version
            while len(self._deleted) > _DELETED_KEPT:
                del self._deleted[next(iter(self._deleted))]
        self.changed.set()

    def replace(self, kind: Kind, items: Sequence[Json]) -> None:
        """Keep exactly these objects of a kind."""
        for item in items:
            item["metadata"].pop("managedFields", None)
        with self._lock:
            if not items and not self._objects[kind]:
                return
            self._objects[kind] = {key_of(item): item for item in items}
        self.changed.set()


class Served:
    """API groups that the server serves, queried once for all kinds that wait for their CRD."""

    def __init__(self, cluster: Cluster, store: Store) -> None:
        """Start without a query."""
        self._cluster, self._store = cluster, store
        self._lock = threading.Lock()
        self._asked_at = 0.0
        self._groups: frozenset[str] = frozenset()

    def groups(self) -> frozenset[str]:
        """Return the groups as they were at most half a second ago, or two if nothing is being installed.

        Raises:
            BringupError: the server does not respond.
        """
        with self._lock:
            if time.monotonic() - self._asked_at >= (_QUIET_AGAIN_S if self._store.is_quiet else _AGAIN_S):
                answer = self._cluster.transport.json("GET", "/apis")
                self._groups = frozenset(group["name"] for group in answer["groups"])
                self._asked_at = time.monotonic()
            return self._groups

    def wait(self, kind: Kind, stop: threading.Event) -> None:
        """Wait for the group of a kind that is not served.

        Raises:
            BringupError: the server does not respond.
        """
        if kind.group in self.groups():
            # Served for another kind of the group, or in another version.
            stop.wait(_AGAIN_S)
            return
        while not stop.wait(_AGAIN_S) and kind.group not in self.groups():
            continue


def _version(item: Json) -> int:
    return int(item["metadata"].get("resourceVersion") or 0)


def follow(cluster: Cluster, store: Store, kind: Kind, stop: threading.Event, served: Served) -> None:
    """List and watch a kind until `stop` is set. Retry while the server or the kind is missing."""
    while not stop.is_set():
        try:
            items, version = cluster.list_with_version(kind)
            store.replace(kind, items)
            _watch(cluster, store, kind, version, stop)
        except NotFoundError:
            store.replace(kind, [])
            try:
                served.wait(kind, stop)
            except BringupError as error:
                _report(kind, error, stop)
        except GoneError:
            continue
        except BringupError as error:
            _report(kind, error, stop)


def _report(kind: Kind, error: BringupError, stop: threading.Event) -> None:
    if not stop.is_set():
        print(f"watch {kind.title}: {error}", file=sys.stderr, flush=True)
    stop.wait(_AGAIN_S)


def _watch(cluster: Cluster, store: Store, kind: Kind, version: str, stop: threading.Event) -> None:
    """Watch the changes after a version. When the server ends a watch, start the next one at its last version."""
    while not stop.is_set():
        for event, item in cluster.watch(kind, Deadline.after(_WATCH_S), version=version):
            if stop.is_set():
                return
            version = item["metadata"]["resourceVersion"]
            if event == "DELETED":
                store.remove(kind, item)
            else:
                store.put(kind, item)


# Sends the controllers' writes to the API server.

_WORKERS = 8
_JSON = "application/json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


def apply_changes(cluster: Cluster, store: Store, changes: Sequence[Change]) -> bool:
    """Send the changes in parallel and store the responses. Return whether all of them succeeded."""
    return all(map_bounded(lambda change: _apply_one(cluster, store, change), list(changes), _WORKERS))


def _apply_one(cluster: Cluster, store: Store, change: Change) -> bool:
    try:
        _send(cluster, store, change)
    except (ConflictError, NotFoundError):
        # Another client wrote first. The next pass does what is left.
        return False
    except BringupError as error:
        print(
            f"{change.manager}: {change.verb} {change.kind.title} {change.name}: {error}", file=sys.stderr, flush=True
        )
        return False
    return True


def _send(cluster: Cluster, store: Store, change: Change) -> None:
    query = {"fieldManager": change.manager}
    path = change.kind.path(change.name, change.namespace, change.subresource)
    if change.verb == DELETE:
        cluster.delete(change.kind, change.name, change.namespace)
        return
    body = {"apiVersion": change.kind.api_version, "kind": change.kind.kind, **change.body}
    if change.verb == CREATE:
        collection = change.kind.path(namespace=change.namespace)
        answer = cluster.transport.json("POST", collection, query=query, body=body)
    elif change.verb == REPLACE:
        answer = cluster.transport.json("PUT", path, query=query, body=body)
    else:
        patch_type = _STRATEGIC if change.verb == STRATEGIC else _MERGE
        answer = cluster.transport.json("PATCH", path, query=query, body=change.body, content_type=patch_type)
    store.put(change.kind, answer)


KINDS = (
    NODES,
    PODS,
    DEPLOYMENTS,
    DAEMON_SETS,
    CLUSTER_POLICIES,
    NIC_CLUSTER_POLICIES,
    RUNTIME_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    VOLCANO_POD_GROUPS,
    KAI_POD_GROUPS,
    NATIVE_POD_GROUPS,
    VOLCANO_QUEUES,
    KAI_QUEUES,
    pod_ports.CLUSTER_EXECS,
    JOBS,
    mpi_operator.MPI_JOBS,
    compute_domains.COMPUTE_DOMAINS,
    compute_domains.CLAIM_TEMPLATES,
    pod_programs.LOGS,
    pod_ports.PORT_FORWARDS,
    *prometheus_operator.WATCHED,
    *prometheus_adapter.WATCHED,
    *kueue.WATCHED,
    *gateway.WATCHED,
    *karpenter.WATCHED,
    *slurm_operator.WATCHED,
    *kuberay.WATCHED,
)
Reconcile = Callable[[ClusterView, ClusterFacts], list[Change]]
_OF_BATCH: tuple[Reconcile, ...] = (
    volcano.reconcile,
    kai_scheduler.reconcile,
    kueue.reconcile,
    kuberay.reconcile,
)
# Changes come in bursts. One pass handles all that arrive within this time.
_SETTLE_S = 0.03
_SETTLE_PER_CHANGE_S = 0.002
# Pause between two passes as a multiple of the last one's duration, up to a limit.
_PASSES_APART, _APART_MOST_S = 3, 0.3
_MODEL_CHECK_S = 1.0
_REQUEST_LIMIT_S = 20.0
_PATIENCE_S = 5.0


@dataclass(slots=True)
class Options:
    """The command line of the process."""

    kubeconfig: str
    model: Path
    hosts: Path
    hardware: tuple[Path, ...] = ()
    full: Path | None = None


class ModelFile:
    """The model file. `facts` is its content at the last read."""

    def __init__(self, path: Path, hardware: tuple[Path, ...]) -> None:
        """Read it.

        Raises:
            BringupError: it cannot be read.
        """
        self._path, self._hardware = path, hardware
        self._stamp = self._read = file_version(path)
        self._published = ""
        self.facts = read_cluster_facts(path, hardware)

    def refresh(self) -> bool:
        """Read the file again if it changed. Return whether it did. A broken file leaves the facts unchanged."""
        stamp = file_version(self._path)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.facts = read_cluster_facts(self._path, self._hardware)
        except BringupError as error:
            print(f"model: {error}", file=sys.stderr, flush=True)
            return False
        self._read = stamp
        return True

    def publish_applied(self) -> None:
        """Write the version of the file that the last pass applied. Tests wait for it."""
        if self._published != self._read:
            write_atomic(applied_file(self._path), self._read)
            self._published = self._read


def parse_options(argv: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="controllers", description="Operators of a rehearsal cluster.")
    parser.add_argument("--kubeconfig", required=True, help="administrator of the rehearsal's API server")
    parser.add_argument("--model", required=True, type=Path, help="cluster model (YAML); read again when it changes")
    parser.add_argument("--hosts", type=Path, help="directory with <host>/bin (default: hosts beside the model)")
    parser.add_argument("--hardware", action="append", default=[], type=Path, help="more SKU facts (repeatable)")
    parser.add_argument("--full", type=Path, help="run what can run for real, with the sets installed below this")
    given = parser.parse_args(list(argv))
    hosts = given.hosts or given.model.parent / "hosts"
    return Options(given.kubeconfig, given.model, hosts.resolve(), tuple(given.hardware), given.full)


def run(options: Options, stop: threading.Event) -> None:
    """Reconcile until `stop` is set.

    Raises:
        BringupError: the model or the kubeconfig cannot be read at the start.
    """
    model = ModelFile(options.model, options.hardware)
    pod_ports.make_exec_shims(pod_ports.exec_shims(options.hosts.parent), options.hosts)
    cluster, store = Cluster(Connection(kubeconfig=options.kubeconfig), _REQUEST_LIMIT_S, _PATIENCE_S), Store(KINDS)
    served = Served(cluster, store)
    for kind in KINDS:
        threading.Thread(target=follow, args=(cluster, store, kind, stop, served), daemon=True).start()
    ports = pod_ports.PodPorts(pod_ports.backends_directory(options.hosts.parent))
    servers = llm_servers.LlmServers(options.hosts.parent, store.changed.set)
    runs = pod_programs.PodPrograms(
        options.hosts.parent / "workloads", store.changed.set, options.full, servers.ports, options.hosts
    )
    monitoring = prometheus_operator.PrometheusOperator(options.hosts.parent, store.changed.set)
    adapter = prometheus_adapter.PrometheusAdapter(options.hosts.parent)
    reconcilers: tuple[Reconcile, ...] = (
        lambda view, facts: gpu_operator.reconcile(view, with_added_nodes(view, facts)),
        driver_upgrade.reconcile,
        lambda view, facts: pod_faults.reconcile(view, with_added_nodes(view, facts)),
        dra_driver.reconcile,
        network_operator.reconcile,
        gateway.reconcile,
        compute_domains.reconcile,
        rdma_plugin.reconcile,
        operands.reconcile,
        site_hands.reconcile,
        *_OF_BATCH,
        lambda view, facts: pod_ports.reconcile(view, facts, options.hosts),
        slurm_operator.SlurmOperator(pod_ports.slurm_commands(options.hosts.parent)).reconcile,
        mpi_operator.reconcile,
        servers.reconcile,
        runs.reconcile,
        monitoring.reconcile,
        adapter.reconcile,
        karpenter.Karpenter().reconcile,
        cluster_autoscaler.ClusterAutoscaler().reconcile,
        ports.reconcile,
    )
    settle_s = _SETTLE_S
    while not stop.is_set():
        observed = store.changed.wait(_MODEL_CHECK_S)
        if not any((model.refresh(), ports.refresh(), observed)):
            continue
        stop.wait(settle_s)
        store.changed.clear()
        started = time.monotonic()
        view = store.view()
        changes = [change for reconcile in reconcilers for change in reconcile(view, model.facts)]
        settle_s = _pause_s(time.monotonic() - started, len(changes))
        if not apply_changes(cluster, store, changes):
            stop.wait(_MODEL_CHECK_S)
            store.changed.set()
        model.publish_applied()
    runs.stop()


def _pause_s(took_s: float, changes: int) -> float:
    """Return how long the next pass waits for more changes, from the duration and the number of writes of this one."""
    # On a large cluster, where pods start by the hundred, fewer and larger passes are faster.
    apart_s = max(took_s, min(_PASSES_APART * took_s, _APART_MOST_S))
    return max(_SETTLE_S, apart_s, min(_SETTLE_PER_CHANGE_S * changes, 1.0))


def main(argv: Sequence[str]) -> int:
    """Run the controllers until SIGTERM or SIGINT. Return the exit code."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        run(parse_options(argv), stop)
    except BringupError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    return 0
