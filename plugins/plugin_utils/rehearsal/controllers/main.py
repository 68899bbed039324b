# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The loop of the simulated operators: read the cluster, write what is missing, wait for a change."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import Connection
from ...clients.kube.kinds import (
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
)
from ...outcome.errors import BringupError
from ...runtime.files import write_atomic
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
    node_memory,
    pod_commands,
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
from .cluster_facts import ClusterFacts, read_cluster_facts
from .cluster_view import Change, ClusterView
from .store import Served, Store, follow
from .writer import apply_changes

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
    pod_commands.CLUSTER_EXECS,
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
# Changes come in bursts; one pass handles all that come within this time.
_SETTLE_S = 0.03
_SETTLE_PER_CHANGE_S = 0.002
# So many times what one pass took lie between two, unless it took long for once.
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
    """The model file; `facts` is its content when it was last read."""

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
        """Read the file again if it changed; return whether it did. A broken file leaves the facts as they were."""
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
        """Write down which version of the file the last pass applied; tests wait for it."""
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
    pod_commands.make_exec_shims(pod_commands.exec_shims(options.hosts.parent), options.hosts)
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
        node_memory.reconcile,
        site_hands.reconcile,
        *_OF_BATCH,
        lambda view, facts: pod_commands.reconcile(view, facts, options.hosts),
        slurm_operator.SlurmOperator(pod_commands.slurm_commands(options.hosts.parent)).reconcile,
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
        seen = store.changed.wait(_MODEL_CHECK_S)
        if not any((model.refresh(), ports.refresh(), seen)):
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
    """Return how long the next pass waits for more after the first change, from what this one took and wrote."""
    # On a large cluster, where pods start by the hundred, fewer and larger passes are faster.
    apart_s = max(took_s, min(_PASSES_APART * took_s, _APART_MOST_S))
    return max(_SETTLE_S, apart_s, min(_SETTLE_PER_CHANGE_S * changes, 1.0))


def main(argv: Sequence[str]) -> int:
    """Run the controllers until SIGTERM or SIGINT; return the exit code."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    try:
        run(parse_options(argv), stop)
    except BringupError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    return 0
