# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers see the GPUs that they get, all of them and no others, on every node."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from lease_cluster import MemoryCluster

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    gpu_containers,
    secure_accelerator_access,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.access import (
    AccessResult,
    Looked,
    NodeAccess,
    looked,
    owner_seen,
    refused_by_kubelet,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.claimed_container import ContainerSeen
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_access import (
    AccessSettings,
    _host_path,
    _looked_at,
    _requested,
    objects,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError, Outage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import NodeCapacity
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace

from .conftest import NAMES, context, site

UUIDS = tuple(f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(9))
ALL = UUIDS[:8]
OWNER = ContainerSeen(exit_code=0, uuids=ALL, printed="GPU 0: NVIDIA H100 (UUID: GPU-00)")
NONE = Looked(done=True)
SETTINGS = AccessSettings(image="", timeout_s=60.0, run_s=300.0, cleanup_s=60.0)


def node(name: str, **more: Any) -> NodeAccess:
    seen = NodeAccess(
        node=name, total=8, free=8, resource="nvidia.com/gpu", asked=8, owner=OWNER, plain=NONE, asking=NONE
    )
    return replace(seen, **more)


def seen_on(**more: Any) -> AccessResult:
    """All is well but on gpu02."""
    nodes = tuple(node(name, **(more if name == "gpu02" else {})) for name in NAMES)
    return AccessResult(nodes=nodes, host_path_refused="violates PodSecurity baseline: hostPath volumes")


def on_gpu02(check: Any, seen: AccessResult) -> Outcome:
    return next(o for o in check.judge(seen, context()) if o.subjects[0].name == "gpu02")


@pytest.mark.parametrize("check", [gpu_containers, secure_accelerator_access])
def test_a_healthy_fleet_passes_on_every_node(check: Any) -> None:
    found = check.judge(seen_on(), context())
    assert [outcome.status for outcome in found] == [Status.PASSED] * len(NAMES)


@pytest.mark.parametrize(
    ("change", "status", "cause"),
    [
        ({"owner": replace(OWNER, uuids=UUIDS[:7])}, Status.FAILED, "gpus-not-visible"),
        (
            {"owner": ContainerSeen(exit_code=255, printed="Failed to initialize NVML: Unknown Error")},
            Status.FAILED,
            "gpus-not-visible",
        ),
        ({"owner": ContainerSeen(exit_code=0)}, Status.FAILED, "gpus-not-visible"),
        ({"owner": replace(OWNER, uuids=(*ALL[:7], "GPU-0"))}, Status.OTHER, "no-data"),
        ({"owner": None, "refused": "UnexpectedAdmissionError: no healthy GPU"}, Status.FAILED, "gpus-not-given"),
        ({"owner": None, "unplaced": "0/4 nodes: Insufficient"}, Status.OTHER, "container-not-placed"),
        ({"owner": None}, Status.OTHER, "container-not-placed"),
        ({"owner": ContainerSeen(no_image=True, reason="ErrImagePull")}, Status.OTHER, "image-not-pulled"),
        ({"owner": ContainerSeen(unread="pods is forbidden")}, Status.OTHER, "log-unread"),
        ({"owner": ContainerSeen(reason="ContainerCreating")}, Status.OTHER, "container-not-started"),
        ({"closed": "cordoned"}, Status.OTHER, "blocked-by-node-ready"),
        ({"total": 0, "free": 0, "asked": 0, "owner": None}, Status.OTHER, "blocked-by-gpu-allocatable"),
        ({"free": 0, "asked": 0, "owner": None}, Status.OTHER, "gpus-in-use"),
        ({"free": 0}, Status.OTHER, "no-data"),
        ({"total": 4}, Status.OTHER, "no-data"),
        (
            {"free": 3, "asked": 3, "owner": replace(OWNER, uuids=UUIDS[:3])},
            Status.OTHER,
            "gpus-in-use",
        ),
        # Of GPUs that are given out in parts one is asked for, and one is seen.
        (
            {"total": 32, "free": 32, "resource": "nvidia.com/gpu.shared", "asked": 1,
             "owner": replace(OWNER, uuids=UUIDS[:1])},
            Status.PASSED,
            "",
        ),
        ({"resource": ""}, Status.PASSED, ""),
        ({"owner": replace(OWNER, uuids=UUIDS)}, Status.OTHER, "blocked-by-secure-accelerator-access"),
    ],
)  # fmt: skip
def test_what_a_container_with_gpus_sees(change: dict[str, Any], status: Status, cause: str) -> None:
    found = on_gpu02(gpu_containers, seen_on(**change))
    assert (found.status, found.cause) == (status, cause)


@pytest.mark.parametrize(
    ("change", "rating", "cause"),
    [
        ({"plain": Looked(done=True, devices=("/dev/nvidia0",))}, Rating.BAD, "gpu-open-to-all"),
        ({"asking": Looked(done=True, devices=("/dev/nvidia0",))}, Rating.MARGINAL, "gpu-open-to-environment"),
        ({"owner": replace(OWNER, uuids=UUIDS)}, Rating.BAD, "gpu-not-its-own"),
        ({"plain": Looked(reason="ContainerCreating")}, Rating.UNKNOWN, "container-not-started"),
        ({"asking": Looked(reason="ErrImagePull", no_image=True)}, Rating.UNKNOWN, "image-not-pulled"),
        ({"plain": None, "asking": None, "unplaced": "taints"}, Rating.UNKNOWN, "container-not-placed"),
        ({"owner": ContainerSeen(exit_code=255)}, Rating.UNKNOWN, "blocked-by-gpu-containers"),
        # On a node whose GPUs are all in use a stranger's container still must not see them.
        ({"free": 0, "asked": 0, "owner": None}, Rating.GOOD, ""),
        ({"closed": "not Ready"}, Rating.UNKNOWN, "blocked-by-node-ready"),
    ],
)
def test_what_containers_see_that_is_not_theirs(change: dict[str, Any], rating: Rating, cause: str) -> None:
    found = on_gpu02(secure_accelerator_access, seen_on(**change))
    assert (found.rating, found.cause) == (rating, cause)


def test_host_paths_must_be_refused_and_must_be_asked_for() -> None:
    for said, cause in (("", "host-paths-open"), (None, "host-paths-not-asked")):
        (found,) = secure_accelerator_access.judge(replace(seen_on(), host_path_refused=said), context())
        assert found.cause == cause and len(found.subjects) == len(NAMES), "told once for the whole cluster"


class Admission(MemoryCluster):
    """Says to a pod what was given for pods with and without a file of their host."""

    def __init__(self, *, plain: BringupError | None, taking: BringupError | None) -> None:
        super().__init__()
        self.plain, self.taking = plain, taking

    def create(self, kind: Kind, body: dict[str, Any], namespace: str = "", *, dry_run: bool = False) -> Any:
        assert dry_run, "nothing is made"
        said = self.taking if body["spec"].get("volumes") else self.plain
        if said is not None:
            raise said
        return body


POLICY = ForbiddenError("pods", "violates PodSecurity baseline: hostPath volumes")
QUOTA = ForbiddenError("pods", "exceeded quota: pods=0")
AWAY = UnavailableError("pods", "HTTP 500: away")


@pytest.mark.parametrize(
    ("plain", "taking", "expected"),
    [
        (None, POLICY, (POLICY.reason, "")),
        (None, None, ("", "")),
        (None, AWAY, (None, AWAY.reason)),
        (QUOTA, QUOTA, (None, f"a pod without one is not taken either: {QUOTA.reason}")),
    ],
)
def test_only_the_file_of_the_host_may_be_why_a_pod_is_refused(
    plain: BringupError | None, taking: BringupError | None, expected: tuple[str | None, str]
) -> None:
    cluster = Admission(plain=plain, taking=taking)
    assert _host_path(TemporaryNamespace(cluster.api, "gpufleet-test-access-1", 60.0, ()), SETTINGS) == expected


@pytest.mark.parametrize("check", [gpu_containers, secure_accelerator_access])
def test_what_was_not_tried_or_is_left_behind_is_no_pass(check: Any) -> None:
    for seen in (AccessResult(), AccessResult(problem="held", reason="x"), replace(seen_on(), leftovers=("pods",))):
        assert all(outcome.status is Status.OTHER for outcome in check.judge(seen, context()))


def test_device_files_are_read_from_a_log_that_came_to_its_end() -> None:
    text = "device /dev/nvidia0\ndevice /dev/nvidiactl\ndevice /dev/nvidia-caps/nvidia-cap1\nlooked into /dev\n"
    assert looked({}, "plain", text, "").devices == ("/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia0", "/dev/nvidiactl")
    assert looked({}, "plain", "looked into /dev\n", "") == Looked(done=True)
    assert not looked({}, "plain", "device /dev/nvidia0\n", "").done
    waiting = {"name": "plain", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
    found = looked({"status": {"containerStatuses": [waiting]}}, "plain", "", "")
    assert found.no_image and "not found" in found.reason
    # What stands after a line in the middle of a log may be missing from one that was cut.
    cut = looked({}, "plain", "looked into /dev\n", "it was cut before its end.")
    assert not cut.done and cut.reason == "it was cut before its end."


def test_a_pod_that_its_kubelet_refuses_has_no_container() -> None:
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no healthy devices present"}
    assert refused_by_kubelet({"status": status}) == "UnexpectedAdmissionError: no healthy devices present"
    assert refused_by_kubelet({"status": {"phase": "Failed", "containerStatuses": [{"name": "owner"}]}}) == ""
    assert refused_by_kubelet({"status": {"phase": "Running"}}) == ""


@pytest.mark.parametrize("code", [143, 0])
def test_a_container_that_somebody_else_ended_says_nothing_of_its_gpus(code: int) -> None:
    """A drain and a user of higher priority end it with a code of its own; how many GPUs it had listed is chance."""
    ended = [{"name": "owner", "state": {"terminated": {"exitCode": code, "reason": "Error"}}}]
    disruption = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "evicting",
    }
    status = {"phase": "Failed", "containerStatuses": ended, "conditions": [disruption]}
    pod = {"metadata": {"name": "n2-owner"}, "spec": {"nodeName": "gpu02"}, "status": status}
    outcome = on_gpu02(gpu_containers, seen_on(owner=owner_seen(pod, "", "", "")))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "container-not-started")
    assert "n2-owner on gpu02: evicting" in outcome.summary
    assert refused_by_kubelet({**pod, "status": {**status, "containerStatuses": []}}) == ""
    assert looked(pod, "owner", "", "").reason == "n2-owner on gpu02: evicting"
    status["conditions"] = []
    failed = on_gpu02(gpu_containers, seen_on(owner=owner_seen(pod, "", "", "")))
    assert (failed.status, failed.cause) == (Status.FAILED, "gpus-not-visible")


@pytest.mark.parametrize(
    ("metadata", "terminated"),
    [
        # A node that restarted: containerd knows the container's end no more, or the kubelet not the container.
        ({}, {"exitCode": 255, "reason": "Unknown"}),
        ({}, {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located"}),
        # `kubectl drain --disable-eviction` deletes pods, and no condition says so.
        ({"deletionTimestamp": "2026-11-23T08:00:00Z"}, {"exitCode": 143, "reason": "Error"}),
    ],
)
def test_a_container_that_did_not_end_by_itself_says_nothing_of_its_gpus(
    metadata: dict[str, Any], terminated: dict[str, Any]
) -> None:
    status = {"phase": "Failed", "containerStatuses": [{"name": "owner", "state": {"terminated": terminated}}]}
    pod = {"metadata": {"name": "n2-owner", **metadata}, "spec": {"nodeName": "gpu02"}, "status": status}
    outcome = on_gpu02(gpu_containers, seen_on(owner=owner_seen(pod, "", "", "")))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "container-not-started")
    assert "n2-owner on gpu02" in outcome.summary


def test_a_container_that_ended_well_before_its_pod_was_removed_counts() -> None:
    ended = [{"name": "owner", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]
    pod = {
        "metadata": {"name": "n2-owner", "deletionTimestamp": "2026-11-23T08:00:00Z"},
        "spec": {"nodeName": "gpu02"},
        "status": {"phase": "Succeeded", "containerStatuses": ended},
    }
    printed = "".join(f"GPU {n}: NVIDIA H100 (UUID: {u})\n" for n, u in enumerate(ALL))
    assert on_gpu02(gpu_containers, seen_on(owner=owner_seen(pod, printed, "", ""))).status is Status.PASSED


@pytest.mark.parametrize(
    ("change", "status", "cause"),
    [
        (
            {"owner": None, "refused": "OutOfcpu: Node didn't have enough resource: cpu"},
            (Status.OTHER, Status.OTHER),
            "blocked-by-gpu-containers",
        ),
        (
            {"owner": None, "refused": "OutOfnvidia.com/gpu: Node didn't have enough resource: nvidia.com/gpu"},
            (Status.FAILED, Status.OTHER),
            "blocked-by-gpu-containers",
        ),
    ],
)
def test_only_a_refusal_for_gpus_says_something_of_them(
    change: dict[str, Any], status: tuple[Status, Status], cause: str
) -> None:
    """The kubelet's word is OutOf and the resource (kubernetes/kubernetes, pkg/kubelet/lifecycle/predicate.go)."""
    seen = seen_on(**change)
    own, others = on_gpu02(gpu_containers, seen), on_gpu02(secure_accelerator_access, seen)
    assert (own.status, others.status) == status and others.cause == cause
    assert own.status is not Status.OTHER or own.cause == "container-not-placed"
    assert "OutOf" in f"{own.summary} {others.summary}"


class Logs(MemoryCluster):
    """A kubelet that has the log of the container with GPUs."""

    transport = SimpleNamespace(outage=Outage(0.0))

    def logs(self, _name: str, _namespace: str, **_more: Any) -> str:
        return "".join(f"GPU {number}: NVIDIA H100 (UUID: {each})\n" for number, each in enumerate(ALL))


def test_a_refusal_of_the_pod_without_gpus_says_nothing_of_those_of_the_other() -> None:
    def made(role: str, **status: Any) -> dict[str, Any]:
        return {"metadata": {"name": f"n1-{role}"}, "spec": {"nodeName": "gpu02"}, "status": status}

    ended = [{"name": "owner", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]
    owner = made("owner", phase="Succeeded", containerStatuses=ended)
    none = made("none", phase="Failed", reason="OutOfpods", message="Node didn't have enough resource: pods")
    namespace = TemporaryNamespace(Logs().api, "gpufleet-test-access-1", 60.0, ())
    asked = NodeAccess(node="gpu02", total=8, free=8, resource="nvidia.com/gpu", asked=8)
    looked_at = _looked_at(namespace, asked, {"n1-owner": owner, "n1-none": none}, {}, 1)
    seen = replace(seen_on(), nodes=tuple(node(name) if name != "gpu02" else looked_at for name in NAMES))
    assert on_gpu02(gpu_containers, seen).status is Status.PASSED
    other = on_gpu02(secure_accelerator_access, seen)
    assert (other.status, other.cause) == (Status.OTHER, "container-not-started") and "OutOfpods" in other.summary


@pytest.mark.parametrize(
    ("capacity", "resource", "asked"),
    [
        (NodeCapacity(name="a", total=8, used=0), "nvidia.com/gpu", 8),
        (NodeCapacity(name="a", total=8, used=3), "nvidia.com/gpu", 5),
        (NodeCapacity(name="a", total=8, used=0, by_dra=True), "", 8),
        # Time-slicing under the plain name.
        (NodeCapacity(name="a", total=32, used=0), "nvidia.com/gpu", 1),
        (NodeCapacity(name="a", total=0, used=0, parts={"nvidia.com/mig-1g.10gb": 7}), "nvidia.com/mig-1g.10gb", 1),
        (NodeCapacity(name="a", total=8, used=0, closed="cordoned"), "", 0),
    ],
)
def test_how_many_gpus_a_container_asks_for(capacity: NodeCapacity, resource: str, asked: int) -> None:
    found = _requested(capacity, 8)
    assert (found.resource, found.asked) == (resource, asked)


def _made(*nodes: NodeAccess) -> list[dict[str, Any]]:
    namespace = TemporaryNamespace(MemoryCluster().api, "gpufleet-test-access-1", 60.0, ())
    return objects(namespace, list(nodes), SETTINGS)


def test_one_pod_of_a_node_asks_for_its_gpus_and_the_other_for_none() -> None:
    made = _made(node("gpu01"), node("gpu02", asked=0))
    assert [body["metadata"]["name"] for body in made] == ["n0-owner", "n0-none", "n1-none"]
    owner, none = made[0], made[1]
    (container,) = owner["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert [entry["name"] for entry in none["spec"]["containers"]] == ["plain", "asking"]
    plain, asking = none["spec"]["containers"]
    # An image of CUDA asks for all GPUs by its own environment, which is no fault of the node.
    assert plain["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in asking["env"]
    for body in made:
        assert not any("hostPath" in volume for volume in body["spec"].get("volumes", []))
        assert all(
            entry["securityContext"]["allowPrivilegeEscalation"] is False for entry in body["spec"]["containers"]
        )
        term = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["nodeSelectorTerms"][0]["matchFields"][0]["key"] == "metadata.name"
    assert all("resources" not in entry for entry in none["spec"]["containers"])


def test_gpus_that_are_given_out_by_claims_are_claimed() -> None:
    made = _made(node("gpu01", resource=""), node("gpu02", resource=""), node("gpu03", resource="", asked=4))
    templates = [body for body in made if body["kind"] == "ResourceClaimTemplate"]
    assert [body["metadata"]["name"] for body in templates] == ["all-4-gpus", "all-8-gpus"]
    owners = [body for body in made if body["metadata"]["name"].endswith("-owner")]
    named = [body["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] for body in owners]
    assert named == ["all-8-gpus", "all-8-gpus", "all-4-gpus"]
    assert all(body["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpus"}]} for body in owners)


def test_claims_that_the_scheduler_does_not_allocate_are_told_once() -> None:
    seen = AccessResult(nodes=tuple(node(name, resource="", owner=None, unplaced="x") for name in NAMES))
    by_claims = context(site=site(capabilities=("kubernetes", "dra")))
    (found,) = gpu_containers.judge(seen, by_claims)
    assert found.cause == "blocked-by-dra-allocation"
