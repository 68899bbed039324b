# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DL unit test of a world: the gate's own jobs, run by their simulator and by no cluster."""

from __future__ import annotations

from datetime import UTC, datetime

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.records import BenchmarkResults
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.model import Plan, Run, SavedObservation
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.settings import ID, DlUnitSettings
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.observe_dl_unit import (
    DlUnitBenchmark,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.workloads.dl_unit_pods import simulate
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.workloads.pod_simulator import (
    PodGroup,
    SimContext,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.model import (
    JobResult,
    JobSpec,
    JobState,
    PodResult,
)

from .nccl import keep, namespace_of, pods_of
from .place import Place

_NOW = datetime(2026, 1, 5, tzinfo=UTC)


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
                self.runs.append(self.read(want, spec, self._result(spec)))
        return BenchmarkResults(plan=self.plan, runs=tuple(self.runs))

    def _result(self, spec: JobSpec) -> JobResult:
        pod = {**pods_of(spec, self._namespace)[0], "status": {"phase": "Running"}}
        name = pod["metadata"]["name"]
        context = SimContext(model=self._place.model, skus=self._place.hardware, now=_NOW)
        output = (simulate(PodGroup(name=spec.name, pods=(pod,)), context) or {})[name]
        state: JobState = "image" if output.fault else "failed" if output.exit_code else "succeeded"
        text = "".join(f"{line}\n" for _stream, line in output.lines)
        result = PodResult(
            name=name, node=spec.nodes[0], hostname=name, exit_code=output.exit_code, log=text, role="launcher"
        )
        return JobResult(
            name=spec.name, state=state, reason="as simulated", pods=(result,), started="2026-01-05T00:00:00Z",
            duration_s=output.run_s, nodes=spec.nodes,
        )  # fmt: skip


def observe(place: Place) -> None:
    """Make all runs of the DL unit test and keep them as a run does."""
    found = _Bench(place).observe()
    records = tuple(run.record for run in found.runs)
    keep(place, "dl_unit", SavedObservation(plan=found.plan, records=records, made=len(records)))
