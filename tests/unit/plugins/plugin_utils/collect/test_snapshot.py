# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of a cluster: what is kept of its objects, in which pages, and what a collector says that cannot see."""

from __future__ import annotations

from dataclasses import replace

import pytest
from snapshot_api import UID, Json, PagedApi, cluster_of, everything, node, pod

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError, GoneError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import collect_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.difference import (
    Importance,
    drift_between,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.criteria import parse_criteria
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.detect import detect
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.request import catalogue_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.formats import parse_snapshot, to_text
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.measure import cluster_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import Collected, Snapshot

OPERATOR = "nvcr.io/nvidia/gpu-operator:v26.7.0"


def pods() -> list[dict[str, object]]:
    """Two revisions of a Deployment, a DaemonSet, a static pod, and two pods that do not last."""
    return [
        pod("op-7d-x", ("ReplicaSet", "gpu-operator-7d"), OPERATOR, "a", **{"pod-template-hash": "7d"}),
        pod(
            "op-8e-x",
            ("ReplicaSet", "gpu-operator-8e"),
            "nvcr.io/nvidia/gpu-operator:v26.8.0",
            **{"pod-template-hash": "8e"},
        ),
        pod("driver-1", ("DaemonSet", "nvidia-driver-daemonset"), "nvcr.io/nvidia/driver:580", "b"),
        pod("etcd-gpu01", ("Node", "gpu01"), "registry.k8s.io/etcd:3.6"),
        pod("train-0", ("Job", "train"), "example.org/train:1"),
        pod("bench", ("Notebook", "x"), "example.org/notebook:1"),
    ]


def taken(api: PagedApi) -> Snapshot:
    return collect_cluster(cluster_of(api), "gpufleet.bringup 0.0.0")


def test_every_part_of_a_cluster_is_there() -> None:
    seen = taken(everything([node("gpu01"), node("gpu02")], pods()))
    assert (seen.cluster_uid, seen.server.version, seen.server.go_version) == (UID, "v1.34.1", "go1.24.6")
    first = seen.nodes["gpu01"]
    assert (first.provider, first.kubelet, first.ready) == ("aws", "v1.34.1-eks-113cf36", "True")
    assert first.taints == ("nvidia.com/gpu=present:NoSchedule",)
    assert first.allocatable["vpc.amazonaws.com/efa"] == "32"
    assert first.devices["gpu.nvidia.com/gpu01/gpu-0"] == {"type": "gpu", "uuid": "GPU-1", "capacity.memory": "80Gi"}
    assert seen.classes["StorageClass gp3"] == {"provisioner": "ebs.csi.aws.com", "default": "true"}
    assert seen.classes["DeviceClass gpu.nvidia.com"] == {}
    assert seen.policies["ClusterPolicy cluster-policy"]["driver.version"] == "580.95.05"
    assert not seen.failed
    assert "nicclusterpolicies.mellanox.com" in seen.collectors["policies"].not_served


def test_a_driver_of_its_own_for_some_nodes_is_a_policy_as_well() -> None:
    api = everything([node("gpu01")], [])
    driver = {"metadata": {"name": "blackwell"}, "spec": {"version": "580.95.05", "nodeSelector": {"pool": "b200"}}}
    api.lists["/apis/nvidia.com/v1alpha1/nvidiadrivers"] = [driver]
    seen = taken(api)
    assert seen.policies["NVIDIADriver blackwell"] == {"version": "580.95.05", "nodeSelector.pool": "b200"}
    newer = {**seen.policies, "NVIDIADriver blackwell": {"version": "590.1.1", "nodeSelector.pool": "b200"}}
    (change,) = drift_between(seen, replace(seen, policies=newer)).changes
    assert (change.path, change.importance) == ("policy[version]", Importance.HIGH)


def test_images_are_those_of_pods_that_last_with_the_digests_that_run() -> None:
    seen = taken(everything([node("gpu01")], pods()))
    assert sorted(seen.workloads) == [
        "DaemonSet gpu-operator/nvidia-driver-daemonset",
        "Deployment gpu-operator/gpu-operator",
        "static Pod gpu-operator/etcd",
    ]
    both = ("nvcr.io/nvidia/gpu-operator:v26.7.0", "nvcr.io/nvidia/gpu-operator:v26.8.0")
    assert seen.workloads["Deployment gpu-operator/gpu-operator"].images == {"main": both}
    assert seen.images[OPERATOR] == (f"sha256:{'a' * 64}",)
    assert seen.images["registry.k8s.io/etcd:3.6"] == ()


def test_a_secret_in_a_policy_or_a_label_is_masked_before_anything_is_written() -> None:
    seen = taken(everything([node("gpu01", **{"example.org/api-token": "hunter2hunter2"})], []))
    text = to_text(seen)
    assert "nvapi-" not in text and "hunter2" not in text
    assert "[redacted]" in seen.nodes["gpu01"].labels["example.org/api-token"]


def test_what_moves_by_itself_is_not_kept() -> None:
    text = to_text(taken(everything([node("gpu01")], pods())))
    for moving in ("81231", "lastHeartbeatTime", "5d3c", "sizeBytes", "train"):
        assert moving not in text, moving


def test_a_snapshot_is_read_back_as_it_was() -> None:
    seen = taken(everything([node("gpu01")], pods()))
    assert parse_snapshot(to_text(seen), "snapshot.json") == seen


def test_lists_are_read_in_pages_of_500() -> None:
    api = everything([node(f"gpu{number:04}") for number in range(1201)], [])
    assert len(taken(api).nodes) == 1201
    assert api.pages.count("/api/v1/nodes") == 3


@pytest.mark.parametrize(
    ("path", "collector"),
    [
        ("/api/v1/nodes", "nodes"),
        ("/api/v1/pods", "workloads"),
        ("/apis/nvidia.com/v1/clusterpolicies", "policies"),
        ("/apis/resource.k8s.io/v1/resourceslices", "devices"),
        ("/apis/storage.k8s.io/v1/storageclasses", "classes"),
        ("/version", "server"),
    ],
)
def test_a_collector_that_may_not_look_is_named_with_the_fix(path: str, collector: str) -> None:
    api = everything([node("gpu01")], [])
    api.refused[path] = ForbiddenError(f"Kubernetes API list {path}", "forbidden.", "grant ops that verb")
    seen = taken(api)
    assert list(seen.failed) == [collector]
    assert path in seen.failed[collector].reason
    assert seen.failed[collector].hint == "grant ops that verb"


def test_devices_of_nodes_that_could_not_be_listed_are_not_lost() -> None:
    api = everything([node("gpu01")], [])
    api.refused["/api/v1/nodes"] = ForbiddenError("list nodes", "forbidden.", "grant it")
    assert list(taken(api).shared_devices) == ["gpu.nvidia.com/gpu01/gpu-0"]


def test_a_list_that_expires_three_times_is_a_failed_collector() -> None:
    api = everything([node("gpu01")], [])
    api.refused["/api/v1/pods"] = GoneError("list pods", "expired.")
    assert "expired three times" in taken(api).failed["workloads"].reason


def test_a_collector_ends_at_its_time_limit_and_says_how_far_it_came() -> None:
    api = everything([node("gpu01")], [])
    seen = collect_cluster(cluster_of(api), "test", limit_s=-1.0)
    assert "when the time was over" in seen.failed["nodes"].reason
    assert seen.collectors["server"].state is Collected.WHOLE


def test_a_server_that_says_nothing_at_all_is_an_error_and_no_empty_snapshot() -> None:
    api = everything([], [])
    for path in (*api.lists, *api.objects, "/apis/node.k8s.io/v1/runtimeclasses"):
        api.refused[path] = ForbiddenError(path, "forbidden.", "grant it")
    with pytest.raises(BringupError, match="no collector got an answer"):
        taken(api)


def test_what_nobody_asked_for_is_said_and_not_left_out() -> None:
    seen = taken(everything([node("gpu01")], []))
    assert {name for name, found in seen.collectors.items() if found.state is Collected.NOT_ASKED} == {
        "hosts",
        "releases",
    }


def test_criteria_come_from_a_snapshot_with_evidence_for_each() -> None:
    seen = taken(everything([node("gpu01"), node("gpu02")], []))
    vocabulary = catalogue_of(()).vocabulary
    found = {
        entry.dimension: entry
        for entry in detect(cluster_facts(seen), vocabulary, parse_criteria({}, vocabulary)).findings
    }
    said = {name: found[name].value for name in ("service", "accelerator", "os", "fabric")}
    assert said == {"service": "", "accelerator": "h100", "os": "ubuntu", "fabric": "efa"}
    assert "node gpu01: resource is vpc.amazonaws.com/efa (2 node(s) say so)" in found["fabric"].evidence
    labelled = taken(everything([node("gpu01", **{"eks.amazonaws.com/nodegroup": "gpu"})], []))
    again = detect(cluster_facts(labelled), vocabulary, parse_criteria({}, vocabulary)).findings
    assert next(entry.value for entry in again if entry.dimension == "service") == "eks"


MARKED = {"annotations": {"gpufleet.io/rehearsal": "true"}}
SIMULATED = {"annotations": {"kwok.x-k8s.io/node": "fake"}}


@pytest.mark.parametrize(
    ("space", "metadata", "said"),
    [({}, {}, False), (MARKED, {}, True), ({}, SIMULATED, True), (MARKED, SIMULATED, True)],
    ids=["a cluster", "the mark of kube-system", "nodes of KWOK", "both"],
)
def test_a_snapshot_says_whether_it_is_of_a_rehearsal(space: Json, metadata: Json, said: bool) -> None:
    first = node("gpu01")
    first["metadata"] |= metadata
    api = everything([first, node("gpu02")], pods())
    api.objects["/api/v1/namespaces/kube-system"]["metadata"] |= space
    assert taken(api).rehearsal is said


def test_where_nobody_could_read_the_mark_a_snapshot_says_that_nobody_knows() -> None:
    api = everything([node("gpu01")], pods())
    api.refused["/api/v1/namespaces/kube-system"] = ForbiddenError("Kubernetes API", "may not", "")
    assert taken(api).rehearsal is None


def test_lists_of_a_device_are_kept_and_read_back_whatever_their_order() -> None:
    """kubernetes/enhancements keps/sig-scheduling/5491-dra-list-types-for-attributes: bools, ints, strings."""
    lists = {"roots": {"strings": ["pci0000:20", "pci0000:10"]}, "numa": {"ints": [1, 0]}, "ok": {"bools": [True]}}
    turned = {name: {kind: values[::-1] for kind, values in value.items()} for name, value in lists.items()}
    snapshots = []
    for attributes in (lists, turned, {**lists, "numa": {"ints": [0]}}):
        api = everything([node("gpu01")], [])
        (slices,) = (rows for path, rows in api.lists.items() if path.endswith("/resourceslices"))
        slices[0]["spec"]["devices"][0]["attributes"] |= attributes
        snapshots.append(parse_snapshot(to_text(taken(api)), "again"))
    first, second, other = snapshots
    device = first.nodes["gpu01"].devices["gpu.nvidia.com/gpu01/gpu-0"]
    assert (device["roots"], device["numa"], device["ok"]) == ('["pci0000:10", "pci0000:20"]', "[0, 1]", "[true]")
    assert drift_between(first, second).changes == ()
    assert [change.before for change in drift_between(first, other).changes] == ["[0, 1]"]
