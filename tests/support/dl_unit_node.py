# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The DL unit test of one node, from its job to its result: the pod's log is given, or simulated."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, cast

from simulated_training import context as simulated_cluster
from simulated_training import hardware
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.plan import BenchmarkHost
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.node_tests.dl_unit import DlUnit
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.store.records import NodeResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobResult, PodResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import job_objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Fault
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import PodGroup
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.registry import simulator_for

HOST = BenchmarkHost(name="gpu02", node="gpu02", sku="dgx-h100")


@cache
def dl_unit() -> DlUnit:
    return DlUnit(ObserveContext(site=make_site(), run_dir=Path("."), today=date(2026, 1, 1), hardware=hardware()))


def ended(log: str, *, state: Any = "succeeded", host: BenchmarkHost = HOST, reason: str = "") -> JobResult:
    """Return a job that ended so, and whose pod wrote this log."""
    pod = PodResult(name="dl-1-0", node=host.node, hostname="dl-1-0", exit_code=0, log=log)
    return JobResult(
        name="dl-1",
        state=state,
        reason=reason or "as it did",
        pods=(pod,),
        started="2026-01-01T00:00:00Z",
        duration_s=61.0,
    )


def read(log: str, *, state: Any = "succeeded", host: BenchmarkHost = HOST, reason: str = "") -> NodeResult:
    """Return the result of a job that ended so, and whose pod wrote this log."""
    return dl_unit().read("c1", host, ended(log, state=state, host=host, reason=reason), 1000.0)


def simulated(*faults: Fault, host: BenchmarkHost = HOST, nodes: int = 2, sku: str = "dgx-h100") -> tuple[str, str]:
    """Return the log of a simulated pod of the test's own job, and how the job ended."""
    spec = dl_unit().job("dl-1", host)
    objects = job_objects(spec, TemporaryNamespace(cast(Any, None), "test", 60.0, ()))
    template = objects[-1]["spec"]["template"]["spec"]
    pod = {
        "metadata": {"name": "dl-1-0-x", "namespace": "test", "labels": {}},
        "spec": {**template, "nodeName": host.node},
        "status": {"phase": "Running"},
    }
    simulator = simulator_for(pod)
    assert simulator is not None and simulator.name == "dl-unit"
    outputs = simulator.simulate(PodGroup(name="dl-1", pods=(pod,)), simulated_cluster(*faults, nodes=nodes, sku=sku))
    assert outputs is not None
    output = outputs["dl-1-0-x"]
    return "".join(f"{line}\n" for _stream, line in output.lines), "failed" if output.exit_code else "succeeded"
