# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is free when its kubelet has let go of the pods, and not before."""

from __future__ import annotations

from typing import Any

from lease_cluster import MemoryCluster

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.kinds import NAMESPACES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.launch import JobSpec, _JobQueue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.running import RunningJob

POD = {
    "metadata": {"name": "one-0", "labels": {"gpufleet.io/job": "one"}, "deletionTimestamp": "2026-11-22T10:00:00Z"},
    "spec": {"nodeName": "gpu01"},
}


def job(name: str, *nodes: str) -> JobSpec:
    return JobSpec(name=name, nodes=nodes, gpus_per_node=8, image="nccl", command=("all_reduce_perf",))


def queue_after(limit_s: float, pods: list[dict[str, Any]]) -> _JobQueue:
    """A queue whose first job ended, with these pods left of it, and two that wait."""
    cluster = MemoryCluster()
    cluster.create(NAMESPACES, {"metadata": {"name": "t"}})
    namespace = TemporaryNamespace(cluster.api, "t", 5, ())
    queue = _JobQueue(cluster.api, namespace, [job("two", "gpu01", "gpu02"), job("three", "gpu03")], 8)
    ended = RunningJob(job("one", "gpu01"), cluster.api, namespace)
    ended._cleared = Deadline.after(limit_s)
    queue.clearing.append(ended)
    queue._clear({"one": pods})
    return queue


def test_a_pod_that_is_going_keeps_its_node() -> None:
    queue = queue_after(60, [POD])
    assert [held.spec.name for held in queue.clearing] == ["one"]
    assert not queue.results


def test_a_pod_that_is_gone_frees_it() -> None:
    queue = queue_after(60, [])
    assert not queue.clearing
    assert not queue.results


def test_a_pod_that_does_not_go_is_named_and_nothing_else_starts_there() -> None:
    queue = queue_after(-1, [POD])
    assert queue.results["two"].state == "aborted"
    assert "one-0 on node gpu01" in queue.results["two"].reason
    assert [spec.name for spec in queue.waiting] == ["three"], "another node has nothing to do with it"
