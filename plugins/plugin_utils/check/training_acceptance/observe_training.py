# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes training: runs the training program over all hosts as a gang, again where one run raises a suspicion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...clients.kube.cluster import Cluster, Permission
from ...clients.kube.connection import connection_from
from ...component_stack.facts import stack_facts
from ...hardware.sku import Sku, sku_or_error
from ...outcome.codec import from_plain
from ...runtime.clock import Deadline
from ...runtime.files import write_atomic
from ...runtime.progress import Progress
from ...runtime.recipe_files import RECIPES
from ...runtime.redaction import redact
from ...site.cabling import site_cabling
from ...site.model import Site
from ...workload.capacity import NodeCapacity, read_node_capacity
from ...workload.launch import JobResult, JobSpec, PodResult, job_namespace, run_jobs
from ...workload.namespace import TemporaryNamespace
from ...workload.permission import GANG, SPACE, refuse_without
from ..fabric_validation.adapters import ports_of
from ..fabric_validation.network import adapter_offers, adapter_resource, gang_of
from ..fabric_validation.rules import GATE as NETWORK
from ..fabric_validation.rules import load_rules as load_network_rules
from ..spec import ObserveContext, Observer
from .analysis import SkuCohort, cohorts_of
from .model import Plan, PlannedHost, PodRecord, Record, Results, Run, SavedObservation
from .parse_run import read_run
from .rules import GATE, Rules, load_rules

PROGRAM = RECIPES / "workloads" / "training" / "train.py"
_FILTERED = ("infiniband", "roce")


