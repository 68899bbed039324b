# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe whether ranks of one Job find and reach each other: one Job over the hosts of each SKU.

Its pods get the same network as those of NCCL: resources or claims for adapters, annotations, the network of the host
if the site configures it. They get no GPU.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...hardware.sku import Sku, sku_or_error
from ...outcome.errors import InputError
from ...runtime.files import RECIPES
from ...site.model import Host
from ...workload.capacity import CLASS_PREFIX, NodeCapacity
from ...workload.job import CONFIG_DIR, JobResult, JobSpec
from ...workload.manifests import ACCESS
from ...workload.namespace import job_permissions
from ..benchmark.network import connected_placement, pod_network, read_network
from ..benchmark.plan import planned_hosts
from ..benchmark.records import ended
from ..benchmark.run_loop import Benchmark
from ..benchmark.saved_observer import benchmark_observer
from ..spec import ObserveContext
from .network import network_settings
from .rank_model import (
    CHECK_ID,
    NetworkingSettings,
    Plan,
    RankHost,
    Record,
    Results,
    Run,
    SavedObservation,
    read_run,
)
from .settings import GATE, FabricValidationSettings

PROGRAM = RECIPES / "workloads" / "networking" / "ranks.py"
_ATTEMPTS = 2
# Where pods are given further networks: the annotation of Multus (k8snetworkplumbingwg/multus-cni, docs/how-to-use.md),
# and that of GKE ("Set up multi-network support for Pods"), which also lists the first interface.
_MULTUS, _GKE = "k8s.v1.cni.cncf.io/networks", "networking.gke.io/interfaces"


