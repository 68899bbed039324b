# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes training: runs the training program over all hosts as a gang, again where one run raises a suspicion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...hardware.sku import Sku, sku_or_error
from ...outcome.codec import from_plain
from ...outcome.errors import InputError
from ...runtime.recipe_files import RECIPES
from ...site.model import Host, Site
from ...workload.capacity import NodeCapacity
from ...workload.model import JobResult, JobSpec
from ..benchmark.network import connected_placement, gang_permissions, pod_network, port_filter, read_network
from ..benchmark.plan import device_class, placement, planned_hosts
from ..benchmark.records import ended, kept_text, require_planned
from ..benchmark.run_loop import Benchmark
from ..fabric_validation.network import site_network
from ..kit.saved_settings import with_plan_settings
from ..spec import ObserveContext, Observer
from .analysis import SkuCohort, cohorts_of
from .model import Plan, PlannedHost, PodRecord, Record, Results, Run, SavedObservation
from .parse_run import parse_run
from .settings import GATE, TrainingSettings

PROGRAM = RECIPES / "workloads" / "training"


def observe(context: ObserveContext) -> SavedObservation:
    """Train and return all runs; logs are kept as evidence.

    Raises:
        InputError: invalid settings, a SKU without facts.
        BringupError: see Benchmark.observe.
    """
    found = TrainingBenchmark(context, context.settings_of(GATE, TrainingSettings)).observe()
    records = tuple(run.record for run in found.runs)
    return SavedObservation(plan=found.plan, records=records, made=len(records), leftovers=found.leftovers)


def restore(data: Any, run_dir: Path, site: Site) -> Results:
    """Return plan and runs, the logs parsed again."""
    complete = with_plan_settings(data, TrainingSettings, GATE, site, run_dir)
    saved = from_plain(SavedObservation, complete, "observation training")
    require_planned(saved.plan.hosts, site, "observation training")
    saved.require_all("observation training")
    for record in saved.records:
        _require_pods(record)
    runs = tuple(parse_run(record, _logs(run_dir, record), saved.plan.settings) for record in saved.records)
    return Results(plan=saved.plan, runs=runs, leftovers=saved.leftovers)


def _require_pods(record: Record) -> None:
    """Refuse a run two of whose pods have one place.

    Raises:
        InputError: it has such pods.
    """
    places = [pod.index for pod in record.pods]
    if len(set(places)) != len(places):
        reason = f"run {record.name} has the pods {', '.join(map(str, places))}, and each must have its own number."
        raise InputError("observation training", reason, "run the gate again")


def _logs(run_dir: Path, record: Record) -> dict[str, str]:
    return {pod.host: kept_text(run_dir, pod.log) for pod in record.pods if pod.log and (run_dir / pod.log).is_file()}


