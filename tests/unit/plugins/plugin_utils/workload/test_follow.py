# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a job ended is read off its pods; nothing that may still go well is an end."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import Outage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import node_capacity
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.follow import (
    INDEX_LABEL,
    ObservedJob,
    ending_of,
    hostname_of,
    order_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import RunningJob
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace

Json = dict[str, Any]
SPEC = JobSpec(name="pair", nodes=("gpu01", "gpu02"), gpus_per_node=8, image="nccl", command=("all_reduce_perf",))


def pod(index: int, phase: str = "Running", **status: Any) -> Json:
    labels = {INDEX_LABEL: str(index)}
    spec: Json = {"nodeName": f"gpu0{index + 1}", "hostname": f"pair-{index}"}
    return {
        "metadata": {"name": f"pair-{index}-x", "labels": labels},
        "spec": spec,
        "status": {"phase": phase, **status},
    }


def ended(index: int, code: int, word: str = "Error", **status: Any) -> Json:
    state = {"terminated": {"exitCode": code, "reason": word}}
    phase = "Failed" if code else "Succeeded"
    return pod(index, phase, containerStatuses=[{"state": state}], **status)


def waiting(index: int, word: str, message: str = "") -> Json:
    state = {"waiting": {"reason": word, "message": message}}
    return pod(index, "Pending", containerStatuses=[{"state": state}])


def unplaced(index: int, message: str) -> Json:
    item = pod(index, "Pending", conditions=[{"type": "PodScheduled", "status": "False", "message": message}])
    del item["spec"]["nodeName"]
    return item


def disturbed(index: int, reason: str) -> Json:
    return pod(index, "Failed", conditions=[{"type": "DisruptionTarget", "status": "True", "reason": reason}])


# kubernetes/kubernetes#66689
NO_ACCOUNT = (
    'Error creating: pods "pair-0-" is forbidden: error looking up service account t/default: '
    'serviceaccount "default" not found'
)
TRAINING = replace(SPEC, kind="torchrun")


def test_every_pod_of_a_torchrun_counts() -> None:
    """No pod speaks for the others: one that still runs is waited for, one that failed is reported."""
    assert ending_of(TRAINING, ObservedJob(pods=[ended(0, 0), pod(1)], ended_s=100)) is None
    assert ending_of(TRAINING, ObservedJob(pods=[ended(0, 0)], ended_s=100)) is None
    whole = ending_of(TRAINING, ObservedJob(pods=[ended(0, 0), ended(1, 0)]))
    assert whole is not None and (whole.state, whole.reason) == ("succeeded", "exit code 0 of 2 pods")
    broken = ending_of(TRAINING, ObservedJob(pods=[ended(0, 0), ended(1, 1)]))
    assert broken is not None and (broken.state, "pair-1-x on gpu02" in broken.reason) == ("failed", True)
    late = ending_of(TRAINING, ObservedJob(pods=[ended(0, 0), pod(1)], ended_s=100, age_s=9999, running_s=9990))
    assert late is not None and late.state == "timeout"


ENDINGS = {
    "both done": (ObservedJob(pods=[ended(0, 0), ended(1, 0)]), "succeeded", "exit code 0"),
    "worker that does not end": (ObservedJob(pods=[ended(0, 0), pod(1)], ended_s=11), "succeeded", "pair-0-x on gpu01"),
    "crash": (ObservedJob(pods=[ended(0, 3), pod(1)]), "failed", "pair-0-x on gpu01 ended with exit code 3"),
    "out of memory": (ObservedJob(pods=[ended(0, 137, "OOMKilled"), pod(1)]), "failed", "137 (OOMKilled)"),
    "worker crash": (ObservedJob(pods=[pod(0), ended(1, 71)], ended_s=11), "failed", "pair-1-x on gpu02"),
    "eviction": (ObservedJob(pods=[pod(0, "Failed", reason="Evicted", message="disk full")]), "failed", "disk full"),
    "drain": (ObservedJob(pods=[pod(0), disturbed(1, "EvictionByEvictionAPI")]), "lost-node", "pair-1-x on gpu02"),
    "node under pressure": (
        ObservedJob(pods=[pod(0, "Failed", reason="Evicted", message="The node was low on resource: memory. ")]),
        "lost-node",
        "was evicted: The node was low on resource: memory.",
    ),
    "preemption": (ObservedJob(pods=[disturbed(0, "PreemptionByScheduler"), pod(1)]), "preempted", "pair-0-x"),
    "taint": (ObservedJob(pods=[pod(0), disturbed(1, "DeletionByTaintManager")]), "lost-node", "gpu02"),
    "shutdown": (ObservedJob(pods=[pod(0), pod(1, "Failed", reason="NodeShutdown")]), "lost-node", "NodeShutdown"),
    "silent node": (
        ObservedJob(pods=[pod(0), pod(1)], lost_nodes={"gpu02": "NodeStatusUnknown"}),
        "lost-node",
        "Unknown",
    ),
    "pod taken away": (ObservedJob(pods=[pod(0)], gone=["pair-1-x"], gone_s=9.0), "lost-node", "pair-1-x"),
    "pod gone before anybody saw why": (
        ObservedJob(
            pods=[ended(0, 1)],
            gone=["pair-1-x"],
            preempted={"pair-1-x": "Preempted by pod 7 on node b"},
        ),
        "preempted",
        "Preempted by pod 7",
    ),
    "pod gone and its fellow failed": (
        ObservedJob(pods=[ended(0, 1)], gone=["pair-1-x"], gone_s=9.0),
        "failed",
        "exit code 1",
    ),
    "image backoff": (ObservedJob(pods=[waiting(0, "ImagePullBackOff"), pod(1)]), "image", "ImagePullBackOff"),
    "image unknown": (ObservedJob(pods=[waiting(0, "ErrImagePull", "manifest unknown")]), "image", "manifest unknown"),
    "bad mount": (ObservedJob(pods=[waiting(0, "CreateContainerConfigError", "no secret")]), "failed", "no secret"),
    "quota": (ObservedJob(pods=[], refusals=["exceeded quota: small"]), "refused", "exceeded quota"),
    "no controller": (ObservedJob(pods=[], age_s=106), "refused", "no pod was made within 105 s; does the job"),
    "no controller of accounts": (ObservedJob(pods=[], refusals=[NO_ACCOUNT], age_s=106), "refused", "not found"),
    "no scheduler": (ObservedJob(pods=[unplaced(0, "")], age_s=106), "unschedulable", "the scheduler gives no reason"),
    "no room after all": (
        ObservedJob(pods=[unplaced(0, "0/2 nodes are available"), pod(1)], age_s=91, made_s=60),
        "unschedulable",
        "0/2 nodes are available",
    ),
    "no room": (
        ObservedJob(pods=[unplaced(0, "0/2 nodes are available"), pod(1)], age_s=31),
        "unschedulable",
        "1 of 2 pods not scheduled after 30 s: 0/2 nodes are available",
    ),
    "image takes too long": (
        ObservedJob(pods=[waiting(0, "ContainerCreating"), pod(1)], age_s=931),
        "slow-start",
        "ContainerCreating",
    ),
    "too long": (ObservedJob(pods=[pod(0), pod(1)], age_s=700, running_s=601), "timeout", "not done after 600 s"),
}


@pytest.mark.parametrize(("seen", "state", "words"), ENDINGS.values(), ids=ENDINGS.keys())
def test_every_end_is_told_apart(seen: ObservedJob, state: str, words: str) -> None:
    ending = ending_of(SPEC, seen)
    assert ending is not None
    assert ending.state == state
    assert words in ending.reason


@pytest.mark.parametrize(
    "seen",
    [
        # What the scheduler says of a pod that it took away may come after it.
        ObservedJob(pods=[], gone=["pair-0-x"], gone_s=1.0, age_s=500, made_s=1.0),
        ObservedJob(pods=[ended(0, 1)], gone=["pair-1-x"], gone_s=1.0),
        ObservedJob(pods=[]),
        ObservedJob(pods=[pod(0), pod(1)], age_s=599),
        ObservedJob(pods=[ended(0, 0), pod(1)], ended_s=1),
        ObservedJob(pods=[pod(0), ended(1, 71)], ended_s=1),
        ObservedJob(pods=[waiting(0, "ErrImagePull", "i/o timeout"), pod(1)]),
        ObservedJob(pods=[waiting(0, "ContainerCreating"), pod(1)]),
        # Five minutes for an image, and then nearly the whole time of the job.
        ObservedJob(pods=[waiting(0, "ContainerCreating"), pod(1)], age_s=700),
        ObservedJob(pods=[pod(0), pod(1)], age_s=899, running_s=599),
        ObservedJob(pods=[unplaced(0, "0/2 nodes are available"), pod(1)], age_s=29),
        # Controllers and schedulers come back up to a minute after the API server.
        ObservedJob(pods=[], age_s=100),
        ObservedJob(pods=[], refusals=[NO_ACCOUNT], age_s=31),
        ObservedJob(pods=[unplaced(0, "")], age_s=100),
        ObservedJob(pods=[unplaced(0, "0/2 nodes are available"), pod(1)], age_s=89, made_s=60),
    ],
)
def test_what_may_still_go_well_goes_on(seen: ObservedJob) -> None:
    assert ending_of(SPEC, seen) is None


def test_the_launcher_comes_first_and_is_called_by_its_hostname() -> None:
    pods = sorted([pod(10), pod(2), pod(0)], key=order_of)
    assert [hostname_of(item) for item in pods] == ["pair-0", "pair-2", "pair-10"]


LIMITS = "LimitRanger plugin set: cpu, memory request for container ranks; cpu, memory limit for container ranks"


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded"])
def test_a_limit_that_nobody_asked_for_is_an_end_before_anything_is_measured(phase: str) -> None:
    limited = [pod(0, phase), pod(1, phase)]
    limited[1]["metadata"]["annotations"] = {"kubernetes.io/limit-ranger": LIMITS}
    found = ending_of(SPEC, ObservedJob(pods=limited))
    assert found is not None and found.state == "refused"
    assert "cpu, memory limit for container ranks" in found.reason and "pair-1-x" in found.reason
    # A request alone takes nothing away.
    limited[1]["metadata"]["annotations"] = {"kubernetes.io/limit-ranger": LIMITS.partition(";")[0]}
    alone = ending_of(SPEC, ObservedJob(pods=limited))
    assert alone is None or alone.state != "refused"


@pytest.mark.parametrize(
    "wrong",
    [{"name": "Pair"}, {"name": "p" * 41}, {"nodes": ()}, {"nodes": ("a", "a")}, {"gpus_per_node": 0}, {"image": ""}],
)
def test_a_job_that_cannot_be_is_refused(wrong: Json) -> None:
    good: Json = {"name": "pair", "nodes": ("a", "b"), "gpus_per_node": 8, "image": "i", "command": ("c",)}
    JobSpec(**good)
    with pytest.raises(InputError):
        JobSpec(**(good | wrong))


def node(name: str, gpus: str = "8", ready: str = "True", **spec: Any) -> Json:
    conditions = [{"type": "Ready", "status": ready, "reason": "KubeletNotReady"}]
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"conditions": conditions, "allocatable": {"nvidia.com/gpu": gpus} if gpus else {}},
    }


