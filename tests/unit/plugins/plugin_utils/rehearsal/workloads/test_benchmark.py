# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a benchmark's pods ask for is read off the pods alone, however they were made."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import job_objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.benchmark import (
    benchmark_of,
    named_test,
)

Json = dict[str, Any]
COMMAND = ("/opt/nccl_tests/build/all_reduce_perf", "-b", "8", "-e", "8G", "-f", "2", "-g", "1", "-n", "5", "-c", "0")


def pods_of(kind: Any, rdma: str = "rdma/x") -> tuple[Json, list[Json]]:
    """Launcher and pods with ranks, as the controllers of a cluster make them of the product's own objects."""
    spec = JobSpec(
        name="pair", nodes=("gpu01", "gpu02"), gpus_per_node=8, image="nccl", command=COMMAND, kind=kind, gang="none",
        env={"NCCL_DEBUG": "INFO"}, limits={rdma: "1"} if rdma else {},
    )  # fmt: skip
    job = job_objects(spec, TemporaryNamespace(cast(Any, None), "ns", 1.0, ()))[-1]["spec"]
    replicas = job.get("mpiReplicaSpecs")
    template = replicas["Worker"]["template"]["spec"] if replicas else job["template"]["spec"]
    members = [
        {"metadata": {"name": f"pair-{n}-x"}, "spec": {**template, "hostname": f"pair-{n}", "nodeName": f"gpu0{n + 1}"}}
        for n in range(2)
    ]
    launcher = (
        {"metadata": {"name": "pair-launcher"}, "spec": replicas["Launcher"]["template"]["spec"]} if replicas else {}
    )
    return launcher or members[0], members


@pytest.mark.parametrize("kind", ["gang-job", "mpijob"])
def test_the_product_s_own_jobs_are_understood(kind: str) -> None:
    launcher, members = pods_of(kind)
    run = benchmark_of(launcher, members)
    assert run is not None
    assert (run.test, run.collective, run.ranks) == ("all_reduce_perf", "AllReduce", 16)
    assert [(place.hostname, place.node, place.gpus, place.adapters) for place in run.places] == [
        ("pair-0", "gpu01", 8, True),
        ("pair-1", "gpu02", 8, True),
    ]
    assert (run.sizes[0], run.sizes[-1], len(run.sizes)) == (8, 8 << 30, 31)
    assert (run.iterations, run.validate, run.env["NCCL_DEBUG"]) == (5, False, "INFO")
    assert benchmark_of(launcher, members[:1]) is None


@pytest.mark.parametrize("kind", ["gang-job", "mpijob"])
def test_pods_that_ask_for_no_adapter_see_none(kind: str) -> None:
    run = benchmark_of(*pods_of(kind, rdma=""))
    assert run is not None and not any(place.adapters for place in run.places)


def plain(*words: str, **spec: Any) -> Json:
    container = {"name": "c", "image": "nccl", "command": list(words)}
    return {"metadata": {"name": "alone"}, "spec": {"nodeName": "gpu01", "containers": [container], **spec}}


def test_one_process_may_have_all_gpus() -> None:
    pod = plain("all_gather_perf", "-b", "1M", "-e", "4M", "-i", "1M", "-g", "8")
    run = benchmark_of(pod, [pod])
    assert run is not None
    assert (run.ranks, run.per_process, run.places[0].hostname) == (8, 8, "alone")
    assert run.sizes == (1 << 20, 2 << 20, 3 << 20, 4 << 20)


def test_what_is_no_benchmark_is_left_alone() -> None:
    pod = plain("sleep", "infinity")
    assert benchmark_of(pod, [pod]) is None
    assert named_test(["/pause"]) == "" and named_test(["sh", "-c", "echo all_reduce_perf"]) == ""
