# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a snapshot says to constraints: every name that recipes use, and nothing that was not seen is passed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.declared import (
    OF_CLUSTER,
    OF_DEPLOYMENT,
    OPEN,
    unknown_name,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.constraint.evaluate import (
    Constraint,
    ConstraintStatus,
    Quantifier,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.measure import evaluate_in
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    COLLECTORS,
    WHOLE_HOST,
    Collected,
    CollectorResult,
    Host,
    HostGpu,
    Node,
    Release,
    Server,
    Snapshot,
    Workload,
    gpu_nodes,
)

WHOLE = CollectorResult(state=Collected.WHOLE)
FAILED = CollectorResult(state=Collected.FAILED, reason="forbidden")
MISSING = ConstraintStatus.MISSING
NODE = Node(
    provider_id="aws:///us-east-1a/i-1",
    labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "pool": "a"},
    capacity={"nvidia.com/gpu": "8"},
    kubelet="v1.34.1-eks-113cf36",
    container_runtime="containerd://2.0.5",
    kernel="6.8.0-1028-aws",
    os_image="Ubuntu 24.04.2 LTS",
    operating_system="linux",
)
HOST = Host(
    os={"ID": "ubuntu", "VERSION_ID": "24.04", "VERSION_CODENAME": "noble", "NAME": "Ubuntu", "ID_LIKE": "debian"},
    boot={"iommu": "pt"},
    sysctl={"/proc/sys/net/core/somaxconn": "4096"},
    modules=("nvidia", "nvidia_peermem"),
    units={"containerd.service": {"ActiveState": "active"}},
    driver="580.95.05",
    cuda="13.0",
    gpus={"0": HostGpu(product="NVIDIA H100 80GB HBM3", vbios="96.00")},
)
SEEN = Snapshot(
    taken="2026-11-23T05:00:00Z",
    made_by="gpufleet.bringup 1.0.0",
    collectors=dict.fromkeys(COLLECTORS, WHOLE),
    server=Server(version="v1.34.1-eks-113cf36", platform="linux/amd64", go_version="go1.24.6"),
    nodes={"gpu01": NODE, "gpu02": NODE, "cpu01": Node(os_image="Bottlerocket OS 1.42.0")},
    hosts={"gpu01": HOST, "gpu02": HOST},
    workloads={
        "Deployment gpu-operator/gpu-operator": Workload(images={"main": ("nvcr.io/nvidia/gpu-operator:v25.10.1",)})
    },
    images={"nvcr.io/nvidia/gpu-operator:v25.10.1": ()},
    policies={"ClusterPolicy cluster-policy": {"driver.enabled": False}},
    releases={"gpu-operator/gpu-operator": Release(chart="gpu-operator", version="v25.10.1", status="deployed")},
    provider={
        "aks-gpu-pools": {"gpu-pool-count": 2, "gpu-driver": "Install"},
        "gke-gpu-pools": {"gpu-pool-count": 2, "gpu-driver-installation": "Disabled"},
        "oke-addons": {"nvidia-gpu-plugin": "absent"},
        "oke-legacy-plugin": {"nvidia-gpu-device-plugin": "none"},
    },
)
GPUS = ("gpu01", "gpu02")


def asked(name: str, value: str, seen: Snapshot = SEEN, **more: Any) -> ConstraintStatus:
    return evaluate_in(Constraint(name=name, value=value, **more), seen, GPUS).status


