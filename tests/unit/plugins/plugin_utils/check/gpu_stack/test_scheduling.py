# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs and DRA: what the observers may use, and what the judges make of what was seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import dra_allocation, gang_admission
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.capacity import slots_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.claimed_container import (
    ContainerSeen,
    container_seen,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_dra import (
    ClaimedDevice,
    ClaimResult,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_gang import WAITS, GangResult
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.api_versions import dra_kinds
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import (
    NodeCapacity,
    node_capacity,
    open_nodes,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.follow import held_by_gates, why_pending
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import render

from .conftest import context, recipe

GANG = GangResult(provider="volcano", nodes=("gpu01",), slots=4, gang_size=3, gpus_per_pod=8, bound={"a": 3, "b": 0})
UUIDS = ("GPU-0a", "GPU-0b")
DEVICES = tuple(
    ClaimedDevice(driver="gpu.nvidia.com", pool="gpu01", device=f"gpu-{n}", known=True, uuid=UUIDS[n]) for n in range(2)
)
SEEN = ContainerSeen(exit_code=0, uuids=UUIDS, printed="GPU 0: NVIDIA H100 (UUID: GPU-0a)")
DRA = ClaimResult(asked=2, nodes=("gpu01",), allocated=True, node="gpu01", devices=DEVICES, pool_nodes=("gpu01",),
                  container=SEEN)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "status", "cause"),
    [
        ({}, Status.PASSED, ""),
        ({"bound": {"a": 3, "b": 1}}, Status.FAILED, "gang-partial"),
        ({"bound": {"a": 2, "b": 2}}, Status.FAILED, "gang-partial"),
        ({"bound": {"a": 0, "b": 1}}, Status.FAILED, "gang-partial"),
        ({"bound": {"a": 0, "b": 0}}, Status.FAILED, "gang-not-admitted"),
        ({"bound": {"a": 3, "b": 3}}, Status.FAILED, "gang-overcommitted"),
        ({"problem": "no-gang-scheduler", "reason": "not served"}, Status.FAILED, "no-gang-scheduler"),
        ({"problem": "scheduler-not-ready", "reason": "0 of 1"}, Status.OTHER, "blocked-by-component-health"),
        ({"problem": "no-capacity", "reason": "all busy"}, Status.OTHER, "no-capacity"),
        ({"problem": "queue-unusable", "reason": "queue default", "hint": "state one"}, Status.OTHER, "queue-unusable"),
        ({"problem": "held-by-admission", "reason": "gate"}, Status.OTHER, "held-by-admission"),
        ({"bound": {}}, Status.OTHER, "no-data"),
        ({"gpus_per_pod": 0}, Status.OTHER, "no-gpus-asked"),
        ({"leftovers": ("pods: stuck",)}, Status.OTHER, "cleanup-incomplete"),
    ],
)
def test_gangs(change: dict[str, Any], status: Status, cause: str) -> None:
    (outcome,) = gang_admission.judge(replace(GANG, **change), context())
    assert (outcome.status, outcome.cause) == (status, cause)


@pytest.mark.parametrize(
    ("change", "status", "cause"),
    [
        ({}, Status.PASSED, ""),
        ({"allocated": False, "devices": (), "node": ""}, Status.FAILED, "dra-not-allocated"),
        ({"node": ""}, Status.FAILED, "dra-not-allocated"),
        ({"devices": DEVICES[:1]}, Status.FAILED, "dra-wrong-devices"),
        ({"devices": (DEVICES[0], DEVICES[0])}, Status.FAILED, "dra-wrong-devices"),
        ({"devices": (DEVICES[0], replace(DEVICES[1], known=False))}, Status.FAILED, "dra-wrong-devices"),
        ({"pool_nodes": ("gpu02",)}, Status.FAILED, "dra-wrong-devices"),
        ({"problem": "dra-not-served", "reason": "x"}, Status.FAILED, "dra-not-served"),
        ({"problem": "driver-not-ready", "reason": "x"}, Status.OTHER, "blocked-by-component-health"),
        ({"problem": "no-devices", "reason": "x"}, Status.OTHER, "blocked-by-dra-slices"),
        ({"asked": 0}, Status.OTHER, "no-data"),
        # An allocation is the scheduler's word; what the container sees decides.
        ({"container": None}, Status.OTHER, "container-not-looked-into"),
        ({"container": replace(SEEN, uuids=UUIDS[:1])}, Status.FAILED, "dra-gpus-not-visible"),
        ({"container": replace(SEEN, uuids=())}, Status.FAILED, "dra-gpus-not-visible"),
        ({"container": replace(SEEN, uuids=("GPU-0a", "GPU-0c"))}, Status.FAILED, "dra-gpus-not-visible"),
        (
            {"container": replace(SEEN, exit_code=9, printed="Failed to initialize NVML: Unknown Error")},
            Status.FAILED,
            "dra-gpus-not-visible",
        ),
        (
            {"container": replace(SEEN, exit_code=None, reason="FailedPrepareDynamicResources: no CDI device")},
            Status.FAILED,
            "dra-not-prepared",
        ),
        (
            {"container": replace(SEEN, exit_code=None, reason="ContainerCreating")},
            Status.OTHER,
            "container-not-started",
        ),
        (
            {"container": replace(SEEN, exit_code=None, no_image=True, reason="ErrImagePull")},
            Status.OTHER,
            "image-not-pulled",
        ),
        ({"container": replace(SEEN, uuids=(), unread="pods is forbidden")}, Status.OTHER, "log-unread"),
        ({"devices": tuple(replace(device, uuid="") for device in DEVICES)}, Status.PASSED, ""),
    ],
)
def test_dra(change: dict[str, Any], status: Status, cause: str) -> None:
    (outcome,) = dra_allocation.judge(replace(DRA, **change), context())
    assert (outcome.status, outcome.cause) == (status, cause)


@pytest.mark.parametrize(
    ("provider", "waits", "rating", "cause"),
    [
        ("kueue", True, Rating.GOOD, ""),
        ("kueue", False, Rating.MARGINAL, "pods-not-waited-for"),
        ("kueue", None, Rating.MARGINAL, "pods-not-waited-for"),
        # Who places a gang as a whole has nothing to wait for.
        ("volcano", None, Rating.GOOD, ""),
    ],
)
def test_quota_alone_is_no_gang(provider: str, waits: bool | None, rating: Rating, cause: str) -> None:
    words = {} if waits is None else {WAITS: str(waits).lower()}
    seen = replace(GANG, provider=provider, conditions={**GANG.conditions, **words})
    (outcome,) = gang_admission.judge(seen, context())
    assert (outcome.rating, outcome.cause) == (rating, cause), outcome.summary


def test_the_schedulers_own_words_are_quoted() -> None:
    said = "QueueDoesNotExist: Queue 'default' does not exist."
    (outcome,) = gang_admission.judge(replace(GANG, bound={"a": 0, "b": 0}, said=said), context())
    assert said in outcome.summary
    (outcome,) = gang_admission.judge(replace(GANG, problem="queue-unusable", reason="x", hint="state y"), context())
    assert outcome.hint == "state y"


def test_a_pod_that_an_admission_holds_says_nothing_about_the_scheduler() -> None:
    held = {"metadata": {"name": "a-0"}, "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
    assert "kueue.x-k8s.io/admission" in held_by_gates(held)
    assert held_by_gates({"metadata": {"name": "a-0"}, "spec": {}}) == ""
    message = "QueueDoesNotExist: Queue 'x' does not exist."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    assert why_pending({"status": {"conditions": [condition]}}) == message


PRINTED = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-0b)\n"


def _pod(**state: Any) -> dict[str, Any]:
    return {"status": {"containerStatuses": [{"name": "hold", "state": state}]}}


@pytest.mark.parametrize(
    ("pod", "printed", "warning", "expected"),
    [
        (
            _pod(running={"startedAt": "2026-01-01T00:00:00Z"}),
            PRINTED,
            "",
            ContainerSeen(exit_code=0, uuids=UUIDS, printed=PRINTED.strip()),
        ),
        (
            _pod(terminated={"exitCode": 0, "reason": "Completed"}),
            PRINTED,
            "",
            ContainerSeen(exit_code=0, uuids=UUIDS, printed=PRINTED.strip()),
        ),
        (
            _pod(terminated={"exitCode": 128, "reason": "StartError", "message": "nvidia-smi: not found"}),
            "",
            "",
            ContainerSeen(exit_code=128, reason="StartError: nvidia-smi: not found"),
        ),
        (
            _pod(waiting={"reason": "ContainerCreating"}),
            "",
            "FailedPrepareDynamicResources: x",
            ContainerSeen(reason="FailedPrepareDynamicResources: x"),
        ),
        (
            _pod(waiting={"reason": "ImagePullBackOff", "message": "Back-off"}),
            "",
            "",
            ContainerSeen(reason="ImagePullBackOff: Back-off", no_image=True),
        ),
    ],
)
def test_what_a_container_with_a_claim_sees(
    pod: dict[str, Any], printed: str, warning: str, expected: ContainerSeen
) -> None:
    assert container_seen(pod, printed, warning) == expected


class _Server:
    def __init__(self, *versions: str) -> None:
        self.versions = versions

    def served_versions(self, group: str) -> tuple[str, ...]:
        return self.versions if group == "resource.k8s.io" else ()


@pytest.mark.parametrize(
    ("served", "version", "exactly"),
    [(("v1", "v1beta1"), "v1", True), (("v1beta1", "v1beta2"), "v1beta2", True), (("v1beta1",), "v1beta1", False)],
)
def test_the_beta_versions_of_dra_are_served_as_well(served: tuple[str, ...], version: str, exactly: bool) -> None:
    server: Any = _Server(*served)
    kinds = dra_kinds(server)
    assert kinds is not None and (kinds.version, kinds.exactly) == (version, exactly)
    assert {kinds.claims.api_version, kinds.slices.api_version} == {f"resource.k8s.io/{version}"}
    variables = {"name": "n", "namespace": "s", "api_version": kinds.claims.api_version, "exactly": exactly,
                 "command": ["nvidia-smi", "-L"], "count": 2, "device_class": "gpu.nvidia.com", "nodes": ["gpu01"],
                 "image": "i", "priority_class": "p", "labels": {}, "tolerations": [], "deadline_s": 1}  # fmt: skip
    claim, pod = render(RECIPES / "workloads" / "dra-allocation.yaml.j2", variables)
    request = claim["spec"]["devices"]["requests"][0]
    assert ("exactly" in request) is exactly and (request.get("exactly") or request)["count"] == 2
    assert pod["spec"]["containers"][0]["command"] == ["nvidia-smi", "-L"]


def test_no_version_of_dra_is_none() -> None:
    server: Any = _Server("v1alpha3")
    assert dra_kinds(server) is None


def test_a_recipe_that_gives_out_no_gpus_by_dra_is_not_passed() -> None:
    refs = recipe()
    refs["componentRefs"][1]["values"] = {"resources": {"gpus": {"enabled": False}}}
    (outcome,) = dra_allocation.judge(DRA, context(recipe=refs))
    assert (outcome.status, outcome.cause) == (Status.FAILED, "no-dra-driver")


ROOMS = st.builds(
    NodeCapacity,
    name=st.text("abc", min_size=1),
    total=st.integers(0, 8),
    used=st.integers(0, 8),
    closed=st.sampled_from(["", "cordoned"]),
    by_dra=st.sampled_from([False, False, True]),
)


@given(st.lists(ROOMS, unique_by=lambda room: room.name), st.integers(2, 6))
@example([NodeCapacity(name=name, total=1, used=0, closed="", by_dra=False) for name in "ab"], 2)
def test_one_gang_fits_and_two_do_not(found: list[NodeCapacity], most: int) -> None:
    slots = slots_of(found, most)
    possible = {room.name: room.free for room in found}
    if slots is None:
        assert max(possible.values(), default=0) < 2
        return
    assert slots.gang <= slots.count < 2 * slots.gang
    assert len(slots.nodes) <= most
    assert slots.count == sum(possible[name] // slots.gpus for name in slots.nodes)
    assert {slots.by_dra} == {room.by_dra for room in found if room.name in slots.nodes}, "a gang asks in one way"
    by_plugin = [room for room in found if not room.by_dra]
    # One node has room for two pods, or two nodes have one GPU each, which is free.
    enough = max((room.free for room in by_plugin), default=0) >= 2
    enough |= sum(room.free == room.total == 1 for room in by_plugin) >= 2
    assert slots.by_dra is not enough


def _node(name: str, **spec: Any) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}]
    status = {"conditions": ready, "allocatable": {"nvidia.com/gpu": "8"}}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def test_tests_keep_off_nodes_that_do_not_take_pods() -> None:
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    gpu_taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    down = _node("down")
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    nodes = [_node("good", taints=[gpu_taint]), _node("cordoned", unschedulable=True), _node("tainted", taints=[taint]),
             down, _node("other")]  # fmt: skip
    names = {"good", "cordoned", "tainted", "down"}
    assert open_nodes(nodes, names) == {"good"}
    found = node_capacity(nodes, [], [], [], names)
    assert slots_of(found.values(), 4) == slots_of([found["good"]], 4)


