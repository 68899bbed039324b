# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes NCCL: runs nccl-tests on each host, on pairs and on all, one step after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...hardware.sku import Sku, sku_or_error
from ...outcome.codec import from_plain
from ...outcome.errors import InputError
from ...site.model import Host, Site
from ...workload.capacity import NodeCapacity
from ...workload.model import JobResult, JobSpec
from ..benchmark.network import (
    FILTERED_FABRICS,
    connected_placement,
    gang_permissions,
    pod_network,
    port_filter,
    read_network,
)
from ..benchmark.plan import device_class, placement, planned_hosts
from ..benchmark.records import ended, kept_text, require_planned
from ..benchmark.run_loop import Benchmark
from ..kit.saved_settings import with_plan_settings
from ..spec import ObserveContext, Observer
from .model import (
    ADAPTER_PHASES,
    Phase,
    Plan,
    PlannedHost,
    Record,
    Results,
    Run,
    SavedObservation,
    Wanted,
)
from .network import network_settings
from .parse_run import parse_run
from .run_plan import next_runs
from .settings import GATE, FabricValidationSettings

_SUBSYSTEMS = "INIT,ENV,NET,GRAPH,TUNING"
# The slowest rank's time counts: the mean over all communicators would hide one slow adapter among eight.
_SLOWEST = ("-a", "3")
# Hosts for which the setting total_s is stated.
_HOSTS_OF_TOTAL = 1000
# Hosts of a run, where its phase says how many they are.
_HOSTS = {"node": 1, "loop": 1, "pair": 2, "adapters": 2, "rail": 2}
_PHASES = {
    "node": "hosts by themselves",
    "pair": "pairs",
    "adapters": "pairs over adapters alone",
    "rail": "single adapters",
    "loop": "single adapters of one host",
    "all": "all hosts",
}


def observe(context: ObserveContext) -> SavedObservation:
    """Run nccl-tests and return all runs; logs are kept as evidence.

    Raises:
        InputError: invalid settings, a SKU without facts.
        BringupError: see Benchmark.observe.
    """
    found = NcclBenchmark(context, context.settings_of(GATE, FabricValidationSettings)).observe()
    records = tuple(run.record for run in found.runs)
    return SavedObservation(plan=found.plan, records=records, made=len(records), leftovers=found.leftovers)


def restore(data: Any, run_dir: Path, site: Site) -> Results:
    """Return plan and runs, the logs parsed again."""
    complete = with_plan_settings(data, FabricValidationSettings, GATE, site, run_dir)
    saved = from_plain(SavedObservation, complete, "observation nccl")
    require_planned(saved.plan.hosts, site, "observation nccl")
    saved.require_all("observation nccl")
    planned = frozenset(host.name for host in saved.plan.hosts)
    for record in saved.records:
        _require_hosts(record, planned)
    runs = tuple(parse_run(record, kept_text(run_dir, record.log), saved.plan.settings) for record in saved.records)
    return Results(plan=saved.plan, runs=runs, leftovers=saved.leftovers)


def _require_hosts(record: Record, planned: frozenset[str]) -> None:
    """Refuse a run whose hosts are not planned ones, not as many as such a run has, or not those of its pods.

    Raises:
        InputError: it is one of these.
    """
    wanted = _HOSTS.get(record.phase, len(record.hosts))
    strange = {*record.hosts, *record.hostnames.values()} - {name for name in record.hosts if name in planned}
    if strange or len(set(record.hosts)) != wanted or not record.hosts:
        found = f"run {record.name} ({record.phase}) has the hosts {', '.join(record.hosts) or 'none'}"
        raise InputError("observation nccl", f"{found}, which its plan and its pods do not say.", "run the gate again")


