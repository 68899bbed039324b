# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe the shared volume before the training: fio on every host, in groups; suspects are measured again."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...workload.job import JobSpec
from ...workload.namespace import job_permissions
from ..benchmark.host_runs import HostBenchmark, HostRecord
from ..benchmark.saved_observer import benchmark_observer
from ..shared_storage.analysis import Plan, Results, Run, SavedObservation, to_measure_again
from ..shared_storage.run import command_of, read_storage, storage_job
from ..shared_storage.settings import KEY, StorageSettings
from ..spec import ObserveContext
from .settings import GATE, TrainingSettings


def _run(record: HostRecord, log: str, settings: StorageSettings) -> Run:
    return Run(record=record, reading=read_storage(record.state, record.reason, log, settings))


class StorageBenchmark(HostBenchmark[Plan, Run]):
    """fio on all hosts, in groups of equal size, one group after the other."""

    gate = GATE
    name = "storage"

    def __init__(self, context: ObserveContext, settings: StorageSettings) -> None:
        hosts = len(context.site.in_scope)
        self.group = settings.at_a_time(hosts)
        # Suspects are measured again in groups of which they are half.
        steps = math.ceil(hosts / self.group) + 2 * settings.repeats
        waits = settings.pull_s + settings.schedule_s
        cleanup_s = context.settings_of(GATE, TrainingSettings).run.cleanup_s
        super().__init__(context, total_s=waits + steps * settings.timeout_s, cleanup_s=cleanup_s)
        self.settings = settings

    def make_plan(self, cluster: Cluster) -> Plan:
        """Return the hosts.

        One with busy GPUs is closed: it may use the volume itself, so a measurement there proves nothing.
        """
        return Plan(hosts=self.hosts(cluster), settings=self.settings)

    def permissions(self) -> tuple[Permission, ...]:
        return job_permissions("plain-job")

    def next_runs(self) -> list[str]:
        """Return the next group of hosts that were not measured; after that suspects, together with as many others."""
        results = Results(plan=self.plan, runs=tuple(self.runs))
        names = [host.name for host in self.plan.open_hosts]
        size = math.ceil(len(names) / math.ceil(len(names) / self.group))
        fresh = [name for name in names if not results.of(name)]
        if fresh:
            # The groups have equal size: a host alone on the volume would be faster than all others.
            return fresh[: math.ceil(len(fresh) / math.ceil(len(fresh) / size))]
        again = to_measure_again(results)
        if not again:
            return []
        company = sorted((name for name in names if name not in again), key=lambda name: len(results.of(name)))
        # Half of a group are hosts without suspicion, if there are enough: their figures are the reference of that
        # moment.
        suspects = again[: max(size // 2, size - len(company), 1)]
        return [*suspects, *company[: max(0, size - len(suspects))]]

    def announce(self, wanted: Sequence[str]) -> str:
        return f"fio on the shared volume: {len(wanted)} hosts"

    def job(self, want: str) -> JobSpec:
        """Return one fio on the node of a host, in a directory of its own."""
        name = self.job_name("fio", want)
        return storage_job(name, self.plan.host(want), self.settings, secrets.token_hex(8))

    def command(self, spec: JobSpec) -> tuple[str, ...]:
        """Return the command without the text of the script."""
        return command_of(spec)

    def run_of(self, record: HostRecord, log: str) -> Run:
        return _run(record, log, self.settings)


OBSERVER = benchmark_observer(
    "storage",
    Results,
    saved=SavedObservation,
    make=lambda context: StorageBenchmark(context, context.settings_of(KEY, StorageSettings)),
    settings=(KEY, StorageSettings),
    run_of=_run,
)
