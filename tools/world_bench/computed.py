# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of a gate whose pods a simulator answers for, and no cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import (
    JobResult,
    JobSpec,
    JobState,
    PodResult,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import (
    PodGroup,
    PodOutput,
    SimContext,
)

from .nccl import keep, namespace_of, pods_of
from .place import Place

_NOW = datetime(2026, 1, 5, tzinfo=UTC)
Simulate = Callable[[PodGroup, SimContext], Mapping[str, PodOutput] | None]


def computed(place: Place, namespace: TemporaryNamespace, spec: JobSpec, simulate: Simulate) -> JobResult:
    """Return how a job ends whose pods all run, each with a log of its own."""
    pods = tuple({**pod, "status": {"phase": "Running"}} for pod in pods_of(spec, namespace))
    context = SimContext(model=place.model, skus=place.hardware, now=_NOW)
    outputs = simulate(PodGroup(name=spec.name, pods=pods), context) or {}
    results = []
    for index, (node, pod) in enumerate(zip(spec.nodes, pods, strict=True)):
        name = pod["metadata"]["name"]
        text = "".join(f"{line}\n" for _stream, line in outputs[name].lines)
        results.append(
            PodResult(
                name=name, node=node, hostname=name, exit_code=outputs[name].exit_code, log=text, role="launcher",
                index=index,
            )
        )  # fmt: skip
    found = outputs.values()
    failed = any(output.exit_code for output in found)
    state: JobState = "image" if any(output.fault for output in found) else "failed" if failed else "succeeded"
    return JobResult(
        name=spec.name, state=state, reason="as simulated", pods=tuple(results), started="2026-01-05T00:00:00Z",
        duration_s=max(output.run_s for output in found), nodes=spec.nodes,
    )  # fmt: skip


def keep_runs(place: Place, key: str, bench: Any, saved: Any, simulate: Simulate) -> None:
    """Make all runs of a gate's own benchmark, computed in place of launched, and keep them as a run does."""
    namespace = namespace_of(place, place.observing())
    bench.plan = bench.make_plan(namespace.cluster)
    while wanted := (bench.next_runs() if bench.plan.open_hosts else []):
        for want in wanted:
            spec = bench.job(want)
            bench.runs.append(bench.read(want, spec, computed(place, namespace, spec, simulate)))
    records = tuple(run.record for run in bench.runs)
    keep(place, key, saved(plan=bench.plan, records=records, made=len(records)))