def user(name: str, gpus: int, phase: str = "Running") -> Json:
    container = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"spec": {"nodeName": name, "containers": [container]}, "status": {"phase": phase}}


def claim(pool: str, driver: str = "gpu.nvidia.com", count: int = 1) -> Json:
    results = [{"driver": driver, "pool": pool, "device": f"gpu-{n}"} for n in range(count)]
    return {"status": {"allocation": {"devices": {"results": results}}}}


def test_free_gpus_count_pods_and_claims() -> None:
    taint = {"key": "other", "effect": "NoSchedule"}
    nodes = [node("a"), node("b", unschedulable=True), node("c", ready="False"), node("d", taints=[taint])]
    nodes += [node("e", gpus=""), node("f")]
    pods = [user("a", 3), user("a", 4, "Succeeded"), user("f", 8)]
    slices = [{"spec": {"driver": "gpu.nvidia.com", "nodeName": "e", "devices": [{}] * 4}}]
    claims = [claim("a", count=2), claim("a", driver="compute-domain.nvidia.com"), claim("e")]
    found = node_capacity(nodes, pods, claims, slices, ["a", "b", "c", "d", "e", "f", "gone"])
    assert {name: room.free for name, room in found.items()} == {
        "a": 3, "b": 0, "c": 0, "d": 0, "e": 3, "f": 0, "gone": 0,
    }  # fmt: skip
    assert found["e"].by_dra and not found["a"].by_dra
    closed = {name: room.closed for name, room in found.items() if room.closed}
    assert closed == {
        "b": "cordoned", "c": "not Ready (KubeletNotReady)", "d": "taint other:NoSchedule", "gone": "no such node",
    }  # fmt: skip


