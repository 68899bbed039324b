# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes NCCL: runs nccl-tests on each host, on pairs and on all, one step after the other, and keeps every log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.connection import connection_from
from ...component_stack.facts import stack_facts
from ...hardware.sku import Sku, sku_or_error
from ...outcome.codec import from_plain
from ...runtime.clock import Deadline
from ...runtime.files import write_atomic
from ...runtime.progress import Progress
from ...runtime.redaction import redact
from ...site.cabling import CablingPlan, site_cabling
from ...site.model import Host, Site
from ...workload.capacity import NodeCapacity, read_node_capacity
from ...workload.launch import JobResult, JobSpec, job_namespace, run_jobs
from ...workload.namespace import TemporaryNamespace
from ..spec import ObserveContext, Observer
from .adapters import ports_of
from .model import Plan, PlannedHost, Record, Results, Run, SavedObservation, Wanted
from .network import adapter_offers, adapter_resource, gang_of
from .parse_run import read_run
from .rules import GATE, Rules, load_rules
from .run_plan import next_runs

_FILTERED = ("infiniband", "roce")
_SUBSYSTEMS = "INIT,ENV,NET,GRAPH,TUNING"


def observe(context: ObserveContext) -> SavedObservation:
    """Run what is to be run and return all of it; logs are kept as evidence.

    Raises:
        InputError: settings that are none, a SKU without facts.
        BringupError: the API server does not answer, or refuses the runs' namespace.
    """
    rules = load_rules(context.site.settings.get(GATE, {}))
    with Cluster(connection_from(context.connections)) as cluster:
        plan = _plan(cluster, context, rules)
        if all(host.closed for host in plan.hosts):
            return SavedObservation(plan=plan)
        pods = stack_facts().test_pods
        with job_namespace(
            cluster,
            "nccl",
            prefix=pods.namespace_prefix,
            priority=pods.priority,
            cleanup_s=rules.run.cleanup_s,
            emit=context.emit,
        ) as space:
            bench = _Bench(cluster, space, context, plan)
            bench.run()
        return SavedObservation(
            plan=plan, records=tuple(run.record for run in bench.runs), leftovers=tuple(space.leftovers)
        )


def restore(data: Any, run_dir: Path, _site: Site) -> Results:
    """Return plan and runs, the logs read again."""
    saved = from_plain(SavedObservation, data, "observation nccl")
    runs = tuple(read_run(record, _text(run_dir, record), saved.plan.rules) for record in saved.records)
    return Results(plan=saved.plan, runs=runs, leftovers=saved.leftovers)


def _text(run_dir: Path, record: Record) -> str:
    path = run_dir / record.log
    return path.read_text(encoding="utf-8", errors="replace") if record.log and path.is_file() else ""


def _plan(cluster: Cluster, context: ObserveContext, rules: Rules) -> Plan:
    hosts = context.site.in_scope
    names = {host.node_name for host in hosts}
    rooms = read_node_capacity(cluster, names)
    offers = adapter_offers(cluster, names, rules)
    resource = adapter_resource(offers, rules)
    cabling = site_cabling(context.site, context.hardware)
    planned = [
        _planned(host, context, rules, cabling, rooms[host.node_name], offers.get(host.node_name, {}).get(resource, 0))
        for host in hosts
    ]
    return Plan(hosts=tuple(planned), rules=rules, rdma_resource=resource, gang=gang_of(context))


def _planned(
    host: Host,
    context: ObserveContext,
    rules: Rules,
    cabling: CablingPlan | None,
    room: NodeCapacity,
    rdma_offered: int,
) -> PlannedHost:
    sku, closed = sku_or_error(context.hardware, host.sku), room.closed
    if not closed and room.free < sku.gpus:
        closed = f"{room.free} of {sku.gpus} GPUs are free on {room.name}"
    return PlannedHost(
        name=host.name,
        node=host.node_name,
        sku=host.sku,
        rack=host.rack,
        hcas=ports_of(host.name, sku, cabling, rules),
        rdma_offered=rdma_offered,
        closed=closed,
        by_dra=room.by_dra,
    )


