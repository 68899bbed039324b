# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The stand-in charts and operators on a real control plane: real Helm installs, the real scheduler decides."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from added_nodes import POOL_LABELS, added, node_pool, tried, with_autoscaler
from cluster_bench import ClusterBench, cluster_bench
from seeds import drawing
from waiting import always, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.streams import run_in_pod
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Rating, Status
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Change, Fault

NODE_COUNT = int(os.environ.get("GPUFLEET_TEST_NODES", "4"))
CHARTS = {
    "gpu-operator": "v25.10.1",
    "nvidia-dra-driver-gpu": "25.12.0",
    "volcano": "1.12.2",
    "cert-manager": "v1.17.2",
    "unheard-of": "1.2.3",
}
BROKEN = {"never-ready": "never-ready", "absent": "install-fails"}
BROKEN_VERSION = "1.2.3"
WITH_DCGM = ("--set", "dcgm.enabled=true")
DRA_VALUES = (
    "--set", "gpuResourcesEnabledOverride=true", "--set", "nvidiaDriverRoot=/run/nvidia/driver",
    "--set", "controller.affinity=null",
)  # fmt: skip
Json = dict[str, Any]


class Bench(ClusterBench):
    """A bench, and what these tests ask of it."""

    def chart(self, name: str, *flags: str, namespace: str = "") -> None:
        done = self.install(name, CHARTS[name], *flags, namespace=namespace)
        assert done.rc == 0, done.stderr

    def policy(self) -> Json:
        return (self.cluster.find(objects.CLUSTER_POLICIES, "cluster-policy") or {}).get("status") or {}

    def node(self, name: str) -> Json:
        return self.cluster.get(objects.NODES, name)

    def namespace(self, name: str) -> str:
        self.cluster.apply(objects.NAMESPACES, {"metadata": {"name": name}})
        # Pods need the account that the controller manager makes in every namespace.
        eventually(lambda: self.cluster.transport.json("GET", f"/api/v1/namespaces/{name}/serviceaccounts")["items"])
        return name


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("rehearsal")
    broken = [{"name": name, "chart": name, "version": BROKEN_VERSION} for name in BROKEN]
    build_mirror(directory / "failing", broken, BROKEN)
    with cluster_bench(Bench, directory, NODE_COUNT, CHARTS) as bench:
        yield bench


@pytest.fixture(scope="module")
def gpu_operator(bench: Bench) -> Bench:
    bench.chart("gpu-operator", *WITH_DCGM)
    eventually(lambda: bench.policy().get("state") == "ready", what=bench.policy)
    return bench


@pytest.fixture(scope="module")
def volcano(gpu_operator: Bench) -> Bench:
    gpu_operator.chart("volcano", namespace="volcano-system")
    # The API server takes a policy into use some time after it is made, and until then no pod gets its group.
    eventually(lambda: _member(gpu_operator)["spec"].get("schedulingGroup"), what="a pod with its group")
    return gpu_operator


def _member(bench: Bench) -> Json:
    """A pod of a gang as the API server would keep it."""
    metadata = {"name": "member", "annotations": {"scheduling.k8s.io/group-name": "gang"}}
    spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "x"}]}
    return bench.cluster.create(objects.PODS, {"metadata": metadata, "spec": spec}, "default", dry_run=True)


@pytest.fixture
def healthy(gpu_operator: Bench) -> Iterator[Bench]:
    """The bench, healthy again after a test that broke it."""
    yield gpu_operator
    gpu_operator.with_faults()
    eventually(
        lambda: gpu_operator.policy().get("state") == "ready" and _allocatable(gpu_operator) == {"8"},
        what=lambda: (gpu_operator.policy(), _allocatable(gpu_operator)),
    )


def _allocatable(bench: Bench) -> set[str]:
    nodes = bench.cluster.list_objects(objects.NODES)
    return {node["status"]["allocatable"].get("nvidia.com/gpu", "none") for node in nodes}