def test_a_large_gang_gets_the_time_that_a_cluster_needs_to_place_it() -> None:
    nodes = tuple(f"gpu{number:03d}" for number in range(512))
    large = replace(SPEC, nodes=nodes)
    waits = [unplaced(number, "0/512 nodes are available") for number in range(512)]
    assert ending_of(large, ObservedJob(pods=waits, age_s=80)) is None
    late = ending_of(large, ObservedJob(pods=waits, age_s=82))
    assert late is not None and late.reason.startswith("512 of 512 pods not scheduled after 81 s")


def test_a_pod_that_a_gate_holds_is_not_laid_on_the_scheduler() -> None:
    pods = [unplaced(number, "") for number in range(2)]
    for pod in pods:
        pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    ending = ending_of(SPEC, ObservedJob(pods=pods, age_s=1e4))
    assert ending is not None and ending.state == "unschedulable"
    assert "is held by the scheduling gate kueue.x-k8s.io/admission" in ending.reason


@pytest.mark.parametrize("kind", ["gang-job", "mpijob"])
@pytest.mark.parametrize("held", [False, True])
def test_a_job_that_was_suspended_when_it_was_made_ends_at_once_and_says_so(kind: Any, held: bool) -> None:
    """Where Kueue manages jobs without a queue name, its webhook suspends them."""

    class Api:
        transport = SimpleNamespace(outage=Outage(0.0))

        def kind(self, api_version: str, name: str) -> Kind:
            return Kind(api_version=api_version, kind=name, plural=f"{name.lower()}s")

        def create(self, _kind: Kind, body: Json, _namespace: str) -> Json:
            spec = body["spec"]
            where = spec if kind == "gang-job" else spec["runPolicy"]
            where["suspend"] = held
            return body

        def delete(self, *_args: Any, **_more: Any) -> None:
            return None

    api = cast(Cluster, Api())
    job = RunningJob(replace(SPEC, kind=kind, gang="none"), api, TemporaryNamespace(api, "test-abc", 60.0, ()))
    job.create()
    if not held:
        assert job.result is None
        return
    assert job.result is not None and job.result.state == "refused"
    assert "was suspended when it was made" in job.result.reason
    assert "gpufleet.io/purpose=test" in job.result.reason