def test_gpus_in_use_are_not_free() -> None:
    def pod(node: str, gpus: str, phase: str) -> dict[str, Any]:
        limits = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
        return {"spec": {"nodeName": node, "containers": [limits, {}]}, "status": {"phase": phase}}

    pods = [pod("a", "3", "Running"), pod("a", "4", "Succeeded"), pod("b", "8", "Pending")]
    slots = slots_of(node_capacity([_node("a"), _node("b")], pods, [], [], {"a", "b"}).values(), 4)
    assert slots is not None and (slots.nodes, slots.count, slots.gpus) == (("a",), 5, 1)


def test_many_shares_of_gpus_and_what_pods_hold_of_them_are_counted() -> None:
    """The API server writes 1000 as `1k`; a node whose shares are all held was taken for one with whole GPUs."""
    limits = {"resources": {"limits": {"nvidia.com/gpu.shared": "1k"}}}
    pod = {"spec": {"nodeName": "a", "containers": [limits]}, "status": {"phase": "Running"}}
    room = node_capacity([_parted("a", {"nvidia.com/gpu.shared": "2k"})], [pod], [], [], {"a"})["a"]
    assert (room.parts, room.parts_used) == ({"nvidia.com/gpu.shared": 2000}, {"nvidia.com/gpu.shared": 1000})