HOLDS = [
    ("K8s.server.version", ">= 1.32.4"),
    ("K8s.server.platform", "linux/amd64"),
    ("OS.release.ID", "ubuntu"),
    ("OS.release.VERSION_ID", "24.04"),
    ("OS.release.VERSION_CODENAME", "noble"),
    ("OS.sysctl./proc/sys/kernel/osrelease", ">= 6.8"),
    ("OS.sysctl./proc/sys/net/core/somaxconn", "4096"),
    ("OS.grub.iommu", "pt"),
    ("OS.kmod.nvidia_peermem", "true"),
    ("SystemD.containerd.service.ActiveState", "active"),
    ("GPU.smi.driver", ">= 580.65"),
    ("GPU.smi.cuda-version", ">= 13.0"),
    ("GPU.smi.gpu.model", "NVIDIA H100 80GB HBM3"),
    ("K8s.node.provider", "eks"),
    ("K8s.node.kubelet-version", ">= 1.34"),
    ("K8s.node.container-runtime-version", ">= 2.0"),
    ("K8s.image.gpu-operator", "v25.10.1"),
    ("K8s.policy.driver.enabled", "false"),
    ("NodeTopology.summary.node-count", ">= 3"),
    ("NodeTopology.gpu-nodes.label", "pool=a"),
    ("NodeTopology.gpu-nodes.label", "!spot"),
    ("K8s.aks-gpu-pools.gpu-driver", "Install"),
    ("K8s.gke-gpu-pools.gpu-driver-installation", "Disabled"),
    ("K8s.gke-gpu-pools.gpu-pool-count", ">= 2"),
    ("K8s.oke-addons.nvidia-gpu-plugin", "absent"),
    ("Deployment.gpu-operator.version", ">= v24.6.0"),
    ("Deployment.gpu-driver.version", ">= 580.65"),
]


@pytest.mark.parametrize(("name", "value"), HOLDS)
def test_a_constraint_that_holds_is_measured(name: str, value: str) -> None:
    assert asked(name, value) is ConstraintStatus.PASS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("K8s.server.version", ">= 1.35"),
        ("OS.release.ID", "rhel"),
        ("OS.kmod.nouveau", "true"),
        ("GPU.smi.driver", ">= 590"),
        ("K8s.image.gpu-operator", "v26.3.0"),
        ("K8s.aks-gpu-pools.gpu-driver", "None"),
        ("K8s.gke-gpu-pools.gpu-driver-installation", "Installed"),
        ("K8s.oke-addons.nvidia-gpu-plugin", "installed"),
        ("K8s.oke-legacy-plugin.nvidia-gpu-device-plugin", "active"),
        ("NodeTopology.gpu-nodes.label", "pool=b"),
        ("NodeTopology.gpu-nodes.label", "!pool"),
        ("Deployment.gpu-operator.version", ">= v26"),
    ],
)
def test_a_constraint_that_does_not_hold_fails(name: str, value: str) -> None:
    assert asked(name, value) is ConstraintStatus.FAIL


OPERATOR = "Deployment.gpu-operator.version"


def _operator_by(images: dict[str, tuple[str, ...]], **releases: Release) -> Snapshot:
    runs = {"Deployment gpu-operator/gpu-operator": Workload(images=images)}
    return replace(SEEN, workloads=runs, releases={f"gpu-operator/{name}": r for name, r in releases.items()})


def test_the_tag_of_the_operator_is_that_of_its_own_container() -> None:
    """On OpenShift it is named by its digest, and what a mesh or a proxy puts beside it has a tag."""
    digest = "registry.connect.redhat.com/nvidia/gpu-operator@sha256:0123"
    proxy = {"kube-rbac-proxy": ("quay.io/brancz/kube-rbac-proxy:v0.18.0",), "a-mesh": ("istio/proxyv2:1.24.0",)}
    assert asked(OPERATOR, ">= v0.1", _operator_by({"gpu-operator": (digest,), **proxy})) is ConstraintStatus.MISSING
    tagged = _operator_by({"gpu-operator": ("harbor.example/nvidia/gpu-operator:v25.10.1",), **proxy})
    assert asked(OPERATOR, ">= v25", tagged) is ConstraintStatus.PASS
    assert asked(OPERATOR, ">= v26", tagged) is ConstraintStatus.FAIL
    mirrored = _operator_by({"main": ("mirror.example/gpus/operator:v25.10.1",)})
    assert asked(OPERATOR, ">= v25", mirrored) is ConstraintStatus.PASS
    rolling = _operator_by({"gpu-operator": ("nvidia/gpu-operator:v25.3.4", "nvidia/gpu-operator:v25.10.1")})
    assert asked(OPERATOR, ">= v25", rolling) is ConstraintStatus.MISSING


