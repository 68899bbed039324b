# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe the arithmetic of every GPU: the DL unit test on each host, repeated on a slow one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...clients.kube.cluster import Cluster
from ...clients.kube.permission import Permission
from ...hardware.sku import sku_or_error
from ...workload.job import JobSpec
from ...workload.namespace import job_permissions
from ...workload.node_use import NodeUse
from ..benchmark.host_runs import HostBenchmark, HostRecord
from ..benchmark.saved_observer import benchmark_observer
from ..benchmark.slurm import hosts_of_slurm
from ..dl_unit.job import dl_unit_job
from ..dl_unit.model import Plan, Results, Run, SavedObservation, read_run
from ..dl_unit.rates import Rates, to_test_again
from ..dl_unit.settings import ID, RATE, DlUnitSettings, GemmRateSettings
from ..spec import ObserveContext
from .settings import GATE, FabricValidationSettings


class DlUnitBenchmark(HostBenchmark[Plan, Run]):
    """The DL unit test on all hosts at once, and up to `repeats` times on one with a slow GPU."""

    gate = GATE
    name = "dl-unit"

    def __init__(self, context: ObserveContext, settings: DlUnitSettings) -> None:
        self.settings = settings
        self.limits = context.settings_of(RATE, GemmRateSettings)
        self.run = context.settings_of(GATE, FabricValidationSettings).run
        steps = math.ceil(len(context.site.in_scope) / self.run.parallel) + self.limits.repeats - 1
        total_s = settings.pull_s + self.run.schedule_s + steps * settings.timeout_s
        super().__init__(context, total_s=total_s, cleanup_s=self.run.cleanup_s)

    def make_plan(self, cluster: Cluster) -> Plan:
        """Return the hosts. Those whose GPUs are not all free are closed."""
        return Plan(hosts=self.hosts(cluster), settings=self.settings)

    def plan_on_hosts(self, uses: Mapping[str, NodeUse]) -> Plan:
        """Return the hosts. Those whose nodes are not free are closed."""
        return Plan(hosts=hosts_of_slurm(self.context.site, uses), settings=self.settings)

    def permissions(self) -> tuple[Permission, ...]:
        by_dra = any(host.by_dra for host in self.plan.open_hosts)
        return job_permissions("plain-job", files=True, by_dra=by_dra)

    def next_runs(self) -> list[str]:
        """Return all hosts that were not tested; after that those for which another run could decide more."""
        results = Results(plan=self.plan, runs=tuple(self.runs))
        fresh = [host.name for host in self.plan.open_hosts if not results.of(host.name)]
        return fresh or to_test_again(Rates(results, self.context.hardware, self.limits))

    def parallel(self, wanted: Sequence[str]) -> int:
        return self.run.parallel

    def announce(self, wanted: Sequence[str]) -> str:
        return f"DL unit test: {len(wanted)} hosts{' again' if self.runs else ''}"

    def job(self, want: str) -> JobSpec:
        """Return the test on all GPUs of a host."""
        host = self.plan.host(want)
        gpus = sku_or_error(self.context.hardware, host.sku).gpus
        return dl_unit_job(self.job_name("dl-unit", want), host, gpus, self.settings, self.run.schedule_s)

    def run_of(self, record: HostRecord, log: str) -> Run:
        return read_run(record, log, self.settings)


OBSERVER = benchmark_observer(
    "dl_unit",
    Results,
    saved=SavedObservation,
    make=lambda context: DlUnitBenchmark(context, context.settings_of(ID, DlUnitSettings)),
    settings=(ID, DlUnitSettings),
    run_of=read_run,
)
