# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run of nccl-tests as a job: its plan, and the record of how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ...clients.kube.cluster import Cluster
from ...hardware.sku import Sku, sku_or_error
from ...site.model import Host
from ...workload.capacity import NodeCapacity
from ...workload.job import JobResult, JobSpec
from ...workload.node_use import NodeUse
from ..benchmark.network import (
    FILTERED_FABRICS,
    KNOW_ADAPTERS,
    Network,
    connected_placement,
    hosts_network,
    pod_network,
    port_filter,
    read_network,
)
from ..benchmark.plan import device_class, placement, planned_hosts
from ..benchmark.records import ended
from ..benchmark.slurm import closed_by
from ..spec import ObserveContext
from .model import ADAPTER_PHASES, Phase, Plan, PlannedHost, Record, Wanted
from .network import network_settings
from .settings import FabricValidationSettings

_SUBSYSTEMS = "INIT,ENV,NET,GRAPH,TUNING"
# `-a 3` reports the time of the slowest rank. The mean over all communicators would hide one slow adapter of eight.
_SLOWEST = ("-a", "3")


def plan_nccl(
    cluster: Cluster, context: ObserveContext, settings: FabricValidationSettings, *, connected: bool
) -> Plan:
    """Return the hosts with their free GPUs, and adapters for their pods.

    Args:
        cluster: the cluster.
        context: the site.
        settings: those of the gate.
        connected: runs need the network. A host whose adapters are not known is then closed.

    Raises:
        InputError: the cabling plan or the configured device class cannot be used.
        BringupError: the API server does not respond.
    """
    network = read_network(cluster, context, network_settings(settings))
    place = partial(connected_placement, network) if connected else placement

    def planned(host: Host, sku: Sku, capacity: NodeCapacity) -> PlannedHost:
        return PlannedHost(
            **place(host, sku, capacity),
            rack=host.rack,
            hcas=network.ports(host, sku),
            leaves=network.leaves(host),
            rdma_offered=network.offered(host),
        )

    hosts = planned_hosts(cluster, context, planned)
    return Plan(hosts=hosts, settings=settings, rdma_resource=network.resource, gang=network.gang, adapter_runs=True)


def plan_on_hosts(
    context: ObserveContext,
    settings: FabricValidationSettings,
    uses: Mapping[str, NodeUse] | None = None,
    *,
    connected: bool = False,
) -> Plan:
    """Return the plan for jobs that are not pods: they see every adapter of their host, and use those for GPU traffic.

    Args:
        context: the site.
        settings: those of the gate.
        uses: by host, what occupies its node now. None: the caller knows that it is free.
        connected: see plan_nccl.

    Raises:
        InputError: the cabling plan cannot be used.
    """
    network = hosts_network(context, network_settings(settings))
    hosts = {}
    for host in context.site.in_scope:
        sku = sku_or_error(context.hardware, host.sku)
        ports, leaves = network.ports(host, sku), network.leaves(host)
        closed = closed_by(uses, host.name, host.node) if uses is not None else ""
        if connected and not closed:
            closed = _not_connected(network, host, sku)
        hosts[host.name] = PlannedHost(
            name=host.name, node=host.node, sku=host.sku, rack=host.rack, hcas=ports, leaves=leaves,
            closed=closed,
            # Where no filter selects adapters, jobs have all of them.
            rdma_offered=len(ports) or max(sku.compute_hcas, sku.nics, 1),
        )  # fmt: skip
    found = tuple(hosts.values())
    return Plan(hosts=found, settings=settings, rdma_resource=network.resource, gang=network.gang, adapter_runs=True)


def _not_connected(network: Network, host: Host, sku: Sku) -> str:
    """Return why a job on a host cannot use its adapters to reach others. Empty: it can."""
    needs = network.settings.pods.get(sku.fabric)
    if needs is not None and needs.sidecar is not None:
        return f"fabric {sku.fabric} needs the program {needs.sidecar.name} beside the ranks, which jobs of Slurm lack"
    unknown = network.no_ports(host, sku)
    return f"{unknown}; {KNOW_ADAPTERS}" if unknown else ""