def _parted(name: str, parts: dict[str, str], **more: Any) -> dict[str, Any]:
    node = _node(name, **more)
    node["status"]["allocatable"] = {"pods": "110", "nvidia.com/gpu": "0", **parts}
    return node


@pytest.mark.parametrize(
    ("parts", "gpus", "resource", "count"),
    [
        ({"nvidia.com/gpu.shared": "80"}, 8, "nvidia.com/gpu.shared", 80),
        ({"nvidia.com/mig-1g.10gb": "56"}, 8, "nvidia.com/mig-1g.10gb", 56),
        # Several kinds: the one of which there are fewest makes the fewest pods.
        ({"nvidia.com/mig-1g.10gb": "16", "nvidia.com/mig-3g.40gb": "8"}, 8, "nvidia.com/mig-3g.40gb", 8),
        # Not renamed, or all slices alike: more of the usual name than the host has GPUs.
        ({"nvidia.com/gpu": "32"}, 8, "nvidia.com/gpu", 32),
        ({"nvidia.com/gpu": "8"}, 8, "nvidia.com/gpu", 8),
    ],
)
def test_gangs_are_tried_with_what_a_shared_node_gives_out(
    parts: dict[str, str], gpus: int, resource: str, count: int
) -> None:
    found = node_capacity([_parted("a", parts)], [], [], [], {"a"})
    slots = slots_of(found.values(), 4, {"a": gpus})
    assert slots is not None
    assert (slots.resource, slots.count, slots.gpus, slots.nodes) == (resource, count, 1, ("a",))


