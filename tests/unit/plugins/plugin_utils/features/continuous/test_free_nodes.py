# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of Kubernetes are free, each thing that keeps one from it, and that nothing missing makes one free."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.continuous.free_nodes import SYSTEM, free_nodes
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.node_use import NodeUse, Use

Json = dict[str, Any]


def node(name: str = "gpu01", **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "labels": {}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}], **spec},
        "status": {
            "allocatable": {"nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(name: str = "job", where: str = "gpu01", gpus: int = 0, namespace: str = "team", **more: Any) -> Json:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {"nodeName": where, "containers": [{"resources": {"limits": limits}}]}
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": spec | more.pop("spec", {}), "status": {"phase": "Running", **more}}


def owned(kind: str) -> Json:
    return {"ownerReferences": [{"kind": kind, "name": "x", "controller": True}]}


OURS = {"gpufleet.io/managed-by": "gpufleet.bringup", "gpufleet.io/purpose": "test"}
DEVICE = {"driver": "gpu.nvidia.com", "pool": "gpu01", "device": "gpu-0"}
CLAIM = {
    "metadata": {"name": "c", "namespace": "team"},
    "status": {"allocation": {"devices": {"results": [DEVICE]}}, "reservedFor": [{"name": "by-claim"}]},
}
ADMIN = copy.deepcopy(CLAIM)
ADMIN["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True  # type: ignore[index]
SLICE = {"spec": {"driver": "gpu.nvidia.com", "nodeName": "gpu01", "devices": [{"name": f"gpu-{n}"} for n in range(8)]}}


def use(obj: Json, pods: tuple[Json, ...] = (), claims: tuple[Json, ...] = (), **how: Any) -> NodeUse:
    return free_nodes([obj], pods, claims, how.pop("slices", ()), {"gpu01"}, **how)["gpu01"]


def test_a_node_with_nothing_on_it_is_free() -> None:
    assert use(node()) == NodeUse(name="gpu01", use=Use.FREE) and use(node()).free


def test_a_node_whose_gpus_dra_offers_is_free_until_a_claim_holds_one() -> None:
    dra = node()
    del dra["status"]["allocatable"]["nvidia.com/gpu"]
    assert use(dra, slices=[SLICE]).free
    held = use(dra, (pod("by-claim"),), (CLAIM,), slices=[SLICE])
    assert (held.use, held.why) == (Use.BUSY, "pod team/by-claim holds GPUs")


def test_a_claim_without_a_pod_holds_its_node_and_one_for_watching_does_not() -> None:
    assert use(node(), (), (CLAIM,)).why == "claims hold 1 GPU of it, and no pod that is there does"
    assert use(node(), (), (ADMIN,)).free


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (pod(gpus=8), "pod team/job holds GPUs"),
        (pod(), "pod team/job is there"),
        (pod(gpus=1, namespace="kube-system"), "pod kube-system/job holds GPUs"),
        (pod(gpus=1, metadata=owned("DaemonSet")), "pod team/job holds GPUs"),
        (pod(phase="Pending"), "pod team/job is there"),
        (pod(phase="Unknown"), "pod team/job is there"),
        (pod(metadata={"deletionTimestamp": "2026-11-23T00:00:00Z"}), "pod team/job is there"),
        (pod(where="", phase="Pending", nominatedNodeName="gpu01"), "pod team/job waits for it"),
        (pod(gpus=8, metadata={"labels": OURS}), "our pod team/job holds GPUs"),
        (pod(metadata={"labels": OURS}, namespace="kube-system"), "our pod kube-system/job is there"),
        (pod(metadata=owned("ReplicaSet")), "pod team/job is there"),
        (
            pod(spec={"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}}}]}, namespace="calico"),
            "pod calico/job holds GPUs",
        ),
        (
            pod(spec={"initContainers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}, namespace="kube-system"),
            "pod kube-system/job holds GPUs",
        ),
    ],
)  # fmt: skip
def test_whose_work_keeps_a_node_from_being_free(there: Json, why: str) -> None:
    assert use(node(), (there,)) == NodeUse(name="gpu01", use=Use.BUSY, why=why)


@pytest.mark.parametrize(
    "there",
    [
        pod(phase="Succeeded", gpus=8),
        pod(phase="Failed", gpus=8),
        pod(where="gpu02", gpus=8),
        pod(metadata=owned("DaemonSet")),
        pod(metadata={"annotations": {"kubernetes.io/config.mirror": "abc"}}),
        pod(metadata=owned("Node")),
        pod(namespace="kube-system"),
    ],
)
def test_what_does_not_keep_a_node_from_being_free(there: Json) -> None:
    assert use(node(), (there,)).free


def test_pods_of_components_and_pods_without_gpus_may_be_let_be() -> None:
    calm, loud = pod(namespace="monitoring"), pod(gpus=1, namespace="monitoring")
    assert not use(node(), (calm,)).free
    assert use(node(), (calm,), system={*SYSTEM, "monitoring"}).free and use(node(), (calm,), beside_others=True).free
    assert not use(node(), (loud,), system={"monitoring"}).free and not use(node(), (loud,), beside_others=True).free
    assert not use(node(), (pod(metadata={"labels": OURS}),), beside_others=True).free


def test_of_many_pods_the_first_are_named_those_with_gpus_before_others() -> None:
    pods = tuple(pod(f"p{n}", gpus=8 if n == 4 else 0) for n in range(5))
    assert use(node(), pods).why == (
        "pod team/p4 holds GPUs, pod team/p0 is there, pod team/p1 is there and 2 more"
    )  # fmt: skip


def test_what_closes_a_node() -> None:
    def closed(obj: Json) -> str:
        found = use(obj)
        assert found.use is Use.CLOSED
        return found.why

    assert closed(node(unschedulable=True)) == "cordoned"
    assert closed(node(taints=[{"key": "team", "value": "a", "effect": "NoExecute"}])) == "taint team=a:NoExecute"
    late = node()
    late["status"]["conditions"][0] |= {"status": "Unknown", "reason": "NodeStatusUnknown"}
    assert closed(late) == "not Ready (NodeStatusUnknown)"
    empty = node()
    empty["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    assert closed(empty) == "it offers no GPU, neither by device plugin nor by DRA"
    leaving = node()
    leaving["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z"
    assert closed(leaving) == "it is being removed from the cluster"
    gone = free_nodes([], (), (), (), {"gpu01"})["gpu01"]
    assert (gone.use, gone.why) == (Use.CLOSED, "it is not in the cluster")


def cordoned_by_us() -> Json:
    found = node(unschedulable=True)
    found["metadata"]["annotations"] = {
        "gpufleet.io/cordoned-by": "continuous", "gpufleet.io/held-because": "wrong digest",
    }  # fmt: skip
    found["spec"]["taints"] += [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "gpufleet.io/held", "value": "continuous", "effect": "NoSchedule"},
    ]
    return found


def test_a_cordon_of_ours_is_known_as_ours_and_hides_nothing_else() -> None:
    assert use(cordoned_by_us()) == NodeUse(
        name="gpu01", use=Use.OURS, why="cordoned by us (continuous): wrong digest"
    )  # fmt: skip
    assert use(cordoned_by_us(), (pod(gpus=8),)).use is Use.BUSY
    silent, tainted, foreign, lifted = (cordoned_by_us() for unused in range(4))
    silent["status"]["conditions"][0]["status"] = "False"
    assert use(silent).why.startswith("not Ready")
    tainted["spec"]["taints"].append({"key": "team", "effect": "NoSchedule"})
    assert (use(tainted).use, use(tainted).why) == (Use.CLOSED, "taint team:NoSchedule")
    del foreign["metadata"]["annotations"]["gpufleet.io/cordoned-by"]
    assert (use(foreign).use, use(foreign).why) == (Use.CLOSED, "cordoned")
    lifted["spec"]["unschedulable"] = False
    assert use(lifted).use is Use.CLOSED and "gpufleet.io/held" in use(lifted).why


@pytest.mark.parametrize(
    "path", [("status",), ("status", "allocatable"), ("status", "conditions"), ("spec", "nothing")]
)
def test_a_node_that_says_less_is_not_free(path: tuple[str, ...]) -> None:
    thin = node()
    holder = thin
    for key in path[:-1]:
        holder = holder[key]
    holder.pop(path[-1], None)
    assert use(thin).free is (path == ("spec", "nothing"))


def test_only_the_nodes_that_are_asked_for_are_answered() -> None:
    found = free_nodes([node(), node("gpu02"), node("cpu01")], [pod(where="cpu01")], (), (), ["gpu02", "gpu01"])
    assert list(found) == ["gpu01", "gpu02"] and all(entry.free for entry in found.values())