def _some_node(bench: Bench) -> str:
    return drawing("operators").choice(bench.spec.nodes).name


def test_gpu_operator_makes_every_gpu_allocatable(gpu_operator: Bench) -> None:
    status = gpu_operator.policy()
    ready = next(item for item in status["conditions"] if item["type"] == "Ready")
    assert (ready["status"], ready["reason"], status["namespace"]) == ("True", "Reconciled", "gpu-operator")
    assert _allocatable(gpu_operator) == {"8"}
    labels = gpu_operator.node("gpu01")["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.memory"]) == ("8", "81559")
    assert labels["nvidia.com/cuda.driver-version.full"] == "580.105.08"
    sets = {item["metadata"]["name"] for item in gpu_operator.cluster.list_objects(objects.DAEMON_SETS, "gpu-operator")}
    assert {"nvidia-driver-daemonset", "nvidia-device-plugin-daemonset", "nvidia-dcgm", "nvidia-mig-manager"} <= sets


def _errors(bench: Bench) -> set[tuple[str, bool]]:
    found = [item for item in bench.policy().get("conditions", []) if item["type"] == "Error"]
    return {(item["reason"], "state-driver" in item["message"]) for item in found}


def test_a_driver_on_the_host_leaves_no_driver_pod(healthy: Bench) -> None:
    healthy.chart("gpu-operator", "--set", "driver.enabled=false,dcgm.enabled=true")
    find = partial(healthy.cluster.find, objects.DAEMON_SETS, "nvidia-driver-daemonset", "gpu-operator")
    try:
        # The policy may still be ready from before the change: the labels are what is written last.
        eventually(lambda: find() is None)
        eventually(lambda: "nvidia.com/gpu.deploy.driver" not in healthy.node("gpu01")["metadata"]["labels"])
        eventually(lambda: healthy.policy().get("state") == "ready")
    finally:
        healthy.chart("gpu-operator", *WITH_DCGM)
    eventually(lambda: find() and healthy.policy().get("state") == "ready")


def test_a_failing_driver_pod_is_seen_where_it_would_be(healthy: Bench) -> None:
    victim = _some_node(healthy)
    broken = {"operands_ready": False, "failing_operand": "nvidia-driver-daemonset"}
    changes = tuple(Change(at=f"node.kubernetes.{name}", set=value) for name, value in broken.items())
    healthy.with_faults(Fault(id="driver-pod", kind="node", subject=victim, patch=changes))
    # It may be notReady for a moment from the installation before; the fault is what stays.
    eventually(lambda: ("DriverNotReady", True) in _errors(healthy) and healthy.policy()["state"] == "notReady")
    eventually(lambda: healthy.node(victim)["status"]["allocatable"]["nvidia.com/gpu"] == "0")
    others = [node.name for node in healthy.spec.nodes if node.name != victim]
    assert {healthy.node(name)["status"]["allocatable"]["nvidia.com/gpu"] for name in others} == {"8"}
    eventually(lambda: _waiting_pods(healthy, victim).get("nvidia-driver-daemonset") == "CrashLoopBackOff")
    eventually(lambda: _waiting_pods(healthy, victim).get("nvidia-device-plugin-daemonset") == "PodInitializing")
    assert not any(_waiting_pods(healthy, name) for name in others)


def _waiting_pods(bench: Bench, node: str) -> dict[str, str]:
    pods = bench.cluster.list_objects(objects.PODS, "gpu-operator", fields=f"spec.nodeName={node}")
    reasons = {}
    for pod in pods:
        for container in pod["status"].get("containerStatuses") or []:
            if "waiting" in container["state"]:
                reasons[pod["metadata"]["labels"]["app"]] = container["state"]["waiting"]["reason"]
    return reasons


