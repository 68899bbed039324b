# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the nodes and pods of a rehearsal behave on its control plane, and what a drain makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from cluster_bench import ClusterBench, cluster_bench
from role_bench import role_user
from sites import make_site
from waiting import always, eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import observe_slurm, slinky_slurm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    DAEMON_SETS,
    DEPLOYMENTS,
    NODES,
    PODS,
    Kind,
    is_ready,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.waves.kubernetes import (
    DrainLimits,
    KubernetesNodes,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.nodes import HELD_TAINT
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.control_plane.prime import LocalApi, open_api
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.starter import read_state
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Change, Fault

PREFIX = "rehearsal.gpufleet.invalid"


BUDGETS = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterBench]:
    """A cluster of four nodes."""
    charts = {"slurm-operator-crds": "1.2.0", "slurm": "1.2.0"}
    with cluster_bench(ClusterBench, tmp_path_factory.mktemp("kept"), 4, charts) as found:
        yield found


@pytest.fixture
def kept(bench: ClusterBench) -> LocalApi:
    """Its API."""
    state = read_state(bench.directory)
    assert state is not None
    return open_api(bench.directory / "cluster", state.ports["kube-apiserver"])


def pod(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    marks = {f"{PREFIX}/{key}": value for key, value in (annotations or {}).items()}
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": "200"}}}
    body = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": marks}, "spec": body}


def phase_of(api: LocalApi, name: str) -> str:
    code, body = api.call("GET", f"/api/v1/namespaces/default/pods/{name}")
    return str(body["status"].get("phase", "")) if code == 200 else ""


def make(api: LocalApi, body: dict[str, Any]) -> None:
    path = "/api/v1/namespaces/default/pods"
    # The controller manager makes the namespace's account a moment after the start.
    eventually(lambda: api.call("POST", path, body)[0] in (201, 409), what=body["metadata"]["name"])


def remove(api: LocalApi, *names: str) -> None:
    for name in names:
        api.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")
    eventually(lambda: all(api.call("GET", f"/api/v1/namespaces/default/pods/{n}")[0] == 404 for n in names))


@pytest.mark.parametrize(
    ("annotations", "phase"), [({}, "Running"), ({"exit-code": "0"}, "Succeeded"), ({"exit-code": "3"}, "Failed")]
)
def test_a_pod_ends_only_as_its_annotation_says(kept: LocalApi, annotations: dict[str, str], phase: str) -> None:
    name = f"end-{phase.lower()}"
    make(kept, pod(name, annotations))
    eventually(lambda: phase_of(kept, name) == phase, what=lambda: (name, phase_of(kept, name)))
    status = kept.call("GET", f"/api/v1/namespaces/default/pods/{name}")[1]["status"]
    ended = status["containerStatuses"][0]["state"].get("terminated")
    assert (ended["exitCode"] if ended else None) == (int(annotations["exit-code"]) if annotations else None)
    remove(kept, name)


def test_a_faulty_pod_runs_and_is_never_ready(kept: LocalApi) -> None:
    make(kept, pod("faulty", {"fault": "CrashLoopBackOff"}))
    eventually(lambda: phase_of(kept, "faulty") == "Running")
    status = kept.call("GET", "/api/v1/namespaces/default/pods/faulty")[1]["status"]
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "False"
    remove(kept, "faulty")


def test_a_pod_that_the_node_controller_marked_is_ready_again_and_was_not_started_again(
    kept: LocalApi, bench: ClusterBench
) -> None:
    make(kept, pod("marked"))
    eventually(lambda: phase_of(kept, "marked") == "Running")
    before = bench.cluster.get(PODS, "marked", "default")["status"]["containerStatuses"]
    # What it does with the pods of a node that is silent for longer than its grace.
    silent = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    written = bench.cluster.patch(PODS, "marked", silent, "default", strategy="strategic", subresource="status")
    assert not is_ready(written)
    eventually(lambda: is_ready(bench.cluster.get(PODS, "marked", "default")))
    assert bench.cluster.get(PODS, "marked", "default")["status"]["containerStatuses"] == before
    remove(kept, "marked")


def test_two_gangs_that_do_not_fit_together_run_one_after_the_other(kept: LocalApi) -> None:
    groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
    for gang in ("red", "blue"):
        body = {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": gang},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
        }
        assert kept.call("POST", groups, body)[0] in (201, 409)
    names = [f"{gang}-{n}" for gang in ("red", "blue") for n in range(3)]
    for name in names:
        # One pod fills a node, and the four nodes hold one gang of three.
        group = {"schedulingGroup": {"podGroupName": name.split("-")[0]}, "schedulerName": "volcano"}
        make(kept, pod(name, **group))

    def running() -> list[str]:
        return [name for name in names if phase_of(kept, name) == "Running"]

    eventually(lambda: len(running()) >= 3, what=running)

    def one_gang() -> bool:
        return len(running()) == 3 and len({name.split("-")[0] for name in running()}) == 1

    always(one_gang, 3)
    winner = running()[0].split("-")[0]
    remove(kept, *[name for name in names if name.startswith(winner)])
    eventually(lambda: len(running()) == 3, what=running)
    remove(kept, *[name for name in names if not name.startswith(winner)])


def test_a_node_can_go_down_and_come_back(kept: LocalApi) -> None:
    def marked_with(message: str | None) -> bool:
        node = kept.call("GET", "/api/v1/nodes/gpu02")[1]
        node["metadata"]["annotations"].pop(f"{PREFIX}/not-ready", None)
        if message:
            node["metadata"]["annotations"][f"{PREFIX}/not-ready"] = message
        # 409: a controller wrote in between.
        return bool(kept.call("PUT", "/api/v1/nodes/gpu02", node)[0] == 200)

    def mark(message: str | None) -> None:
        eventually(lambda: marked_with(message))

    def ready() -> str:
        conditions = kept.call("GET", "/api/v1/nodes/gpu02")[1]["status"]["conditions"]
        return next(str(entry["status"]) for entry in conditions if entry["type"] == "Ready")

    mark("kubelet stopped posting node status")
    eventually(lambda: ready() == "False")
    mark(None)
    eventually(lambda: ready() == "True")


def test_what_the_gates_need_of_the_api_is_served(kept: LocalApi) -> None:
    names = {group["name"] for group in kept.call("GET", "/apis")[1]["groups"]}
    assert {"resource.k8s.io", "scheduling.k8s.io", "admissionregistration.k8s.io", "kwok.x-k8s.io"} <= names
    policies = kept.call("GET", "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies")
    assert policies[0] == 200


def test_nobody_without_a_key_gets_in(kept: LocalApi) -> None:
    import http.client
    import ssl

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", kept.port, context=context, timeout=5)
    connection.request("GET", "/api/v1/nodes")
    assert connection.getresponse().status == 401


def controller(kind: str, name: str, node: str, replicas: int = 0) -> dict[str, Any]:
    """A Deployment or DaemonSet whose pods belong on one node."""
    labels = {"app": name}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none"}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    count = {"replicas": replicas} if replicas else {}
    body = {"selector": {"matchLabels": labels}, "template": template, **count}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def running_on(bench: ClusterBench, node: str) -> list[str]:
    pods = bench.cluster.list_objects(PODS, "default", fields=f"spec.nodeName={node}")
    return sorted(p["metadata"]["labels"]["app"] for p in pods if p["status"].get("phase") == "Running")


def test_a_drain_names_the_budget_in_its_way_and_frees_the_other_node(bench: ClusterBench) -> None:
    cluster = bench.cluster
    cluster.create(DEPLOYMENTS, controller("Deployment", "web", "gpu01", 2), "default")
    cluster.create(DEPLOYMENTS, controller("Deployment", "free", "gpu02", 1), "default")
    cluster.create(DAEMON_SETS, controller("DaemonSet", "agent", "gpu02"), "default")
    budget = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 2}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": budget}
    cluster.create(BUDGETS, body, "default")
    eventually(lambda: running_on(bench, "gpu01") == ["web", "web"] and running_on(bench, "gpu02") == ["agent", "free"])
    eventually(lambda: cluster.get(BUDGETS, "web", "default")["status"].get("currentHealthy") == 2, what="the budget")
    nodes = KubernetesNodes(
        cluster, "roll-1", {"a": "gpu01", "b": "gpu02", "c": "gpu09"}, DrainLimits(timeout_s=6, poll_s=0.5)
    )
    try:
        ahead = nodes.preview(["a", "b", "c"])
        assert ahead["c"] == "it is not in the cluster" and ahead["b"] == "" and "budget default/web" in ahead["a"]
        assert running_on(bench, "gpu02") == ["agent", "free"]
        assert [nodes.cordon(name) for name in ("a", "b", "c")] == ["", "", "it is not in the cluster"]
        found = nodes.drain(["a", "b"])
        assert found["b"] == "" and running_on(bench, "gpu02") == ["agent"]
        assert "pod default/web-" in found["a"] and "(ReplicaSet web-" in found["a"]
        assert "disruption budget default/web needs 2 healthy pods and has 2 currently" in found["a"]
        assert running_on(bench, "gpu01") == ["web", "web"]
    finally:
        for name in ("a", "b"):
            assert nodes.give_back(name) == ""
        for kind, name in ((BUDGETS, "web"), (DEPLOYMENTS, "web"), (DEPLOYMENTS, "free"), (DAEMON_SETS, "agent")):
            cluster.delete(kind, name, "default")
        eventually(lambda: not running_on(bench, "gpu01") and not running_on(bench, "gpu02"))
    assert not any(cluster.get(NODES, name)["spec"].get("unschedulable") for name in ("gpu01", "gpu02"))


