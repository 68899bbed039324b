# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate fabric_validation of a world: its own plan and jobs, run by the simulator of nccl-tests and by no cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.records import BenchmarkResults
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation import observe_nccl
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import (
    Plan,
    Run,
    SavedObservation,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.settings import (
    GATE,
    FabricValidationSettings,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.kit.tolerations import tolerations_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.observation import Observation, observation_path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import dumps, to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import (
    JobResult,
    JobSpec,
    JobState,
    PodResult,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import job_objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.rdma_plugin import adapter_offer
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.values import Node
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.benchmark import benchmark_of
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.nccl_pods import limits_of
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.nccl_run import simulate_run

from .place import Place

_MOST_STEPS = 60
Json = dict[str, Any]


@dataclass(frozen=True)
class OfferedCluster:
    """The answers of an API server about the nodes of a world, of which nothing else is asked."""

    nodes: tuple[Json, ...]

    def list_objects(self, kind: Any, *_namespace: str, **_selection: str) -> list[Json]:
        """Return the nodes; there is nothing else yet."""
        return list(self.nodes) if kind.plural == "nodes" else []

    def served_versions(self, _group: str) -> tuple[str, ...]:
        """Return that no API is served beside Kubernetes' own: worlds leave ComputeDomains out."""
        return ()


def offered_node(node: Node) -> Json:
    """Return the Kubernetes node of a host, as the device plugins leave it."""
    amounts = {"nvidia.com/gpu": str(node.advertised_gpus), **adapter_offer(node)}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": node.name, "labels": {}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]},
    }


def namespace_of(place: Place, context: ObserveContext) -> TemporaryNamespace:
    """Return the namespace of jobs that are computed; its cluster answers what is asked about nodes."""
    # In the place of a cluster; a cast would say no more.
    cluster: Any = OfferedCluster(tuple(offered_node(node) for node in place.model.nodes))
    return TemporaryNamespace(
        cluster=cluster, name="gpufleet-test", cleanup_s=1.0, kinds=(), tolerations=tolerations_of(context)
    )


class _Bench(observe_nccl.NcclBenchmark):
    """The gate's own benchmark, whose jobs are computed in place of launched."""

    def __init__(self, place: Place) -> None:
        context = place.observing({"deploymentOrder": ["volcano"]})
        super().__init__(context, context.settings_of(GATE, FabricValidationSettings))
        self._place = place
        self._namespace = namespace_of(place, context)

    def observe(self) -> BenchmarkResults[Plan, Run]:
        self.plan = self.make_plan(self._namespace.cluster)
        for _step in range(_MOST_STEPS):
            wanted = self.next_runs() if self.plan.open_hosts else ()
            if not wanted:
                return BenchmarkResults(plan=self.plan, runs=tuple(self.runs))
            for want in wanted:
                spec = self.job(want)
                self.runs.append(self.read(want, spec, self._result(spec)))
        raise AssertionError("the runs of the gate do not come to an end")

    def _result(self, spec: JobSpec) -> JobResult:
        pods = pods_of(spec, self._namespace)
        run = benchmark_of(pods[0], pods)
        if run is None:
            raise AssertionError(f"job {spec.name} starts no benchmark: {spec.command}")
        output = simulate_run(run, self._place.model, self._place.hardware, spec.name)
        limits = limits_of(pods[0], pods, self._place.model) if output.exit_code else []
        text = "".join(f"{line}\n" for _stream, line in (*output.lines, *limits))
        state: JobState = "timeout" if output.exit_code is None else "succeeded" if output.exit_code == 0 else "failed"
        results = tuple(
            PodResult(
                name=pod["metadata"]["name"], node=pod["spec"]["nodeName"], hostname=place.hostname,
                exit_code=output.exit_code, log="" if number else text, role="worker" if number else "launcher",
                index=number,
            )
            for number, (pod, place) in enumerate(zip(pods, run.places, strict=True))
        )  # fmt: skip
        return JobResult(
            name=spec.name, state=state, reason="as simulated", pods=results, started="2026-01-05T00:00:00Z",
            duration_s=output.run_s, nodes=spec.nodes,
        )  # fmt: skip


def pods_of(spec: JobSpec, namespace: TemporaryNamespace) -> Sequence[Json]:
    """The pods that the job controller would make, each on its node."""
    job = next(item for item in job_objects(spec, namespace) if item["kind"] == "Job")
    template = job["spec"]["template"]
    return [
        {
            "metadata": {**template["metadata"], "name": f"{spec.name}-{number}"},
            "spec": template["spec"] | {"nodeName": node, "hostname": f"{spec.name}-{number}"},
        }
        for number, node in enumerate(spec.nodes)
    ]


def observe(place: Place) -> None:
    """Make all runs of nccl-tests and keep them as a run does."""
    found = _Bench(place).observe()
    keep(place, "nccl", SavedObservation(plan=found.plan, records=tuple(run.record for run in found.runs)))


def keep(place: Place, key: str, saved: Any) -> None:
    """Write an observation of the gate."""
    seen = Observation(gate=GATE, key=key, started="2026-01-05T00:00:00Z", duration_s=1.0, data=to_plain(saved))
    write_atomic(observation_path(place.run_dir, GATE, key), dumps(seen))