def test_the_device_plugin_offers_what_the_model_says(healthy: Bench) -> None:
    victim = _some_node(healthy)
    change = Change(at="node.kubernetes.device_plugin_gpus", set=7)
    healthy.with_faults(Fault(id="seven", kind="node", subject=victim, patch=(change,)))
    eventually(lambda: healthy.node(victim)["status"]["allocatable"]["nvidia.com/gpu"] == "7")
    assert healthy.policy()["state"] == "ready"


def test_commands_in_a_pod_run_the_tools_of_its_host(gpu_operator: Bench) -> None:
    victim = _some_node(gpu_operator)
    pods = gpu_operator.cluster.list_objects(objects.PODS, "gpu-operator", fields=f"spec.nodeName={victim}")
    pod = next(item for item in pods if item["metadata"]["labels"].get("app") == "nvidia-driver-daemonset")
    expected = (gpu_operator.directory / "hosts" / victim / "out" / "gpus.txt").read_text()
    result = run_in_pod(gpu_operator.cluster, pod["metadata"]["name"], "gpu-operator", ["nvidia-smi", "-L"], 10)
    assert (result.rc, result.stdout) == (0, expected)
    assert expected.count("GPU-") == 8
    shell = run_in_pod(gpu_operator.cluster, pod["metadata"]["name"], "gpu-operator", ["sh", "-c", "nvidia-smi -L"], 10)
    assert shell.stdout == expected


def test_dra_publishes_and_the_scheduler_allocates(healthy: Bench) -> None:
    healthy.chart("nvidia-dra-driver-gpu", *DRA_VALUES, namespace="nvidia-dra-driver")
    eventually(lambda: len(_gpu_slices(healthy)) == NODE_COUNT)
    devices = _gpu_slices(healthy)["gpu01"]["spec"]["devices"]
    assert [device["name"] for device in devices] == [f"gpu-{index}" for index in range(8)]
    assert devices[0]["attributes"]["driverVersion"] == {"version": "580.105.8"}
    assert devices[0]["capacity"]["memory"] == {"value": "81559Mi"}
    namespace = healthy.namespace("dra-healthy")
    _claim(healthy, namespace)
    claim = eventually(lambda: _allocation(healthy, namespace))
    assert len(claim["devices"]["results"]) == 2

    healthy.with_faults(
        Fault(
            id="stuck",
            kind="cluster",
            subject="bench",
            patch=(Change(at="cluster.stack.dra_driver", set="never-allocates"),),
        )
    )
    eventually(lambda: all(item["spec"]["devices"][0].get("taints") for item in _gpu_slices(healthy).values()))
    namespace = healthy.namespace("dra-stuck")
    _claim(healthy, namespace)
    always(lambda: not _allocation(healthy, namespace), 3)


def test_a_node_without_its_slice(healthy: Bench) -> None:
    healthy.chart("nvidia-dra-driver-gpu", *DRA_VALUES, namespace="nvidia-dra-driver")
    victim = _some_node(healthy)
    change = Change(at="node.kubernetes.dra_devices", set=0)
    healthy.with_faults(Fault(id="slice", kind="node", subject=victim, patch=(change,)))
    expected = {node.name for node in healthy.spec.nodes} - {victim}
    eventually(lambda: set(_gpu_slices(healthy)) == expected)


def _gpu_slices(bench: Bench) -> dict[str, Json]:
    items = bench.cluster.list_objects(objects.RESOURCE_SLICES)
    return {item["spec"]["nodeName"]: item for item in items if item["spec"]["driver"] == "gpu.nvidia.com"}


