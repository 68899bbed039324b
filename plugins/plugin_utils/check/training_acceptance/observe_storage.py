# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observes the shared volume before the training: fio on every host, a few at a time, again where one is suspect."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...hardware.sku import Sku
from ...outcome.codec import from_plain
from ...site.model import Host, Site
from ...workload.capacity import NodeCapacity
from ...workload.model import JobResult, JobSpec
from ...workload.permission import job_permissions
from ..benchmark.plan import BenchmarkHost, placement, planned_hosts
from ..benchmark.records import ended, kept_text, require_planned
from ..benchmark.run_loop import Benchmark
from ..kit.saved_settings import with_plan_settings
from ..shared_storage.analysis import to_measure_again
from ..shared_storage.model import Plan, Record, Results, Run, SavedObservation
from ..shared_storage.run import command_of, read_storage, storage_job
from ..shared_storage.settings import KEY, StorageSettings
from ..spec import ObserveContext, Observer
from .settings import GATE, TrainingSettings


def observe(context: ObserveContext) -> SavedObservation:
    """Run fio and return all runs; logs are kept as evidence.

    Raises:
        InputError: invalid settings, a SKU without facts.
        BringupError: see Benchmark.observe.
    """
    found = StorageBenchmark(context, context.settings_of(KEY, StorageSettings)).observe()
    records = tuple(run.record for run in found.runs)
    return SavedObservation(plan=found.plan, records=records, made=len(records), leftovers=found.leftovers)


def restore(data: Any, run_dir: Path, site: Site) -> Results:
    """Return plan and runs, the logs read again."""
    complete = with_plan_settings(data, StorageSettings, KEY, site, run_dir)
    saved = from_plain(SavedObservation, complete, "observation storage")
    require_planned(saved.plan.hosts, site, "observation storage")
    saved.require_all("observation storage")
    runs = tuple(_run(record, kept_text(run_dir, record.log), saved.plan.settings) for record in saved.records)
    return Results(plan=saved.plan, runs=runs, leftovers=saved.leftovers)


def _run(record: Record, log: str, settings: StorageSettings) -> Run:
    return Run(record=record, reading=read_storage(record.state, record.reason, log, settings))


class StorageBenchmark(Benchmark[Plan, str, Run]):
    """fio on one host after the other, in groups of equal size; a run is wanted by the name of its host."""

    gate = GATE
    name = "storage"

    def __init__(self, context: ObserveContext, settings: StorageSettings) -> None:
        hosts = len(context.site.in_scope)
        self.group = settings.at_a_time(hosts)
        steps = math.ceil(hosts / self.group) + settings.repeats
        waits = settings.pull_s + settings.schedule_s
        cleanup_s = context.settings_of(GATE, TrainingSettings).run.cleanup_s
        super().__init__(context, total_s=waits + steps * settings.timeout_s, cleanup_s=cleanup_s)
        self.settings = settings

    def make_plan(self, cluster: Cluster) -> Plan:
        """Look at the nodes: a host whose GPUs are busy uses the volume, too, and says nothing about it."""

        def planned(host: Host, sku: Sku, capacity: NodeCapacity) -> BenchmarkHost:
            return BenchmarkHost(**placement(host, sku, capacity))

        return Plan(hosts=planned_hosts(cluster, self.context, planned), settings=self.settings)

    def permissions(self) -> tuple[Permission, ...]:
        return job_permissions("plain-job")

    def next_runs(self) -> list[str]:
        """The next group of hosts that were not measured; then suspects, in the company of so many others."""
        results = Results(plan=self.plan, runs=tuple(self.runs))
        names = [host.name for host in self.plan.open_hosts]
        size = math.ceil(len(names) / math.ceil(len(names) / self.group))
        fresh = [name for name in names if not results.of(name)]
        if fresh:
            # Groups of equal size: a host alone on the volume would be faster than all others.
            return fresh[: math.ceil(len(fresh) / math.ceil(len(fresh) / size))]
        again = to_measure_again(results)
        if not again:
            return []
        company = sorted((name for name in names if name not in again), key=lambda name: len(results.of(name)))
        return [*again[:size], *company[: max(0, size - len(again))]]

    def announce(self, wanted: Sequence[str]) -> str:
        return f"fio on the shared volume: {len(wanted)} hosts"

    def job(self, want: str) -> JobSpec:
        """One fio on the node of a host, in a directory that nobody else has."""
        host, attempt = self.plan.host(want), self.attempt(want)
        name = f"fio-{[entry.name for entry in self.plan.hosts].index(want) + 1}-{attempt}"
        return storage_job(name, host, self.settings, secrets.token_hex(8))

    def read(self, want: str, spec: JobSpec, result: JobResult) -> Run:
        """Keep the log, and return what it says."""
        kept = self.evidence.keep(f"{spec.name}.log", result.log)
        record = Record(
            **ended(result, command_of(spec)), name=spec.name, host=want, attempt=self.attempt(want), log=kept.path
        )
        return _run(record, kept.text, self.settings)

    def attempt(self, host: str) -> int:
        """Return the number of the next run of a host."""
        return len([run for run in self.runs if run.record.host == host]) + 1


OBSERVER = Observer("storage", Results, observe, restore, saved=SavedObservation)