@pytest.mark.parametrize("status", ["failed", "pending-upgrade", "uninstalled"])
def test_what_helm_tried_last_is_not_what_runs(status: str) -> None:
    tried = Release(chart="gpu-operator", version="v26.3.0", status=status)
    older = _operator_by({"gpu-operator": ("nvcr.io/nvidia/gpu-operator:v25.3.4",)}, mine=tried)
    assert asked(OPERATOR, ">= v26", older) is ConstraintStatus.FAIL
    assert asked(OPERATOR, ">= v26", replace(older, workloads={})) is ConstraintStatus.MISSING


def test_two_operators_of_different_versions_have_none() -> None:
    both = {name: Release(chart="gpu-operator", version=v, status="deployed") for name, v in
            (("one", "v25.3.4"), ("two", "v26.3.0"))}  # fmt: skip
    assert asked(OPERATOR, ">= v26", _operator_by({}, **both)) is ConstraintStatus.MISSING
    same = {name: replace(release, version="v26.3.0") for name, release in both.items()}
    assert asked(OPERATOR, ">= v26", _operator_by({}, **same)) is ConstraintStatus.PASS


@pytest.mark.parametrize("value", ["pool", "!", "", "=a", "pool==a", "!pool=a"])
def test_a_label_in_no_known_form_is_an_error_and_no_verdict(value: str) -> None:
    assert asked("NodeTopology.gpu-nodes.label", value) is ConstraintStatus.ERROR


def test_one_node_that_differs_breaks_a_constraint_unless_any_is_enough() -> None:
    old = replace(SEEN, nodes={**SEEN.nodes, "gpu02": replace(NODE, kernel="5.15.0-1050-aws")})
    name = "OS.sysctl./proc/sys/kernel/osrelease"
    assert asked(name, ">= 6.8", old) is ConstraintStatus.FAIL
    assert asked(name, ">= 6.8", old, nodes=Quantifier.ANY) is ConstraintStatus.PASS


LEGACY = "K8s.oke-legacy-plugin.nvidia-gpu-device-plugin"


def test_that_there_is_no_plugin_of_before_add_ons_is_seen_and_what_one_does_is_not() -> None:
    here = replace(SEEN, provider={})
    assert asked(LEGACY, "none", here) is ConstraintStatus.PASS
    there = replace(here, workloads={"DaemonSet kube-system/nvidia-gpu-device-plugin": Workload()})
    assert asked(LEGACY, "none", there) is ConstraintStatus.MISSING
    assert asked(LEGACY, "none", replace(here, collectors={**SEEN.collectors, "workloads": FAILED})) is MISSING
    active = replace(SEEN, provider={"oke-legacy-plugin": {"nvidia-gpu-device-plugin": "active"}})
    assert asked(LEGACY, "none", active) is ConstraintStatus.FAIL


def test_what_only_the_provider_knows_is_asked_for_with_the_file_that_has_it() -> None:
    constraint = Constraint(name="K8s.aks-gpu-pools.gpu-driver", value="Install")
    result = evaluate_in(constraint, replace(SEEN, provider={}), GPUS)
    assert result.status is MISSING and "gpufleet_snapshot_provider=aks-gpu-pools=FILE" in result.reason


NOTHING = Snapshot(taken="", made_by="", collectors=dict.fromkeys(COLLECTORS, WHOLE), nodes={n: Node() for n in GPUS})


