# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is free when its kubelet has let go of the pods, and not before."""

from __future__ import annotations

from threading import Barrier
from typing import Any

import pytest
from lease_cluster import MemoryCluster

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NAMESPACES, PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.follow import Ending
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import JobSpec, RunningJob, _JobQueue
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace

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


def fleet(cluster: MemoryCluster, count: int) -> list[dict[str, Any]]:
    """A namespace with a pod on each of so many nodes."""
    cluster.create(NAMESPACES, {"metadata": {"name": "t"}})
    for number in range(count):
        body = {"metadata": {"name": f"pod-{number}"}, "spec": {"nodeName": f"gpu{number}"}}
        cluster.create(PODS, body, "t")
    return list(cluster.api.list_objects(PODS, "t"))


def test_a_pod_of_a_job_that_ends_is_removed_with_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []

    def look(seen: RunningJob, pods: list[dict[str, Any]], *_more: Any) -> None:
        seen.pods = pods
        seen.end(Ending("succeeded", "exit code 0"))

    monkeypatch.setattr(RunningJob, "look", look)
    monkeypatch.setattr(RunningJob, "_log", lambda _self, _pod: ("", ""))
    monkeypatch.setattr(RunningJob, "_delete", lambda _self, _kind, name: removed.append(name))
    cluster = MemoryCluster()
    cluster.create(NAMESPACES, {"metadata": {"name": "t"}})
    namespace = TemporaryNamespace(cluster.api, "t", 5, ())
    queue = _JobQueue(cluster.api, namespace, [], 8)
    queue.running.append(RunningJob(job("one", "gpu01"), cluster.api, namespace))
    ended = {"metadata": {"name": "one-0"}, "spec": {"nodeName": "gpu01"}, "status": {"phase": "Succeeded"}}
    monkeypatch.setattr(_JobQueue, "_pods", lambda _self: {"one": [ended]})
    assert queue.step()
    assert (queue.results["one"].state, removed) == ("succeeded", ["one-0"])
    # It still is there at the next look, and nobody has asked it to go: asked again.
    queue.step()
    assert removed == ["one-0", "one-0"]
    monkeypatch.setattr(_JobQueue, "_pods", lambda _self: {})
    assert queue.step() and not queue.clearing


@pytest.mark.parametrize(("count", "least_s", "most_s"), [(1, 119.0, 121.0), (500, 165.0, 170.0)])
def test_the_pods_of_a_fleet_have_longer_to_go(
    count: int, least_s: float, most_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunningJob, "_log", lambda _self, _pod: ("", ""))
    cluster = MemoryCluster()
    pods = fleet(cluster, count)
    running = RunningJob(job("one", "gpu0"), cluster.api, TemporaryNamespace(cluster.api, "t", 5, ()), pods=pods)
    running.end(Ending("aborted", "the test ends it"))
    assert running._cleared is not None
    assert least_s <= running._cleared.left_s <= most_s
    assert not cluster.api.list_objects(PODS, "t"), "every pod was asked to go"


def test_a_namespace_with_the_pods_of_a_fleet_is_emptied_after_its_time_limit_for_a_few() -> None:
    cluster = MemoryCluster()
    fleet(cluster, 200)
    namespace = TemporaryNamespace(cluster.api, "t", 0, ())
    namespace.close()
    assert not namespace.leftovers
    assert not cluster.api.list_objects(PODS, "t")


def test_jobs_on_other_nodes_are_made_ended_and_removed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each of both waits for the other: one after the other they would wait for ever.
    met: dict[str, Barrier] = {word: Barrier(2, timeout=10.0) for word in ("create", "look", "cleared")}

    def create(_job: RunningJob) -> None:
        met["create"].wait()

    def look(seen: RunningJob, *_what: Any) -> None:
        met["look"].wait()
        seen.end(Ending("succeeded", "exit code 0"))

    def cleared(_job: RunningJob, _pods: Any) -> bool:
        met["cleared"].wait()
        return True

    for name, act in (("create", create), ("look", look), ("cleared", cleared)):
        monkeypatch.setattr(RunningJob, name, act)
    for name in ("_pods", "_refusals"):
        monkeypatch.setattr(_JobQueue, name, lambda *_what: {})
    cluster = MemoryCluster()
    cluster.create(NAMESPACES, {"metadata": {"name": "t"}})
    namespace = TemporaryNamespace(cluster.api, "t", 5, ())
    queue = _JobQueue(cluster.api, namespace, [job("one", "gpu01"), job("two", "gpu02"), job("three", "gpu01")], 8)
    queue.step()
    assert sorted(queue.results) == ["one", "two"]
    assert [spec.name for spec in queue.waiting] == ["three"], "its node is another job's"
    queue._clear({})
    assert not queue.clearing