@dataclass(slots=True)
class _Bench:
    """Makes runs until nothing is left to be known."""

    cluster: Cluster
    space: TemporaryNamespace
    context: ObserveContext
    plan: Plan
    runs: list[Run] = field(default_factory=list)
    serial: int = 0

    def run(self) -> None:
        """Make all runs, step by step."""
        deadline = Deadline.after(self.plan.rules.run.total_s)
        progress = Progress(self.context.emit)
        while wanted := next_runs(Results(plan=self.plan, runs=tuple(self.runs)), self.context.hardware):
            progress.say(_words(wanted))
            specs = [self._spec(want) for want in wanted]
            results = run_jobs(self.cluster, self.space, specs, self.plan.rules.run.parallel, progress, deadline)
            for want, spec, result in zip(wanted, specs, results, strict=True):
                self._keep(want, spec, result)

    def _spec(self, want: Wanted) -> JobSpec:
        self.serial += 1
        run, between = self.plan.rules.run, want.phase != "node"
        hosts = [self.plan.host(name) for name in want.hosts]
        sku = self.context.hardware[hosts[0].sku]
        sizes = ("-b", str(_smallest(want, run.smallest, run.rail_smallest)), "-e", str(run.largest))
        return JobSpec(
            name=f"{want.phase}-{self.serial}",
            nodes=tuple(host.node for host in hosts),
            gpus_per_node=sku.gpus,
            image=run.image,
            command=(run.program, *sizes, "-f", str(run.factor), "-g", "1"),
            env=self._environment(want, sku),
            kind=run.kind,
            timeout_s=run.timeout_s,
            schedule_s=run.schedule_s,
            gang=self.plan.gang if between else "none",
            queue=run.queue,
            rdma_resource=self.plan.rdma_resource if between else "",
            rdma_count=run.rdma_count,
            device_class=stack_facts().dra.device_class if any(host.by_dra for host in hosts) else "",
            annotations=run.annotations if between else {},
        )

    def _environment(self, want: Wanted, sku: Sku) -> dict[str, str]:
        # Its own file for NCCL's lines: on the same stream as the table they can end up in the middle of a row.
        lines = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": _SUBSYSTEMS, "NCCL_DEBUG_FILE": "/dev/stderr"}
        ports = dict.fromkeys(port for ports in self._ports(want, sku).values() for port in ports)
        only = {"NCCL_IB_HCA": "=" + ",".join(ports)} if ports else {}
        return {**lines, **only, **self.plan.rules.run.env}

    def _ports(self, want: Wanted, sku: Sku) -> dict[str, tuple[str, ...]]:
        if want.phase == "node" or sku.fabric not in _FILTERED:
            return {}
        ports = {name: self.plan.host(name).hcas for name in want.hosts}
        return ports if want.rail is None else {name: (all_of[want.rail],) for name, all_of in ports.items()}

    def _keep(self, want: Wanted, spec: JobSpec, result: JobResult) -> None:
        owners = {self.plan.host(name).node: name for name in want.hosts}
        log = redact(result.log)
        record = Record(
            name=spec.name,
            phase=want.phase,
            hosts=want.hosts,
            attempt=want.attempt,
            rail=want.rail,
            state=result.state,
            reason=redact(result.reason)[:500],
            exit_code=result.launcher.exit_code if result.launcher else None,
            hostnames={pod.hostname: owners[pod.node] for pod in result.pods if pod.node in owners},
            hcas=self._ports(want, self.context.hardware[self.plan.host(want.hosts[0]).sku]),
            command=spec.command,
            smallest=_smallest(want, self.plan.rules.run.smallest, self.plan.rules.run.rail_smallest),
            ranks=spec.ranks,
            started=result.started,
            duration_s=result.duration_s,
        )
        if log.strip():
            record = replace(record, log=f"evidence/{GATE}/{spec.name}.log")
            write_atomic(self.context.run_dir / record.log, log)
        self.runs.append(read_run(record, log, self.plan.rules))


def _smallest(want: Wanted, smallest: int, rail_smallest: int) -> int:
    return rail_smallest if want.phase == "rail" else smallest


def _words(wanted: tuple[Wanted, ...]) -> str:
    what = {"node": "hosts by themselves", "pair": "pairs", "rail": "single adapters", "all": "all hosts"}
    counts = Counter(want.phase for want in wanted)
    again = " again" if all(want.attempt > 1 for want in wanted) else ""
    return "nccl-tests: " + ", ".join(f"{count} x {what[phase]}" for phase, count in counts.items()) + again


OBSERVER = Observer("nccl", Results, observe, restore)
