# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs that Kueue keeps from the scheduler say nothing about it: neither that it placed none, nor that it chose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    gang_admission,
    ray_gang_admission,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.capacity import Slots
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_gang import (
    GangResult,
    held_back,
    held_gangs,
    left_alone,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.ray_gang import ray_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import JOBS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.queue import queued

from .conftest import NAMES, context

Json = dict[str, Any]
GATE = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
WAITS = "couldn't assign flavors to pod set head: insufficient unused quota for nvidia.com/gpu in flavor h100, 4 more"


class Api:
    """A cluster with two RayClusters, of which some are suspended; Kueue says of each why."""

    def __init__(self, suspended: tuple[str, ...]) -> None:
        self.suspended = suspended

    def find_all(self, _kind: Any, _namespace: str) -> list[Json]:
        return [
            {"metadata": {"name": name}, "spec": {"suspend": True} if name in self.suspended else {}}
            for name in ("gang-a", "gang-b")
        ]

    def served_versions(self, _group: str) -> tuple[str, ...]:
        return ("v1beta2",)

    def find(self, *_args: Any) -> None:
        return None

    def list_objects(self, _kind: Any, _namespace: str) -> list[Json]:
        said = {"type": "QuotaReserved", "status": "False", "message": WAITS}
        owner = [{"kind": "RayCluster", "name": "gang-b"}]
        return [{"metadata": {"name": "raycluster-gang-b", "ownerReferences": owner}, "status": {"conditions": [said]}}]


def space(pods: list[Json], suspended: tuple[str, ...] = (), queue: str = "") -> Any:
    return SimpleNamespace(cluster=Api(suspended), name="test-1", pods=lambda: pods, cluster_queue=queue)


def pod(gang: str, number: int, **spec: Any) -> Json:
    return {"metadata": {"name": f"{gang}-{number}", "labels": {"gpufleet.io/gang": gang}}, "spec": spec}


def told(held: dict[str, str], bound: dict[str, int], queue: str = "") -> Any:
    back = held_back(held, bound, 12, queue)
    seen = GangResult(provider="volcano", slots=4, gang_size=3, gpus_per_pod=2, nodes=NAMES[:2], bound=bound, **back)
    (outcome,) = ray_gang_admission.judge(seen, context())
    return outcome


def test_ray_clusters_that_kueue_suspends_are_no_fault_of_the_scheduler() -> None:
    """A cluster of a site with manageJobsWithoutQueueName is healthy; no gang was placed, for there are no pods."""
    held = held_gangs(space([], ("gang-a", "gang-b")), ray=True)
    outcome = told(held, {"gang-a": 0, "gang-b": 0})
    assert (outcome.status, outcome.cause) == (Status.OTHER, "held-by-admission")
    assert "RayCluster gang-a was suspended when it was made" in outcome.summary
    assert "managedJobsNamespaceSelector" in outcome.hint and "cluster_queue" in outcome.hint
    assert "not both" in outcome.hint


def test_one_gang_without_a_competitor_is_not_passed() -> None:
    """A ClusterQueue with the GPUs of the nodes of the test admits one gang: the scheduler had nothing to choose."""
    placed = [pod("gang-a", number, nodeName=NAMES[0]) for number in range(3)]
    bound = {"gang-a": 3, "gang-b": 0}
    for ray, pods in ((True, placed), (False, [*placed, *(pod("gang-b", number, **GATE) for number in range(3))])):
        held = held_gangs(space(pods, ("gang-b",), "gpus"), ray=ray)
        assert set(held) == {"gang-b"}
        outcome = told(held, bound, "gpus")
        assert (outcome.status, outcome.cause) == (Status.OTHER, "held-by-admission")
        assert "gang-a was placed, but nothing competed with it" in outcome.summary
        assert "12 GPUs" in outcome.hint and "kubectl get clusterqueues" in outcome.hint
        assert (WAITS in outcome.summary) is ray


def test_pods_that_are_gated_without_a_queue_name_the_gate() -> None:
    held = held_gangs(space([pod(gang, 0, **GATE) for gang in ("gang-a", "gang-b")]), ray=False)
    outcome = told(held, {"gang-a": 0, "gang-b": 0})
    assert outcome.cause == "held-by-admission" and "kueue.x-k8s.io/admission" in outcome.summary


@pytest.mark.parametrize("ray", [True, False])
@pytest.mark.parametrize(
    ("bound", "status"), [({"gang-a": 3, "gang-b": 0}, Status.PASSED), ({"gang-a": 2, "gang-b": 1}, Status.FAILED)]
)
def test_gangs_that_nobody_holds_are_judged(ray: bool, bound: dict[str, int], status: Status) -> None:
    pods = [pod("gang-a", 0, nodeName=NAMES[0]), pod("gang-b", 0)]
    held = held_gangs(space(pods), ray=ray)
    assert held == {} and told(held, bound).status is status


def test_what_is_held_and_placed_all_the_same_is_judged_by_its_places() -> None:
    """KubeRay takes the pods of a cluster that is suspended later; those that are placed were placed."""
    assert held_back({"gang-a": "late"}, {"gang-a": 2, "gang-b": 0}, 12, "") == {}


def test_a_ray_cluster_goes_through_the_queue_of_the_site_as_a_whole() -> None:
    """kueue.sigs.k8s.io, "Run A RayCluster": the label is the cluster's, and KubeRay's pods have none."""
    slots = Slots(nodes=NAMES[:2], count=4, gpus=2, resource="nvidia.com/gpu", by_dra=False)
    name_space = SimpleNamespace(name="test-1", labels={"a": "b"}, priority_class="test-1", tolerated=[])
    (made,) = ray_cluster(cast("Any", name_space), "gang-a", "volcano", slots, "", "", 60.0)
    body = queued(made)
    assert body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "tests"
    assert body["metadata"]["labels"].items() >= made["metadata"]["labels"].items()
    assert "kueue" not in str(body["spec"])


WORKLOADS = Kind("kueue.x-k8s.io/v1beta2", "Workload", "workloads")


class WithKueue:
    """A cluster with the Jobs of both gangs, of which Kueue made a Workload of some and resumed some."""

    def __init__(self, workloads: tuple[str, ...], resumed: tuple[str, ...]) -> None:
        self.workloads, self.resumed = workloads, resumed

    def find_all(self, kind: Kind, namespace: str) -> list[Json]:
        assert namespace == "test-1"
        if kind == JOBS:
            return [
                {"metadata": {"name": name}, "spec": {"suspend": name not in self.resumed}}
                for name in ("gang-a", "gang-b")
            ]
        assert kind == WORKLOADS
        # One of another kind of the same name is no Workload of the Job.
        other = {"metadata": {"name": "x", "ownerReferences": [{"kind": "RayCluster", "name": "gang-b"}]}}
        owners = [[{"kind": "Job", "name": name}] for name in self.workloads]
        return [other, *({"metadata": {"name": "job", "ownerReferences": owner}} for owner in owners)]


@pytest.mark.parametrize(
    ("workloads", "resumed", "held"),
    [
        ((), (), {"gang-a", "gang-b"}),
        (("gang-a",), ("gang-a",), {"gang-b"}),
        (("gang-a", "gang-b"), ("gang-a",), set()),
        (("gang-a", "gang-b"), (), set()),
        # Somebody else resumed them: then they are judged by their places.
        ((), ("gang-a", "gang-b"), set()),
    ],
)
def test_jobs_of_which_kueue_makes_no_workload_are_held(
    workloads: tuple[str, ...], resumed: tuple[str, ...], held: set[str]
) -> None:
    """From 0.15 on Kueue reconciles no job of a namespace that managedJobsNamespaceSelector leaves out."""
    name_space = cast("Any", SimpleNamespace(cluster=WithKueue(workloads, resumed), name="test-1"))
    found = left_alone(name_space, WORKLOADS)
    assert set(found) == held
    bound = {name: 3 if name in resumed else 0 for name in ("gang-a", "gang-b")}
    back = held_back(found, bound, 12, "", by_kueue=True)
    seen = GangResult(provider="kueue", slots=4, gang_size=3, gpus_per_pod=2, nodes=NAMES[:2], bound=bound, **back)
    (outcome,) = gang_admission.judge(seen, context())
    if not held:
        assert outcome.cause in {"gang-not-admitted", "pods-not-waited-for", "gang-overcommitted"}
        return
    assert (outcome.status, outcome.cause) == (Status.OTHER, "held-by-admission")
    assert "Kueue made no Workload of Job" in outcome.summary
    assert ("nothing competed" in outcome.summary) is bool(resumed)
    for word in ("managedJobsNamespaceSelector", "0.15", "cluster_queue", "integrations.frameworks"):
        assert word in outcome.hint