class RanksBenchmark(Benchmark[Plan, tuple[str, int], Run]):
    """One Job over all hosts of a SKU; SKUs run side by side. A run is identified by SKU and attempt."""

    gate = GATE
    name = "ranks"

    def __init__(self, context: ObserveContext, settings: NetworkingSettings) -> None:
        self.settings = settings
        self.stated = context.settings_of(GATE, FabricValidationSettings)
        self.network = network_settings(self.stated)
        total_s = _ATTEMPTS * (settings.pull_s + settings.timeout_s + self.stated.run.schedule_s)
        super().__init__(context, total_s=total_s, cleanup_s=self.stated.run.cleanup_s)

    def make_plan(self, cluster: Cluster) -> Plan:
        """Return the hosts with the adapters for their pods."""
        network = read_network(cluster, self.context, self.network)

        def planned(host: Host, sku: Sku, capacity: NodeCapacity) -> RankHost:
            devices = tuple(port.partition(":")[0] for port in network.ports(host, sku))
            return RankHost(**connected_placement(network, host, sku, capacity), devices=devices)

        hosts = planned_hosts(cluster, self.context, planned)
        skus = {host.sku for host in hosts}
        given = max((further_networks(self._annotations(sku)) for sku in skus), default=0)
        return Plan(hosts=hosts, settings=self.settings, resource=network.resource, networks=given)

    def permissions(self) -> tuple[Permission, ...]:
        by_claims = any(name.startswith(CLASS_PREFIX) for host in self.plan.open_hosts for name in host.asks)
        return job_permissions("ranks", by_dra=by_claims)

    def next_runs(self) -> list[tuple[str, int]]:
        """Return the SKUs that were not run, and those to repeat because their run failed for a temporary reason."""
        results, wanted = Results(plan=self.plan, runs=tuple(self.runs)), []
        for sku in self.plan.skus:
            last = results.last(sku)
            attempt = last.record.attempt + 1 if last else 1
            again = last is None or (last.problem is not None and last.problem.transient and attempt <= _ATTEMPTS)
            if again and len(self.plan.together(sku)) > 1:
                wanted.append((sku, attempt))
        return wanted

    def announce(self, wanted: Sequence[tuple[str, int]]) -> str:
        return f"job networking: {sum(len(self.plan.together(sku)) for sku, _attempt in wanted)} ranks"

    def job(self, want: tuple[str, int]) -> JobSpec:
        """Return one Job over the hosts of a SKU."""
        sku, attempt = want
        hosts, settings = self.plan.together(sku), self.settings
        network = pod_network(hosts, self.network, gang="none", fabric=self._fabric(sku).fabric)
        name = f"ranks-{self.plan.skus.index(sku) + 1}-{attempt}"
        devices = self._devices(hosts) if network["host_network"] else []
        words = {
            "ranks": len(hosts), "name": f"{name}-{{}}.{ACCESS}", "port": settings.port, "peers": settings.peers,
            "meet-s": settings.meet_s, "wait-s": settings.timeout_s / 2, "devices": ",".join(devices),
        }  # fmt: skip
        return JobSpec(
            name=name,
            nodes=tuple(host.node for host in hosts),
            gpus_per_node=0,
            image=settings.image,
            command=("python3", f"{CONFIG_DIR}/{PROGRAM.name}", *(f"--{key}={value}" for key, value in words.items())),
            kind="ranks",
            timeout_s=settings.timeout_s,
            pull_s=settings.pull_s,
            schedule_s=self.stated.run.schedule_s,
            files={PROGRAM.name: PROGRAM.read_text(encoding="utf-8")},
            gang="none",
            limits=network["limits"],
            annotations=network["annotations"],
            privileged=network["privileged"],
            host_network=network["host_network"],
        )

    def read(self, want: tuple[str, int], spec: JobSpec, result: JobResult) -> Run:
        """Save the logs of all pods, one after the other, and return the run."""
        owners = {host.node: host.name for host in self.plan.together(want[0])}
        pods = [pod for pod in result.pods if pod.node in owners]
        text = "".join(f"pod {pod.index} of {owners[pod.node]}\n{pod.log.rstrip()}\n" for pod in pods)
        kept = self.evidence.keep(f"{spec.name}.log", text)
        record = Record(
            **ended(result, spec.command), name=spec.name, sku=want[0], hosts=tuple(owners.values()), attempt=want[1],
            places={owners[pod.node]: pod.index for pod in pods}, log=kept.path,
        )  # fmt: skip
        return read_run(record, kept.text, self.settings)

    def _devices(self, hosts: Sequence[RankHost]) -> list[str]:
        """Return the adapters that all of these hosts have, since all pods run the same command."""
        common = set(hosts[0].devices).intersection(*(host.devices for host in hosts[1:]))
        return sorted(common) or ["none"]

    def _fabric(self, sku: str) -> Sku:
        return sku_or_error(self.context.hardware, sku)

    def _annotations(self, sku: str) -> Mapping[str, str]:
        needs = self.network.pods.get(self._fabric(sku).fabric)
        return {**(needs.annotations if needs else {}), **self.network.annotations}


def further_networks(annotations: Mapping[str, str]) -> int:
    """Return how many networks in addition to the first one these annotations give a pod."""
    multus, gke = annotations.get(_MULTUS, "").strip(), annotations.get(_GKE, "").strip()
    if multus.startswith("["):
        return _entries(multus, _MULTUS)
    if multus:
        return len([name for name in multus.split(",") if name.strip()])
    return max(0, _entries(gke, _GKE) - 1) if gke else 0


def _entries(text: str, name: str) -> int:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise InputError(f"annotation {name}", "is no list.", f"correct annotations (settings of {GATE})")
    return len(found)


def _require_hosts(saved: SavedObservation) -> None:
    """Refuse runs whose hosts are not in the plan, or with two pods of the same rank.

    Raises:
        InputError: such a run.
    """
    for record in saved.records:
        planned = {host.name for host in saved.plan.hosts_of(record.sku)}
        strange = {*record.hosts, *record.places} - (planned & set(record.hosts))
        if strange or len(set(record.places.values())) != len(record.places) or len(set(record.hosts)) < 2:
            found = f"run {record.name} has the hosts {', '.join(record.hosts) or 'none'}"
            raise InputError("observation ranks", f"{found}, which plan and pods do not say.", "run the gate again")


OBSERVER = benchmark_observer(
    "ranks",
    Results,
    saved=SavedObservation,
    make=lambda context: RanksBenchmark(context, context.settings_of(CHECK_ID, NetworkingSettings)),
    settings=(CHECK_ID, NetworkingSettings),
    run_of=read_run,
    require=_require_hosts,
)