def test_a_pod_that_nobody_makes_again_is_not_evicted(bench: ClusterBench, kept: LocalApi) -> None:
    make(kept, pod("alone", nodeSelector={"kubernetes.io/hostname": "gpu03"}))
    eventually(lambda: phase_of(kept, "alone") == "Running")
    careful = KubernetesNodes(bench.cluster, "roll-1", {"c": "gpu03"}, DrainLimits(timeout_s=2, poll_s=0.5))
    assert "pod default/alone has no controller" in careful.drain(["c"])["c"] and phase_of(kept, "alone") == "Running"
    limits = DrainLimits(timeout_s=60, poll_s=0.5, unmanaged=True)
    assert KubernetesNodes(bench.cluster, "roll-1", {"c": "gpu03"}, limits).drain(["c"]) == {"c": ""}
    assert phase_of(kept, "alone") == ""


def test_a_cordon_of_somebody_else_stays_and_a_held_node_keeps_its_taint(bench: ClusterBench) -> None:
    cluster = bench.cluster

    def set_cordon(value: bool) -> None:
        cluster.patch(NODES, "gpu04", {"spec": {"unschedulable": value}})

    def is_out() -> bool:
        return bool(cluster.get(NODES, "gpu04")["spec"].get("unschedulable"))

    def taints() -> list[str]:
        return [taint["key"] for taint in cluster.get(NODES, "gpu04")["spec"].get("taints") or []]

    ours, others = (KubernetesNodes(cluster, roll, {"d": "gpu04"}, DrainLimits()) for roll in ("roll-1", "roll-2"))
    set_cordon(True)
    assert ours.cordon("d") == "cordoned by somebody else"
    assert ours.give_back("d") == "cordoned by somebody else, and stays so" and is_out()
    ours.hold("d", "not ours")
    assert HELD_TAINT not in taints()
    set_cordon(False)
    assert ours.cordon("d") == ours.cordon("d") == "" and is_out()
    assert others.cordon("d") == "cordoned by roll roll-1" and "roll-1" in others.give_back("d") and is_out()
    # Another program lifts the cordon of a node that failed: the hold puts it back, with a taint that it does not know.
    set_cordon(False)
    ours.hold("d", "not verified: gpu-ecc")
    assert is_out() and HELD_TAINT in taints()
    # A person gives it back: a roll that goes on does not take it again.
    set_cordon(False)
    ours.hold("d", "not verified: gpu-ecc", again=True)
    assert not is_out()
    assert ours.give_back("d") == "" and HELD_TAINT not in taints() and not is_out()


