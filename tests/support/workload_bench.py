# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster of simulated nodes for test jobs: real controllers make the pods, KWOK plays them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster_bench import ClusterBench
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import (
    RbacSubject,
    bindings,
    put_objects,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import (
    JobResult,
    JobSpec,
    job_namespace,
    run_jobs,
)

PREFIX = "gpufleet-test"
OURS = "gpufleet.io/purpose=test"
CHARTS = {"mpi-operator": "0.6.0", "volcano": "1.12.2"}


RDMA = "rdma/rdma_shared_device_a"
COMMAND = ("all_reduce_perf", "-b", "8", "-e", "8G", "-f", "2", "-g", "1")
ENV = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH,TUNING",
    "NCCL_DEBUG_FILE": "/dev/stderr",
    "NCCL_IB_HCA": "=mlx5_0:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1,mlx5_10:1,mlx5_11:1",
}


def job(name: str, *nodes: str, **more: Any) -> JobSpec:
    settings: dict[str, Any] = {"gpus_per_node": 8, "image": "nccl", "command": COMMAND, "env": ENV}
    return JobSpec(name=name, nodes=nodes, **(settings | {"limits": {RDMA: "1"}} | more))


class Bench(ClusterBench):
    """A cluster of simulated nodes that offer their GPUs and adapters."""

    def chart(self, name: str) -> None:
        done = self.install(name, CHARTS[name])
        assert done.rc == 0, done.stderr

    def run(self, *specs: JobSpec, parallel: int = 8, before: Callable[[str], None] = lambda name: None) -> Any:
        """Run jobs in a space of their own; nothing may be left of it."""
        with job_namespace(self.cluster, "nccl", prefix=PREFIX, priority=-100) as space:
            before(space.name)
            results = run_jobs(self.cluster, space, specs, parallel, Progress(silent), Deadline.after(120))
        assert space.leftovers == []
        self.nothing_left()
        return results

    def one(self, spec: JobSpec, **options: Any) -> JobResult:
        result: JobResult = self.run(spec, **options)[0]
        return result

    def nothing_left(self) -> None:
        """Nothing that runs; the API server empties a namespace some seconds after it is told to."""
        spaces = self.cluster.list_objects(objects.NAMESPACES, labels=OURS)
        assert all(space["metadata"].get("deletionTimestamp") for space in spaces)
        assert not self.cluster.list_objects(objects.PRIORITY_CLASSES, labels=OURS)
        assert not self.cluster.list_objects(objects.PODS, labels=OURS)
        eventually(lambda: not list((self.directory / "workloads").glob("*/*.log")))

    def given(self, user: str, roles: list[dict[str, Any]]) -> str:
        """Give somebody these roles alone."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpufleet-system"}}
        bound = bindings(roles, RbacSubject(kind="User", name=user))
        put_objects(self.cluster, [namespace, *roles, *bound], dry_run=False)
        return user