@pytest.mark.parametrize("name", sorted({name for name, _value in HOLDS} - {"NodeTopology.gpu-nodes.label"}))
def test_a_snapshot_without_the_fact_is_unmeasured(name: str) -> None:
    value = dict(HOLDS)[name]
    found = asked(name, value, NOTHING)
    assert found is (ConstraintStatus.FAIL if name.startswith("NodeTopology") else ConstraintStatus.MISSING)


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ("NVIDIA H100 80GB HBM3", ConstraintStatus.PASS),
        ("NVIDIA A100-SXM4-80GB", ConstraintStatus.FAIL),
        ("", ConstraintStatus.MISSING),
    ],
)
def test_no_gpu_of_a_node_stands_for_another(other: str, status: ConstraintStatus) -> None:
    host = replace(HOST, gpus={**HOST.gpus, "1": HostGpu(product=other, vbios="96.00")})
    nodes = dict.fromkeys(GPUS, replace(NODE, labels={}))
    seen = replace(SEEN, hosts=dict.fromkeys(GPUS, host), nodes=nodes)
    assert asked("GPU.smi.gpu.model", "NVIDIA H100 80GB HBM3", seen) is status


def test_a_collector_that_failed_is_the_reason_why_nothing_is_known() -> None:
    failed = CollectorResult(state=Collected.FAILED, reason="nodes: forbidden", hint="grant it")
    cut = replace(SEEN, collectors={**SEEN.collectors, "nodes": failed})
    result = evaluate_in(Constraint(name="OS.release.ID", value="ubuntu"), cut, GPUS)
    assert result.status is ConstraintStatus.MISSING and "nodes: nodes: forbidden" in result.reason


def test_a_host_that_nobody_could_ask_is_the_reason_why_nothing_is_known_of_it() -> None:
    lost = {GPUS[0]: Host(unread={WHOLE_HOST: "cordoned"})}
    result = evaluate_in(Constraint(name="OS.kmod.nvidia", value="true"), replace(SEEN, hosts=lost), GPUS[:1])
    assert result.status is ConstraintStatus.MISSING and f"Not read: {GPUS[0]} (cordoned)" in result.reason


def test_labels_of_feature_discovery_say_what_a_snapshot_of_one_node_does_not() -> None:
    labels = {
        **NODE.labels,
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/kernel-version.full": "6.8.0-1028-aws",
        "nvidia.com/cuda.driver-version.full": "580.95.05",
    }
    bare = replace(SEEN, nodes={name: Node(labels=labels) for name in GPUS}, hosts={})
    for name, value in (("OS.release.ID", "ubuntu"), ("GPU.smi.driver", "580.95.05")):
        assert asked(name, value, bare) is ConstraintStatus.PASS


def test_gpu_nodes_are_those_with_gpus_and_hosts_are_found_by_their_name_in_the_inventory() -> None:
    assert gpu_nodes(SEEN) == GPUS
    named = replace(SEEN, hosts={"rack1-a": HOST})
    constraint = Constraint(name="OS.grub.iommu", value="pt")
    assert evaluate_in(constraint, named, ("gpu01",), {"gpu01": "rack1-a"}).status is ConstraintStatus.PASS
    assert evaluate_in(constraint, named, ("gpu01",)).status is ConstraintStatus.MISSING


@pytest.mark.parametrize("name", [*OF_CLUSTER, *OF_DEPLOYMENT, *(f"{prefix}x.y" for prefix in OPEN)])
def test_every_name_that_may_be_written_is_one_that_a_snapshot_is_asked_for(name: str) -> None:
    assert unknown_name(name, "deployment") == ""
    # A name without a reader would be an error for lack of one, and not for lack of the fact.
    result = evaluate_in(Constraint(name=name, value="x"), SEEN, GPUS)
    assert result.status is not ConstraintStatus.PASS


def test_processes_of_a_unit_that_a_pod_saw_do_not_stand_for_its_state() -> None:
    read = replace(HOST, units={"containerd.service": {"Populated": "true"}}, read_by="pod")
    seen = replace(SEEN, hosts={"gpu01": read, "gpu02": read})
    assert asked("SystemD.containerd.service.ActiveState", "active", seen) is ConstraintStatus.MISSING
    assert asked("SystemD.containerd.service.Populated", "true", seen) is ConstraintStatus.PASS