def test_two_shared_nodes_are_never_taken_for_two_whole_ones() -> None:
    names = {"a", "b"}
    found = node_capacity([_parted(name, {"nvidia.com/gpu": "80"}) for name in sorted(names)], [], [], [], names)
    slots = slots_of(found.values(), 4, dict.fromkeys(names, 8))
    assert slots is not None and (slots.nodes, slots.gpus, slots.count) == (("a",), 1, 80)


def test_parts_that_users_hold_and_rooms_for_pods_are_counted() -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu.shared": "3"}}}
    pods = [{"spec": {"nodeName": "a", "containers": [limits]}, "status": {"phase": "Running"}}]
    node = _parted("a", {"nvidia.com/gpu.shared": "16"})
    (found,) = node_capacity([node], pods, [], [], {"a"}).values()
    assert (found.free_parts, found.pods_free, found.free) == ({"nvidia.com/gpu.shared": 13}, 109, 0)
    # A gang that the kubelet has no room for says nothing about the scheduler.
    node["status"]["allocatable"]["pods"] = "7"
    assert slots_of(node_capacity([node], pods, [], [], {"a"}).values(), 4, {"a": 8}) is None


def test_a_shared_node_is_not_asked_for_whole_gpus_by_claim() -> None:
    slices = [{"spec": {"driver": "gpu.nvidia.com", "nodeName": "a", "devices": [{}] * 8}}]
    (found,) = node_capacity([_parted("a", {"nvidia.com/gpu.shared": "16"})], [], [], slices, {"a"}).values()
    assert (found.total, found.by_dra) == (0, False)


@pytest.mark.parametrize("name", ["gang-kai", "gang-native", "gang-volcano"])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared"])
def test_pods_of_gangs_ask_for_the_resource_of_the_test(name: str, resource: str) -> None:
    values = {
        "name": "gang-a", "namespace": "n", "size": 2, "gpus": 1, "resource": resource, "nodes": ["a"],
        "scheduler": "s", "queue": "q", "image": "i", "priority_class": "p", "tolerations": [], "labels": {},
        "deadline_s": 60.0, "claim_templates": [], "pod_claims": [], "claims": [],
    }  # fmt: skip
    group, *pods = render(RECIPES / "workloads" / f"{name}.yaml.j2", values)
    assert [pod["spec"]["containers"][0]["resources"]["limits"] for pod in pods] == [{resource: 1}] * 2
    assert group["spec"].get("minResources", {resource: "2"}) == {resource: "2"}