class TrainingBenchmark(Benchmark[Plan, SkuCohort, Run]):
    """The training program over the hosts of each SKU; SKUs side by side."""

    gate = GATE
    name = "training"

    def __init__(self, context: ObserveContext, settings: TrainingSettings) -> None:
        super().__init__(context, total_s=settings.run.total_s, cleanup_s=settings.run.cleanup_s)
        self.settings = settings

    def make_plan(self, cluster: Cluster) -> Plan:
        """Look at the nodes: free GPUs, adapters for pods; choose a model for each SKU."""
        network = read_network(cluster, self.context, site_network(self.context))
        # A host by itself needs no network.
        several = len(self.context.site.in_scope) > 1
        place = partial(connected_placement, network) if several else placement

        def planned(host: Host, sku: Sku, capacity: NodeCapacity) -> PlannedHost:
            return PlannedHost(**place(host, sku, capacity), hcas=network.ports(host, sku))

        hosts, settings, stated = planned_hosts(cluster, self.context, planned), self.settings, network.settings
        counts, several = Counter(host.sku for host in hosts), len(hosts) > 1
        return Plan(
            hosts=hosts,
            settings=settings,
            shapes={name: settings.shape_for(self.context.hardware[name], count) for name, count in counts.items()},
            rdma_resource=network.resource if several else "",
            rdma_count=stated.rdma_count,
            gang=settings.run.gang or network.gang,
            annotations=dict(stated.annotations) if several else {},
            env={**stated.env, **settings.run.env},
        )

    def permissions(self) -> tuple[Permission, ...]:
        return gang_permissions("torchrun", self.plan.open_hosts, self.plan.gang)

    def next_runs(self) -> list[SkuCohort]:
        """The cohorts of which another run would say more."""
        cohorts = cohorts_of(Results(plan=self.plan, runs=tuple(self.runs)), self.context.hardware)
        return [cohort for cohort in cohorts if cohort.wants_more]

    def announce(self, wanted: Sequence[SkuCohort]) -> str:
        ranks = sum(len(cohort.open_hosts) * self._sku(cohort).gpus for cohort in wanted)
        attempt = max(len(cohort.runs) for cohort in wanted) + 1
        again = f", run {attempt} to confirm what the first showed" if attempt > 1 else ""
        return f"training: {ranks} ranks{again}"

    def job(self, want: SkuCohort) -> JobSpec:
        """One torchrun over all open hosts of a SKU."""
        plan, run, hosts = self.plan, self.settings.run, want.open_hosts
        network = pod_network(hosts, site_network(self.context), gang=plan.gang, fabric=self._sku(want).fabric)
        return JobSpec(
            name=f"train-{plan.skus.index(want.sku_name) + 1}-{len(want.runs) + 1}",
            nodes=tuple(host.node for host in hosts),
            gpus_per_node=self._sku(want).gpus,
            image=run.image,
            command=("/etc/program/train.py", *self._options(want)),
            env={**network["needs"].env, **self._environment(want)},
            kind="torchrun",
            timeout_s=run.timeout_s,
            pull_s=run.pull_s,
            schedule_s=run.schedule_s,
            queue=run.queue,
            device_class=device_class(*hosts),
            files={path.name: path.read_text(encoding="utf-8") for path in sorted(PROGRAM.glob("*.py"))},
            requests=run.requests,
            **network,
        )

    def read(self, want: SkuCohort, spec: JobSpec, result: JobResult) -> Run:
        """Keep the log of every pod, which has the output of its host's ranks."""
        owners = {host.node: host.name for host in want.open_hosts}
        pods, logs = [], {}
        for pod in result.pods:
            host = owners.get(pod.node, "")
            kept = self.evidence.keep(f"{spec.name}-{pod.index}.log", pod.log if host else "")
            if kept.path:
                logs[host] = kept.text
            pods.append(
                PodRecord(
                    host=host, node=pod.node, index=pod.index, exit_code=pod.exit_code, reason=pod.reason, log=kept.path
                )
            )
        record = Record(
            **ended(result, spec.command),
            name=spec.name,
            sku=want.sku_name,
            hosts=tuple(host.name for host in want.open_hosts),
            attempt=len(want.runs) + 1,
            gpus=spec.gpus_per_node,
            pods=tuple(pods),
        )
        return parse_run(record, logs, self.settings)

    def _sku(self, cohort: SkuCohort) -> Sku:
        return sku_or_error(self.context.hardware, cohort.sku_name)

    def _options(self, cohort: SkuCohort) -> tuple[str, ...]:
        run, shape = self.settings.run, self.plan.shapes[cohort.sku_name]
        options: Mapping[str, Any] = {
            **{name: value for name, value in asdict(shape).items() if name not in ("memory_mib", "learning_rate")},
            "learning-rate": shape.learning_rate, "steps": run.steps, "load-s": cohort.load_s, "seed": run.seed,
            "dtype": run.dtype, "device": run.device, "timeout-s": run.timeout_s, "stuck-s": run.stuck_s,
        }  # fmt: skip
        return tuple(word for name, value in options.items() for word in (f"--{name}", str(value)))

    def _environment(self, cohort: SkuCohort) -> dict[str, str]:
        # Devices in the order of nvidia-smi, so that a rank's number is the GPU's.
        known = {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMP_NUM_THREADS": "8",
            # With a workspace of one size cuBLAS gives the same bits every time (its chapter on reproducibility).
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        }  # fmt: skip
        hosts = cohort.open_hosts
        ports = port_filter(port for host in hosts for port in host.hcas) if len(hosts) > 1 else {}
        return {**known, **ports, **self.plan.env}


OBSERVER = Observer("training", Results, observe, restore, saved=SavedObservation)
