# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DL unit test of a world: the gate's own jobs, run by their simulator and by no cluster."""

from __future__ import annotations

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.records import BenchmarkResults
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.model import Plan, Run, SavedObservation
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.settings import ID, DlUnitSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_dl_unit import (
    DlUnitBenchmark,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.workloads.dl_unit_pods import simulate

from .computed import computed
from .nccl import keep, namespace_of
from .place import Place


class _Bench(DlUnitBenchmark):
    """The gate's own benchmark, whose jobs are computed in place of launched."""

    def __init__(self, place: Place) -> None:
        context = place.observing()
        super().__init__(context, context.settings_of(ID, DlUnitSettings))
        self._place = place
        self._namespace = namespace_of(place, context)

    def observe(self) -> BenchmarkResults[Plan, Run]:
        self.plan = self.make_plan(self._namespace.cluster)
        while wanted := (self.next_runs() if self.plan.open_hosts else []):
            for want in wanted:
                spec = self.job(want)
                result = computed(self._place, self._namespace, spec, simulate)
                self.runs.append(self.read(want, spec, result))
        return BenchmarkResults(plan=self.plan, runs=tuple(self.runs))


def observe(place: Place) -> None:
    """Make all runs of the DL unit test and keep them as a run does."""
    found = _Bench(place).observe()
    records = tuple(run.record for run in found.runs)
    keep(place, "dl_unit", SavedObservation(plan=found.plan, records=records, made=len(records)))