def adapter_environment(phase: Phase, sku: Sku) -> dict[str, str]:
    """Return what keeps data on the adapters in a run that measures them.

    Pairs are split into communicators with one GPU of each host; NCCL_TESTS_SPLIT_MASK is the name that releases of
    nccl-tests before NCCL_TESTS_SPLIT know, for a power of two. A host by itself leaves NVLink and shared memory alone.
    In a rack-wide domain NVLink between hosts is switched off (NCCL_MNNVL_ENABLE).
    """
    if phase not in ADAPTER_PHASES:
        return {}
    found = {"NCCL_MNNVL_ENABLE": "0"} if sku.nvlink_domain == "rack" else {}
    if phase == "adapters":
        found["NCCL_TESTS_SPLIT"] = f"MOD {sku.gpus}"
        if sku.gpus & (sku.gpus - 1) == 0:
            found["NCCL_TESTS_SPLIT_MASK"] = f"0x{sku.gpus - 1:x}"
    if phase == "loop":
        found |= {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
    return found


class NcclBenchmark(Benchmark[Plan, Wanted, Run]):
    """nccl-tests over hosts by themselves, pairs, single adapters and all hosts."""

    gate = GATE
    name = "nccl"

    def __init__(self, context: ObserveContext, settings: FabricValidationSettings) -> None:
        # Hosts and pairs are run so many at a time, so the runs of a larger fleet take as much longer.
        total_s = settings.run.total_s * max(1.0, len(context.site.in_scope) / _HOSTS_OF_TOTAL)
        super().__init__(context, total_s=total_s, cleanup_s=settings.run.cleanup_s)
        self.settings = settings
        self._serial = count(1)

    def make_plan(self, cluster: Cluster) -> Plan:
        """Look at the nodes: free GPUs, adapters for pods."""
        network = read_network(cluster, self.context, network_settings(self.settings))
        # A host by itself needs no network.
        several = len(self.context.site.in_scope) > 1
        place = partial(connected_placement, network) if several else placement

        def planned(host: Host, sku: Sku, capacity: NodeCapacity) -> PlannedHost:
            return PlannedHost(
                **place(host, sku, capacity),
                rack=host.rack,
                hcas=network.ports(host, sku),
                leaves=network.leaves(host),
                rdma_offered=network.offered(host),
            )

        hosts = planned_hosts(cluster, self.context, planned)
        return Plan(
            hosts=hosts, settings=self.settings, rdma_resource=network.resource, gang=network.gang, adapter_runs=True
        )

    def permissions(self) -> tuple[Permission, ...]:
        return gang_permissions(self.settings.run.kind, self.plan.open_hosts, self.plan.gang)

    def next_runs(self) -> tuple[Wanted, ...]:
        return next_runs(Results(plan=self.plan, runs=tuple(self.runs)), self.context.hardware)

    def parallel(self, wanted: Sequence[Wanted]) -> int:
        return self.settings.run.parallel

    def job(self, want: Wanted) -> JobSpec:
        """One all_reduce_perf over the hosts of a run."""
        run, hosts = self.settings.run, [self.plan.host(name) for name in want.hosts]
        known = self.settings.images[self._sku(want).fabric]
        sizes = ("-b", str(self._smallest(want)), "-e", str(run.largest), "-f", str(run.factor))
        command = (run.program or known.program, *sizes, "-g", "1")
        stated = network_settings(self.settings)
        looped, fabric = want.phase == "loop", self._sku(want).fabric
        network = pod_network(hosts, stated, gang=self.plan.gang, fabric=fabric, alone_with_adapters=looped)
        return JobSpec(
            name=f"{want.phase}-{next(self._serial)}",
            nodes=tuple(host.node for host in hosts),
            gpus_per_node=self._sku(want).gpus,
            image=run.image or known.image,
            command=(*command, *_SLOWEST) if want.phase == "adapters" else command,
            env=self._environment(want, network["needs"].env),
            kind=run.kind,
            timeout_s=run.timeout_s,
            pull_s=run.pull_s,
            schedule_s=run.schedule_s,
            queue=run.queue,
            device_class=device_class(*hosts),
            **network,
        )

    def read(self, want: Wanted, spec: JobSpec, result: JobResult) -> Run:
        """Keep the log of the launcher, which has the output of every rank."""
        owners = {self.plan.host(name).node: name for name in want.hosts}
        kept = self.evidence.keep(f"{spec.name}.log", result.log)
        record = Record(
            **ended(result, spec.command),
            name=spec.name,
            phase=want.phase,
            hosts=want.hosts,
            attempt=want.attempt,
            rail=want.rail,
            exit_code=result.exit_code,
            hostnames={pod.hostname: owners[pod.node] for pod in result.pods if pod.node in owners},
            hcas=self._ports(want),
            smallest=self._smallest(want),
            ranks=spec.ranks,
            log=kept.path,
        )
        return parse_run(record, kept.text, self.settings)

    def announce(self, wanted: Sequence[Wanted]) -> str:
        counts = Counter(want.phase for want in wanted)
        again = " again" if all(want.attempt > 1 for want in wanted) else ""
        return "nccl-tests: " + ", ".join(f"{count} x {_PHASES[phase]}" for phase, count in counts.items()) + again

    def _environment(self, want: Wanted, needed: Mapping[str, str]) -> dict[str, str]:
        # Its own file for NCCL's lines: on the same stream as the table they can end up in the middle of a row.
        lines = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": _SUBSYSTEMS, "NCCL_DEBUG_FILE": "/dev/stderr"}
        ports = port_filter(port for ports in self._ports(want).values() for port in ports)
        phase = adapter_environment(want.phase, self._sku(want))
        return {**needed, **lines, **ports, **phase, **self.settings.run.env}

    def _ports(self, want: Wanted) -> dict[str, tuple[str, ...]]:
        if want.phase == "node" or self._sku(want).fabric not in FILTERED_FABRICS:
            return {}
        ports = {name: self.plan.host(name).hcas for name in want.hosts}
        return ports if want.rail is None else {name: (all_of[want.rail],) for name, all_of in ports.items()}

    def _sku(self, want: Wanted) -> Sku:
        return sku_or_error(self.context.hardware, self.plan.host(want.hosts[0]).sku)

    def _smallest(self, want: Wanted) -> int:
        return self.settings.run.rail_smallest if want.phase in ADAPTER_PHASES else self.settings.run.smallest


OBSERVER = Observer("nccl", Results, observe, restore, saved=SavedObservation)
