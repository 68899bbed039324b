# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller of its own process, on a host of any name: holds the cluster, looks for room, tests, gives it back.

Arguments: kubeconfig, run directory, host name, and in seconds its Lease, how long it waits, how long it tests. It ends
with 0 if every job was well, 3 if GPUs were not free, 4 if another run holds the cluster.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import lease
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import read_node_capacity
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import JobSpec, job_namespace, run_jobs
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import (
    claim_of,
    end_keeper,
    hold_cluster,
    working,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import sweep_left

NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
# The steps whose begin it says, in their order.
STEPS = ("begins", "holds", "swept", "tests")


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    kubeconfig, directory, host, lease_s, wait_s, longer_s = sys.argv[1:]
    # Both are what a site has, or a container that was started anew: names of hosts, and time.
    socket.gethostname = lambda: host
    lease.DURATION_S = int(lease_s)
    run_dir = Path(directory)
    run_dir.mkdir(parents=True, exist_ok=True)
    claim = claim_of(run_dir.name, "make bring-up")
    say("begins")
    with Cluster(Connection(kubeconfig=kubeconfig)) as cluster:
        try:
            hold_cluster(cluster, claim, run_dir, pid=os.getpid(), wait_s=float(wait_s), emit=say)
        except lease.HeldError as error:
            say(str(error))
            return 4
        say("holds")
        with working(run_dir):
            sweep_left(cluster, claim.holder, cleanup_s=60, emit=say)
            say("swept")
            room = read_node_capacity(cluster, NODES)
            if any(node.free < 8 for node in room.values()):
                say(f"no room: {room}")
                return 3
            with job_namespace(cluster, "nccl", prefix="gpufleet-test", priority=-100, holder=claim.holder) as space:
                say("tests")
                time.sleep(float(longer_s))
                results = run_jobs(cluster, space, jobs(), 8, Progress(say), Deadline.after(90))
        end_keeper(run_dir)
    for result in results:
        say(f"{result.name}: {result.state} {result.reason}")
    well = all(result.state == "succeeded" for result in results) and not space.leftovers
    say("passed" if well else f"not passed: {space.leftovers}")
    return 0 if well else 1


def jobs() -> list[JobSpec]:
    return [
        JobSpec(
            name=name, nodes=nodes, gpus_per_node=8, image="nccl", gang="native",
            command=("all_reduce_perf", "-b", "8", "-e", "8G", "-f", "2", "-g", "1"),
        )
        for name, nodes in (("pair-1", NODES[:2]), ("pair-2", NODES[2:]), ("all", NODES))
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