def observe(context: ObserveContext) -> SavedObservation:
    """Train until nothing is left to be known and return all runs; logs are kept as evidence.

    Raises:
        InputError: settings that are none, a SKU without facts.
        ForbiddenError: the user may not do what the runs need.
        BringupError: the API server does not answer, or refuses the runs' namespace.
    """
    rules = load_rules(context.site.settings.get(GATE, {}))
    with Cluster(connection_from(context.connections)) as cluster:
        plan = _plan(cluster, context, rules)
        refuse_without(cluster, permissions(plan.gang), GATE)
        if all(host.closed for host in plan.hosts):
            return SavedObservation(plan=plan)
        pods = stack_facts().test_pods
        with job_namespace(
            cluster,
            "training",
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


def permissions(gang: str) -> tuple[Permission, ...]:
    """Return what the gate must be allowed to do."""
    groups = stack_facts().gangs
    group = groups[gang].api_version.partition("/")[0] if gang in groups else ""
    return (*SPACE, *GANG, *((Permission("create", "podgroups", group),) if group else ()))


def restore(data: Any, run_dir: Path, _site: Site) -> Results:
    """Return plan and runs, the logs read again."""
    saved = from_plain(SavedObservation, data, "observation training")
    runs = tuple(read_run(record, _logs(run_dir, record), saved.plan.rules) for record in saved.records)
    return Results(plan=saved.plan, runs=runs, leftovers=saved.leftovers)


def _logs(run_dir: Path, record: Record) -> dict[str, str]:
    paths = {pod.host: run_dir / pod.log for pod in record.pods if pod.log}
    return {host: path.read_text(encoding="utf-8", errors="replace") for host, path in paths.items() if path.is_file()}


def _plan(cluster: Cluster, context: ObserveContext, rules: Rules) -> Plan:
    hosts = context.site.in_scope
    names = {host.node_name for host in hosts}
    rooms, network = read_node_capacity(cluster, names), load_network_rules(context.site.settings.get(NETWORK, {}))
    cabling = site_cabling(context.site, context.hardware)
    planned = []
    for host in hosts:
        sku = sku_or_error(context.hardware, host.sku)
        room = rooms[host.node_name]
        planned.append(
            PlannedHost(
                name=host.name, node=host.node_name, sku=host.sku, by_dra=room.by_dra, closed=_closed(room, sku),
                hcas=ports_of(host.name, sku, cabling, network) if sku.fabric in _FILTERED else (),
            )
        )  # fmt: skip
    several = len(hosts) > 1
    return Plan(
        hosts=tuple(planned),
        rules=rules,
        shapes={
            name: rules.shape_for(sku_or_error(context.hardware, name), len([h for h in hosts if h.sku == name]))
            for name in {host.sku for host in hosts}
        },
        rdma_resource=adapter_resource(adapter_offers(cluster, names, network), network) if several else "",
        rdma_count=network.run.rdma_count,
        gang=rules.run.gang or gang_of(context),
        annotations=network.run.annotations if several else {},
        env={**network.run.env, **rules.run.env},
    )


def _closed(room: NodeCapacity, sku: Sku) -> str:
    if room.closed or room.free >= sku.gpus:
        return room.closed
    return f"{room.free} of {sku.gpus} GPUs are free on {room.name}"


@dataclass(slots=True)
class _Bench:
    """Makes runs until nothing is left to be known."""

    cluster: Cluster
    space: TemporaryNamespace
    context: ObserveContext
    plan: Plan
    runs: list[Run] = field(default_factory=list)

    def run(self) -> None:
        """Make all runs; those over hosts of different SKUs side by side."""
        deadline = Deadline.after(self.plan.rules.run.total_s)
        progress = Progress(self.context.emit)
        while wanted := [kind for kind in self._cohorts() if kind.wants_more]:
            attempts = [len(kind.runs) + 1 for kind in wanted]
            ranks = sum(len(kind.open_hosts) * self._sku(kind).gpus for kind in wanted)
            again = f", run {max(attempts)} to confirm what the first showed" if max(attempts) > 1 else ""
            progress.say(f"training: {ranks} ranks{again}")
            specs = [self._spec(kind, attempt) for kind, attempt in zip(wanted, attempts, strict=True)]
            results = run_jobs(self.cluster, self.space, specs, len(specs), progress, deadline)
            for kind, attempt, spec, result in zip(wanted, attempts, specs, results, strict=True):
                self._keep(kind, attempt, spec, result)

    def _cohorts(self) -> tuple[SkuCohort, ...]:
        return cohorts_of(Results(plan=self.plan, runs=tuple(self.runs)), self.context.hardware)

    def _sku(self, kind: SkuCohort) -> Sku:
        return sku_or_error(self.context.hardware, kind.sku_name)

    def _spec(self, kind: SkuCohort, attempt: int) -> JobSpec:
        run, hosts, between = self.plan.rules.run, kind.open_hosts, len(kind.open_hosts) > 1
        return JobSpec(
            name=f"train-{self.plan.skus.index(kind.sku_name) + 1}-{attempt}",
            nodes=tuple(host.node for host in hosts),
            gpus_per_node=self._sku(kind).gpus,
            image=run.image,
            command=("/etc/program/train.py", *self._options(kind)),
            env=self._environment(kind),
            kind="torchrun",
            timeout_s=run.timeout_s,
            schedule_s=run.schedule_s,
            gang=self.plan.gang if between else "none",
            queue=run.queue,
            rdma_resource=self.plan.rdma_resource if between else "",
            rdma_count=self.plan.rdma_count,
            device_class=stack_facts().dra.device_class if any(host.by_dra for host in hosts) else "",
            annotations=self.plan.annotations if between else {},
            files={PROGRAM.name: PROGRAM.read_text(encoding="utf-8")},
            requests=run.requests,
        )

    def _options(self, kind: SkuCohort) -> tuple[str, ...]:
        run, shape = self.plan.rules.run, self.plan.shapes[kind.sku_name]
        options: Mapping[str, Any] = {
            **{name: value for name, value in asdict(shape).items() if name not in ("memory_mib", "learning_rate")},
            "learning-rate": shape.learning_rate, "steps": run.steps, "seed": run.seed, "dtype": run.dtype,
            "device": run.device, "timeout-s": run.timeout_s, "stuck-s": run.stuck_s,
        }  # fmt: skip
        return tuple(word for name, value in options.items() for word in (f"--{name}", str(value)))

    def _environment(self, kind: SkuCohort) -> dict[str, str]:
        # Devices in the order of nvidia-smi, so that a rank's number is the GPU's.
        known = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMP_NUM_THREADS": "8"}
        ports = dict.fromkeys(port for host in kind.open_hosts for port in host.hcas)
        only = {"NCCL_IB_HCA": "=" + ",".join(ports)} if ports and len(kind.open_hosts) > 1 else {}
        return {**known, **only, **self.plan.env}

    def _keep(self, kind: SkuCohort, attempt: int, spec: JobSpec, result: JobResult) -> None:
        owners = {host.node: host.name for host in kind.open_hosts}
        logs = {owners[pod.node]: redact(pod.log) for pod in result.pods if pod.node in owners and pod.log.strip()}
        record = Record(
            name=spec.name,
            sku=kind.sku_name,
            hosts=tuple(host.name for host in kind.open_hosts),
            attempt=attempt,
            gpus=spec.gpus_per_node,
            state=result.state,
            reason=redact(result.reason)[:500],
            pods=tuple(self._pod(spec, pod, owners, logs) for pod in result.pods),
            command=spec.command,
            started=result.started,
            duration_s=result.duration_s,
        )
        self.runs.append(read_run(record, logs, self.plan.rules))

    def _pod(self, spec: JobSpec, pod: PodResult, owners: Mapping[str, str], logs: Mapping[str, str]) -> PodRecord:
        host, path = owners.get(pod.node, ""), f"evidence/{GATE}/{spec.name}-{pod.index}.log"
        if host in logs:
            write_atomic(self.context.run_dir / path, logs[host])
        return PodRecord(
            host=host, node=pod.node, index=pod.index, exit_code=pod.exit_code, reason=pod.reason,
            log=path if host in logs else "",
        )  # fmt: skip


OBSERVER = Observer("training", Results, observe, restore)