def _claim(bench: Bench, namespace: str) -> None:
    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "two"}}
    bench.cluster.create(objects.RESOURCE_CLAIMS, {**claim, "spec": {"devices": {"requests": [request]}}}, namespace)
    container = {"name": "c", "image": "x", "resources": {"claims": [{"name": "gpus"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpus", "resourceClaimName": "two"}]}
    bench.cluster.create(objects.PODS, {"metadata": {"name": "user"}, "spec": spec}, namespace)


def _allocation(bench: Bench, namespace: str) -> Json | None:
    return (bench.cluster.get(objects.RESOURCE_CLAIMS, "two", namespace).get("status") or {}).get("allocation")


def _gang(bench: Bench, namespace: str, name: str, size: int) -> None:
    spec = {"minMember": size, "queue": "default"}
    bench.cluster.create(
        objects.VOLCANO_POD_GROUPS,
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec},
        namespace,
    )
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    for number in range(size):
        metadata = {"name": f"{name}-{number}", "annotations": {"scheduling.k8s.io/group-name": name}}
        pod = {"metadata": metadata, "spec": {"schedulerName": "volcano", "containers": [container]}}
        bench.cluster.create(objects.PODS, pod, namespace)


def _bound(bench: Bench, namespace: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for pod in bench.cluster.list_objects(objects.PODS, namespace):
        group = pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
        counts[group] = counts.get(group, 0) + bool(pod["spec"].get("nodeName"))
    return counts


def _group_phase(bench: Bench, namespace: str, name: str) -> tuple[str, str]:
    status = bench.cluster.get(objects.VOLCANO_POD_GROUPS, name, namespace).get("status") or {}
    conditions = status.get("conditions") or [{}]
    return status.get("phase", ""), conditions[-1].get("type", "")


def _remove(bench: Bench, namespace: str) -> None:
    """Pods before their groups: a group stays until its pods are gone."""
    for pod in bench.cluster.list_objects(objects.PODS, namespace):
        bench.cluster.delete(objects.PODS, pod["metadata"]["name"], namespace, grace_period_s=0)
    for group in bench.cluster.list_objects(objects.VOLCANO_POD_GROUPS, namespace):
        bench.cluster.delete(objects.VOLCANO_POD_GROUPS, group["metadata"]["name"], namespace)
    bench.cluster.delete(objects.NAMESPACES, namespace)
    eventually(lambda: not bench.cluster.list_objects(objects.PODS, namespace))


def test_of_two_gangs_that_do_not_both_fit_one_runs_whole(volcano: Bench) -> None:
    namespace, size = volcano.namespace("gangs"), NODE_COUNT // 2 + 1
    _gang(volcano, namespace, "first", size)
    _gang(volcano, namespace, "second", size)
    eventually(
        lambda: sorted(_bound(volcano, namespace).values()) == [0, size], what=lambda: _bound(volcano, namespace)
    )
    always(lambda: sorted(_bound(volcano, namespace).values()) == [0, size], 3)
    winner, loser = sorted(("first", "second"), key=lambda name: -_bound(volcano, namespace)[name])
    eventually(lambda: _group_phase(volcano, namespace, winner) == ("Running", "Scheduled"))
    eventually(lambda: _group_phase(volcano, namespace, loser) == ("Inqueue", "Unschedulable"))
    _remove(volcano, namespace)


@pytest.mark.parametrize(("behaviour", "total"), [("partial", NODE_COUNT), ("not-running", 0)])
def test_a_gang_scheduler_that_does_not_do_its_job(volcano: Bench, behaviour: str, total: int) -> None:
    change = Change(at="cluster.stack.gang_scheduler", set=behaviour)
    volcano.with_faults(Fault(id="gang", kind="cluster", subject="bench", patch=(change,)))
    namespace, size = volcano.namespace(f"gangs-{behaviour}"), NODE_COUNT // 2 + 1
    _gang(volcano, namespace, "first", size)
    # Placed at the same time, each may take for granted what the other gets, and the scheduler looks again in minutes.
    eventually(lambda: _bound(volcano, namespace).get("first", 0) == min(size, total))
    _gang(volcano, namespace, "second", size)
    eventually(
        lambda: sum(_bound(volcano, namespace).values()) == total,
        what=lambda: (_bound(volcano, namespace), _allocatable(volcano)),
    )
    always(lambda: sum(_bound(volcano, namespace).values()) == total, 2)
    volcano.with_faults()
    _remove(volcano, namespace)


@pytest.mark.parametrize("who", ["karpenter", "cluster-autoscaler"])
def test_a_node_comes_for_a_pod_and_goes_after_it(healthy: Bench, who: str) -> None:
    with_autoscaler(healthy, who)
    with node_pool(healthy):
        outcome = tried(healthy, selector=POOL_LABELS if who == "karpenter" else {})
    assert outcome.status is Status.PASSED, outcome.summary
    assert "with 8 GPUs and ran the pod" in outcome.summary and added(healthy) == []


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("who", "becomes", "rating", "cause"),
    [
        ("karpenter", "never-comes", Rating.BAD, "node-not-added"),
        ("cluster-autoscaler", "never-comes", Rating.BAD, "node-not-added"),
        ("karpenter", "without-gpus", Rating.BAD, "node-without-gpus"),
        ("cluster-autoscaler", "without-gpus", Rating.BAD, "node-without-gpus"),
        ("karpenter", "stays", Rating.MARGINAL, "node-not-removed"),
        ("cluster-autoscaler", "stays", Rating.MARGINAL, "node-not-removed"),
        ("cluster-autoscaler", "at-limit", Rating.UNKNOWN, "no-room-to-grow"),
        # The role of the gate may not read the status in kube-system, so that nobody is there is not known.
        ("none", "comes", Rating.BAD, "autoscaler-silent"),
    ],
)
def test_a_node_that_does_not_do_its_way_is_told(
    healthy: Bench, who: str, becomes: str, rating: Rating, cause: str
) -> None:
    with_autoscaler(healthy, who, becomes)
    with ExitStack() as stack:
        if who == "karpenter":
            stack.enter_context(node_pool(healthy))
        outcome = tried(healthy)
        assert (outcome.rating, outcome.cause) == (rating, cause), outcome.summary
        # cluster-autoscaler takes away what nobody uses; Karpenter never uses, and never removes, what has no GPUs.
        assert bool(added(healthy)) is (becomes == "stays" or (who, becomes) == ("karpenter", "without-gpus"))
        with_autoscaler(healthy, who)
        eventually(lambda: not added(healthy), what=lambda: added(healthy))


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("limit", "selector", "rating", "cause"),
    [
        (0, POOL_LABELS, Rating.UNKNOWN, "no-room-to-grow"),
        (16, {"node.lab/pool": "other"}, Rating.BAD, "scale-up-refused"),
        (16, {"topology.lab/rack": "a"}, Rating.BAD, "scale-up-refused"),
        (16, {"kubernetes.io/hostname": "new"}, Rating.BAD, "autoscaler-silent"),
    ],
)
def test_what_karpenter_makes_no_node_for_is_told(
    healthy: Bench, limit: int, selector: dict[str, str], rating: Rating, cause: str
) -> None:
    with_autoscaler(healthy, "karpenter")
    with node_pool(healthy, limit):
        outcome = tried(healthy, selector=selector)
    assert (outcome.rating, outcome.cause) == (rating, cause), outcome.summary
    assert added(healthy) == []


def test_any_other_chart_installs(bench: Bench) -> None:
    for name in ("cert-manager", "unheard-of"):
        bench.chart(name)
        # Helm waits for the ReplicaSet (pkg/kube/ready.go); the Deployment's own status comes after it.
        eventually(
            lambda of=name: bench.cluster.get(objects.DEPLOYMENTS, of, of)["status"].get("availableReplicas") == 1
        )


def test_charts_that_fail_do_fail(bench: Bench) -> None:
    flags: dict[str, Any] = {"namespace": "broken", "directory": "failing"}
    slow = bench.install("never-ready", BROKEN_VERSION, "--timeout=4s", **flags)
    assert slow.rc == 1
    pods = bench.cluster.list_objects(objects.PODS, "broken", labels="app.kubernetes.io/instance=never-ready")
    assert pods[0]["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    absent = bench.install("absent", BROKEN_VERSION, **flags)
    assert absent.rc == 1 and "absent-1.2.3.tgz" in absent.stderr