SLURM = {"name": "slinky-slurm", "namespace": "slurm", "version": "1.2.0", "chart": "slurm", "values": {}}
WORKERS = ("nodesets.slinky.enabled=true", "nodesets.slinky.replicas=2", "controller.persistence.enabled=false")


def _as_slurm_is(bench: ClusterBench, state: str) -> None:
    patch = (Change(at="cluster.stack.slurm", set=state),)
    bench.with_faults(Fault(id="slurm", kind="cluster", subject="bench", patch=patch))


def test_a_slurm_in_pods_is_asked_by_its_own_commands_under_the_role_for_that(
    bench: ClusterBench, tmp_path: Path
) -> None:
    recipe = {"componentRefs": [SLURM], "deploymentOrder": ["slinky-slurm"]}
    place = make_site((), settings={"slinky-slurm": {"settle_s": 0}})
    context = ObserveContext(site=place, run_dir=tmp_path, today=date.today(), recipe=recipe)
    user = role_user("gpu_stack", str(bench.kubeconfig), place, recipe)
    context = replace(context, connections=user.connections)
    judging = JudgeContext(gate="gpu_stack", site=place, today=date.today(), recipe=recipe)

    def told() -> list[tuple[str, str]]:
        outcomes = slinky_slurm.judge(observe_slurm.observe(context), judging)
        return [(outcome.status.value, outcome.cause) for outcome in outcomes]

    assert told() == [("failed", "slurm-missing")]
    for name, more in (("slurm-operator-crds", ()), ("slurm", tuple(w for text in WORKERS for w in ("--set", text)))):
        done = bench.install(name, "1.2.0", *more, namespace="slurm")
        assert done.rc == 0, done.stderr
    eventually(lambda: told() == [("passed", "")], what=told)
    workers = bench.cluster.list_objects(PODS, "slurm", labels="nodeset.slinky.slurm.net/pod-hostname")
    assert workers and all(pod["metadata"]["labels"]["app.kubernetes.io/name"] == "slurmd" for pod in workers)
    for state, cause in (
        ("silent", "slurm-controller-down"),
        ("nodes-down", "slurm-node-down"),
        ("no-jobs", "slurm-job-failed"),
    ):
        _as_slurm_is(bench, state)
        eventually(lambda cause=cause: told() == [("failed", cause)], what=told)  # type: ignore[misc]
    bench.with_faults()
    eventually(lambda: told() == [("passed", "")], what=told)