def adapter_environment(phase: Phase, sku: Sku) -> dict[str, str]:
    """Return the environment that keeps data on the adapters in a run that measures them.

    Pairs are split into communicators with one GPU of each host. NCCL_TESTS_SPLIT_MASK is the variable of releases of
    nccl-tests before NCCL_TESTS_SPLIT, and only works for a power of two. For a host by itself NVLink and shared memory
    are disabled. In a rack-wide domain NVLink between hosts is switched off (NCCL_MNNVL_ENABLE).
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


@dataclass(frozen=True, slots=True)
class NcclJobs:
    """The jobs of a plan. `hardware` has the facts of every SKU. `sharp`: all hosts together must use SHARP."""

    plan: Plan
    hardware: Mapping[str, Sku]
    sharp: bool = False

    def job(self, name: str, want: Wanted) -> JobSpec:
        """Return the job with this name: one all_reduce_perf over the hosts of a run."""
        run, hosts = self.plan.settings.run, [self.plan.host(name) for name in want.hosts]
        known = self.plan.settings.images[self.sku(want).fabric]
        sizes = ("-b", str(self._smallest(want)), "-e", str(self._largest(want)), "-f", str(run.factor))
        command = (run.program or known.program, *sizes, "-g", "1")
        configured = network_settings(self.plan.settings)
        looped, fabric = want.phase == "loop", self.sku(want).fabric
        network = pod_network(hosts, configured, gang=self.plan.gang, fabric=fabric, alone_with_adapters=looped)
        return JobSpec(
            name=name,
            nodes=tuple(host.node for host in hosts),
            gpus_per_node=self.sku(want).gpus,
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

    def record(self, want: Wanted, spec: JobSpec, result: JobResult, log: str = "") -> Record:
        """Return the record of a run. `log` is the path of its launcher's output; empty: it was not saved."""
        owners = {self.plan.host(name).node: name for name in want.hosts}
        return Record(
            **ended(result, spec.command),
            name=spec.name,
            phase=want.phase,
            hosts=want.hosts,
            attempt=want.attempt,
            rail=want.rail,
            exit_code=result.exit_code,
            hostnames={pod.hostname: owners[pod.node] for pod in result.pods if pod.hostname and pod.node in owners},
            hcas=self._ports(want),
            smallest=self._smallest(want),
            ranks=spec.ranks,
            log=log,
        )

    def sku(self, want: Wanted) -> Sku:
        """Return the SKU of the hosts of a run."""
        return sku_or_error(self.hardware, self.plan.host(want.hosts[0]).sku)

    def _environment(self, want: Wanted, needed: Mapping[str, str]) -> dict[str, str]:
        # A separate file for NCCL's lines: on the same stream as the table they can end up in the middle of a row.
        lines = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": _SUBSYSTEMS, "NCCL_DEBUG_FILE": "/dev/stderr"}
        ports = port_filter(port for ports in self._ports(want).values() for port in ports)
        phase = adapter_environment(want.phase, self.sku(want))
        reduced = {"NCCL_COLLNET_ENABLE": "1"} if self._wants_sharp(want) else {}
        return {**needed, **lines, **ports, **phase, **reduced, **self.plan.settings.run.env}

    def _wants_sharp(self, want: Wanted) -> bool:
        """Return whether a run must use SHARP: that of all hosts of a SKU, which is their pair if there are two."""
        alike = sum(host.sku == self.plan.host(want.hosts[0]).sku for host in self.plan.hosts)
        whole = want.phase == "all" or (want.phase == "pair" and alike == len(want.hosts))
        return whole and self.sharp and self.sku(want).fabric == "infiniband"

    def _ports(self, want: Wanted) -> dict[str, tuple[str, ...]]:
        if want.phase == "node" or self.sku(want).fabric not in FILTERED_FABRICS:
            return {}
        ports = {name: self.plan.host(name).hcas for name in want.hosts}
        return ports if want.rail is None else {name: (all_of[want.rail],) for name, all_of in ports.items()}

    def _smallest(self, want: Wanted) -> int:
        return self.plan.settings.run.rail_smallest if want.phase in ADAPTER_PHASES else self.plan.settings.run.smallest

    def _largest(self, want: Wanted) -> int:
        sku = self.sku(want)
        return self.plan.settings.run.largest_for(len(want.hosts) * sku.gpus, sku.gpu_memory_mib)
