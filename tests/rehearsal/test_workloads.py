# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Test jobs on a real control plane: real controllers make the pods, the real scheduler places, KWOK plays them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cluster_bench import cluster_bench
from real_operator import HEALTH_PORT, health_port_is_free, real_mpi_operator
from sites import make_site
from waiting import eventually
from workload_bench import CHARTS, OURS, PREFIX, RDMA, Bench, job

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.catalog import Rule, ValidatorImage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.contract import judge_run
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.observe import Inputs, run_validators
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError, mending
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.rbac.app import (
    snapshot_pod_roles,
    validator_roles,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.app import (
    RequestedPods,
    take_snapshot,
    unseen,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.process import run_command
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import follow
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import (
    JobResult,
    JobSpec,
    job_namespace,
    run_jobs,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import holder_of
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import Change, Fault
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.validator_pods import (
    IMAGE as STAND_IN,
)

NODES = 8
MPI_JOBS = Kind("kubeflow.org/v2beta1", "MPIJob", "mpijobs")
QUOTAS = Kind("v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGES = Kind("v1", "LimitRange", "limitranges")
ADMISSION = "admissionregistration.k8s.io/v1"
POLICIES = Kind(ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
BINDINGS = Kind(ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False)


def phases(pods: list[dict[str, Any]]) -> list[str]:
    """The phase of each pod."""
    return [pod["status"]["phase"] for pod in pods]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    capacity = {"cpu": "224", "memory": "2Ti", "pods": "250", "nvidia.com/gpu": "8", RDMA: "63"}
    with cluster_bench(Bench, tmp_path_factory.mktemp("rehearsal"), NODES, CHARTS, capacity) as bench:
        yield bench
        eventually(lambda: not bench.cluster.list_objects(objects.NAMESPACES, labels=OURS))


@pytest.fixture
def healthy(bench: Bench) -> Iterator[Bench]:
    """The bench, healthy again after a test that broke it."""
    yield bench
    bench.with_faults()


def pairs() -> list[JobSpec]:
    names = [f"gpu{number:02d}" for number in range(1, NODES + 1)]
    return [job(f"pair-{n // 2:02d}", names[n], names[n + 1]) for n in range(0, NODES, 2)]


def benchmark(node: str, word: str) -> Fault:
    change = Change(at="node.performance.benchmark", set=word)
    return Fault(id=word, kind="node", subject=node, patch=(change,))


def test_pairs_run_side_by_side_and_their_logs_are_whole(bench: Bench) -> None:
    began = time.monotonic()
    results = bench.run(*pairs())
    print(f"{NODES // 2} pairs on {NODES} nodes: {time.monotonic() - began:.1f} s, removal included")
    assert [result.state for result in results] == ["succeeded"] * (NODES // 2), [result.reason for result in results]
    for spec, result in zip(pairs(), results, strict=True):
        assert {pod.node for pod in result.pods} == set(spec.nodes)
        assert [(pod.role, pod.exit_code, pod.problem) for pod in result.pods] == [
            ("launcher", 0, ""),
            ("worker", 0, ""),
        ]
        lines = result.log.splitlines()
        assert [sum(word in line for line in lines) for word in (" float     sum ", "Init COMPLETE")] == [31, 16]
        whole = "# Collective test concluded: all_reduce_perf" in lines
        remote = [line for line in lines if "via NET/" in line]
        placed = any(re.fullmatch(rf"#  Rank 15 .* on +{result.pods[1].hostname} device  7 .*", line) for line in lines)
        assert whole and placed and remote and all("/GDRDMA" in line for line in remote)
    # They ran at the same time: the last began before the first was done.
    assert max(begun(result) for result in results) < min(begun(result) + result.duration_s for result in results)


def begun(result: JobResult) -> float:
    return datetime.fromisoformat(result.started.replace("Z", "+00:00")).timestamp()


def test_jobs_that_share_a_node_wait_for_each_other(bench: Bench) -> None:
    specs = [job("first", "gpu01", "gpu02"), job("second", "gpu02", "gpu03"), job("third", "gpu04")]
    first, second, third = bench.run(*specs)
    assert {first.state, second.state, third.state} == {"succeeded"}
    assert begun(second) >= begun(first) + first.duration_s
    assert begun(third) < begun(second)


def test_an_mpijob_runs_the_same(bench: Bench) -> None:
    bench.chart("mpi-operator")
    result = bench.one(job("mpi", "gpu05", "gpu06", kind="mpijob", gang="none"))
    assert result.state == "succeeded", result.reason
    assert [(pod.role, pod.exit_code) for pod in result.pods] == [("launcher", 0), ("worker", None), ("worker", None)]
    assert [pod.hostname for pod in result.pods] == ["mpi-launcher", "mpi-worker-0", "mpi-worker-1"]
    assert re.search(r"Rank 15 .* on +mpi-worker-1 device  7", result.log) is not None
    assert not bench.cluster.list_objects(MPI_JOBS)


@pytest.mark.drawn(1, of="charts and clusters that few recipes have")
@pytest.mark.skipif(not health_port_is_free(), reason=f"mpi-operator listens at {HEALTH_PORT} alone, which is in use")
def test_an_mpijob_runs_the_same_with_the_real_operator(bench: Bench) -> None:
    bench.chart("mpi-operator")
    place, name = objects.DEPLOYMENTS, "mpi-operator"
    # The stand-in does nothing while its Deployment is not available.
    bench.cluster.patch(place, name, {"spec": {"replicas": 0}}, name)
    eventually(lambda: not (bench.cluster.get(place, name, name).get("status") or {}).get("availableReplicas"))
    log = bench.directory / "mpi-operator.log"
    try:
        with real_mpi_operator(bench.kubeconfig, log) as operator:
            result = bench.one(job("mpi", "gpu05", "gpu06", kind="mpijob", gang="none"))
            said = log.read_text(encoding="utf-8", errors="replace")
            assert operator.poll() is None, said[-4000:]
    finally:
        bench.cluster.patch(place, name, {"spec": {"replicas": 1}}, name)
    assert result.state == "succeeded", f"{result.reason}\n{said[-4000:]}"
    assert [(pod.role, pod.exit_code) for pod in result.pods] == [("launcher", 0), ("worker", None), ("worker", None)]
    assert [pod.hostname for pod in result.pods] == ["mpi-launcher", "mpi-worker-0", "mpi-worker-1"]
    assert re.search(r"Rank 15 .* on +mpi-worker-1 device  7", result.log) is not None
    assert "Leading started" in said, "it was the real one"


def test_a_gang_of_volcano_runs_the_same(bench: Bench) -> None:
    bench.chart("volcano")
    # Volcano's controller makes its queue once it runs.
    eventually(lambda: (bench.cluster.find(objects.VOLCANO_QUEUES, "default") or {}).get("status"))
    result = bench.one(job("gang", "gpu05", "gpu06", gang="volcano"))
    assert result.state == "succeeded", result.reason
    assert not bench.cluster.list_objects(objects.VOLCANO_POD_GROUPS)


def test_what_cannot_be_scheduled_says_so_in_the_schedulers_words(bench: Bench) -> None:
    result = bench.one(job("wide", "gpu01", "gpu02", gpus_per_node=9, schedule_s=3))
    assert result.state == "unschedulable"
    assert "Insufficient nvidia.com/gpu" in result.reason
    assert all(pod.exit_code is None and pod.problem for pod in result.pods)


def test_an_image_that_cannot_be_had(bench: Bench) -> None:
    notes = {"rehearsal.gpufleet.invalid/fault": "ImagePullBackOff"}
    result = bench.one(job("image", "gpu01", "gpu02", annotations=notes))
    assert (result.state, "ImagePullBackOff" in result.reason) == ("image", True)
    assert result.duration_s < 20


def test_a_quota_that_refuses_the_pods(bench: Bench) -> None:
    def limit(namespace: str) -> None:
        bench.cluster.create(QUOTAS, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}, namespace)
        eventually(lambda: bench.cluster.get(QUOTAS, "none", namespace).get("status", {}).get("hard"))

    result = bench.one(job("quota", "gpu01", "gpu02"), before=limit)
    assert (result.state, result.pods) == ("refused", ())
    assert "exceeded quota" in result.reason


def test_a_policy_that_takes_no_privileged_pod(bench: Bench) -> None:
    """The API server's own policy, and Pod Security that somebody sets on our namespaces: each is told at once with its
    name and what to do; a pod that needs no privilege is taken."""
    rule = "object.spec.containers.all(c, !(c.?securityContext.?privileged.orValue(false)))"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "matchConstraints": {"resourceRules": [pods]},
        "validations": [{"expression": rule, "message": "not here"}],
    }
    binding = {"policyName": "no-privileged", "validationActions": ["Deny"]}
    made = ((POLICIES, "no-privileged", policy), (BINDINGS, "no-privileged-all", binding))
    for kind, name, spec in made:
        bench.cluster.create(kind, {"metadata": {"name": name}, "spec": spec})
    try:
        eventually(lambda: bench.one(job("policed", "gpu01", "gpu02", privileged=True)).state == "refused")
        result = bench.one(job("policed", "gpu01", "gpu02", privileged=True))
        assert bench.one(job("plain", "gpu03", "gpu04")).state == "succeeded"
    finally:
        for kind, name, _spec in made:
            bench.cluster.delete(kind, name)
    assert result.state == "refused" and result.duration_s < 20 and not result.pods
    assert "'no-privileged'" in result.reason
    assert "kubectl edit validatingadmissionpolicybinding no-privileged-all`" in mending(result.reason)

    def restrict(namespace: str) -> None:
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        bench.cluster.patch(objects.NAMESPACES, namespace, {"metadata": {"labels": labels}})

    result = bench.one(job("secured", "gpu01", "gpu02", privileged=True), before=restrict)
    assert result.state == "refused" and result.duration_s < 20
    assert 'violates PodSecurity "restricted:' in result.reason
    assert "-L pod-security.kubernetes.io/enforce" in mending(result.reason)


@pytest.mark.parametrize(("kind", "state"), [("default", "refused"), ("defaultRequest", "succeeded")])
def test_a_limit_range_that_limits_the_pods_is_told_and_no_host_is_blamed(bench: Bench, kind: str, state: str) -> None:
    def limit(namespace: str) -> None:
        spec = {"limits": [{"type": "Container", kind: {"cpu": "2"}}]}
        bench.cluster.create(LIMIT_RANGES, {"metadata": {"name": "all"}, "spec": spec}, namespace)

    result = bench.one(job("limited", "gpu01", "gpu02"), before=limit)
    assert result.state == state, result.reason
    if state == "refused":
        assert "LimitRange of namespace" in result.reason and "cpu limit for container" in result.reason


def test_an_api_server_that_refuses_the_job(bench: Bench) -> None:
    result = bench.one(job("words", "gpu01", limits={"no/such/resource": "1"}))
    assert result.state == "refused"
    assert "422" in result.reason


def test_no_operator_for_mpijobs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "CONTROLLERS_LATE_S", 3.0)
    run_command([str(bench.helm), "uninstall", "mpi-operator", "-n", "mpi-operator", "--kubeconfig",
                 str(bench.kubeconfig), "--wait"], 60)  # fmt: skip
    result = bench.one(job("mpi", "gpu05", "gpu06", kind="mpijob", gang="none", schedule_s=3))
    assert result.state == "refused"
    assert "mpi-operator" in result.reason or "not found" in result.reason


def test_a_crash_has_its_exit_code_and_its_log(healthy: Bench) -> None:
    healthy.with_faults(benchmark("gpu02", "crashes"))
    bad, good = healthy.run(job("bad", "gpu01", "gpu02"), job("good", "gpu03", "gpu04"))
    assert (bad.state, good.state) == ("failed", "succeeded")
    # Which of its nodes has the launcher is the scheduler's choice.
    assert bad.reason == f"{bad.launcher.name} on {bad.launcher.node} ended with exit code 3"
    assert "Test NCCL failure" in bad.log and "illegal memory access" in bad.log


def test_a_hung_job_ends_at_its_time_limit(healthy: Bench) -> None:
    healthy.with_faults(benchmark("gpu02", "hangs"))
    result = healthy.one(job("hung", "gpu01", "gpu02", timeout_s=5))
    assert result.state == "timeout" and "2 of 2 pods running" in result.reason
    assert "Init COMPLETE" in result.log and "Out of bounds" not in result.log


def test_the_end_of_the_whole_run_ends_every_job(healthy: Bench) -> None:
    healthy.with_faults(benchmark("gpu02", "hangs"))
    with job_namespace(healthy.cluster, "nccl", prefix=PREFIX, priority=-100) as space:
        specs = [job("hung", "gpu01", "gpu02"), job("waits", "gpu02", "gpu03")]
        results = run_jobs(healthy.cluster, space, specs, 8, Progress(silent), Deadline.after(5))
    assert [result.state for result in results] == ["aborted", "aborted"]
    assert "never started" in results[1].reason
    healthy.nothing_left()


def test_a_node_that_goes_silent(healthy: Bench) -> None:
    healthy.with_faults(benchmark("gpu08", "hangs"))

    def break_node(name: str) -> None:
        body = {"metadata": {"annotations": {"rehearsal.gpufleet.invalid/not-ready": "kubelet stopped posting status"}}}
        # Both pods: on a node that breaks before, nothing can be placed any more.
        eventually(lambda: phases(healthy.cluster.list_objects(objects.PODS, labels=OURS)) == ["Running"] * 2)
        healthy.cluster.patch(objects.NODES, name, body)

    thread = threading.Thread(target=break_node, args=("gpu08",))
    thread.start()
    try:
        result = healthy.one(job("lost", "gpu07", "gpu08", timeout_s=60))
    finally:
        thread.join()
        body = {"metadata": {"annotations": {"rehearsal.gpufleet.invalid/not-ready": None}}}
        healthy.cluster.patch(objects.NODES, "gpu08", body)
    assert result.state == "lost-node", result.reason
    assert "gpu08" in result.reason and "kubelet stopped posting status" in result.reason


SCRIPT = """
import sys
from pathlib import Path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import JobSpec, job_namespace, run_jobs

cluster = Cluster(Connection(kubeconfig=sys.argv[1]))
with job_namespace(cluster, "nccl", prefix="gpufleet-test", priority=-100) as space:
    specs = [
        JobSpec(name=f"hung-{n}", nodes=(f"gpu{n:02d}", f"gpu{n + 1:02d}"), gpus_per_node=8, image="nccl",
                command=("all_reduce_perf", "-g", "1"), gang="native")
        for n in (1, 3, 5)
    ]
    run_jobs(cluster, space, specs, 8, Progress(lambda line: print(line, flush=True)), Deadline.after(120))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_killed_launcher(healthy: Bench, repository: Path, number: signal.Signals) -> None:
    healthy.with_faults(*(benchmark(f"gpu{n:02d}", "hangs") for n in (1, 3, 5)))
    environment = {**os.environ, "PYTHONPATH": str(repository / ".cache")}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(healthy.kubeconfig)], env=environment, text=True, stderr=subprocess.PIPE
    ) as process:
        eventually(lambda: phases(healthy.cluster.list_objects(objects.PODS, labels=OURS)).count("Running") == 6)
        process.send_signal(number)
        process.wait(60)
    if number == signal.SIGKILL:
        # Its keeper outlives it, removes what it left and gives the cluster back.
        eventually(lambda: not holder_of(healthy.cluster).holder)
    healthy.nothing_left()
    assert not healthy.cluster.list_objects(objects.NATIVE_POD_GROUPS)
    assert not healthy.cluster.list_objects(objects.JOBS)


def test_validator_images_end_with_their_answers_under_the_role_for_them_alone(bench: Bench, tmp_path: Path) -> None:
    """One account, one of its rights given away to an image; what no exit code says is no answer."""
    user = bench.given("validating", validator_roles())
    told: list[str] = []
    hosts = [Host(name="gpu01", sku="dgx-h100", node_name="gpu01")]
    context = ObserveContext(
        site=make_site(hosts), run_dir=tmp_path, today=datetime.now(UTC).date(), emit=told.append,
        connections={"kubeconfig": str(bench.kubeconfig), "impersonate_user": user},
    )  # fmt: skip
    ways = {
        "sound": ("looking", "RESULT: 41 GB/s", "run_s=2"),
        "broken": ("exit=1", "message=3 of 8 disks are slow"),
        "not-here": ("exit=2", "message=no disks"),
        "killed": ("exit=137",),
        "late": ("run_s=300",),
    }
    rules = (Rule(api_groups=("",), resources=("pods",), verbs=("list",)),)
    images = [
        ValidatorImage(
            name=name, phase="conformance", image=f"{STAND_IN}:v1", args=args, rules=rules if name == "sound" else None,
            timeout_s=1.0 if name == "late" else 60.0, resources={"cpu": "100m", "memory": "64Mi"},
        )
        for name, args in ways.items()
    ]  # fmt: skip
    inputs = Inputs(snapshot="{}", recipe="{}", run_id="r1", node_selector={})
    runs = run_validators(images, "conformance", inputs, context)
    found = {image.name: judge_run(image, runs[image.name], "lab", "gpu_stack", "") for image in images}
    assert {name: outcome.status.value for name, outcome in found.items()} == {
        "sound": "passed", "broken": "failed", "not-here": "skipped", "killed": "other", "late": "other",
    }  # fmt: skip
    assert found["broken"].summary == "3 of 8 disks are slow" and found["late"].cause == "validator-timeout"
    assert "sound: 41 GB/s" in told
    bench.nothing_left()
    # What the account may not do itself it cannot give to an image.
    greedy = replace(images[0], rules=(Rule(api_groups=("",), resources=("secrets",), verbs=("list",)),))
    with pytest.raises(ForbiddenError, match="secrets"):
        run_validators([greedy], "conformance", inputs, context)
    bench.nothing_left()


def test_nodes_that_nobody_logs_in_to_are_read_by_a_pod_each_under_the_role_for_it(bench: Bench) -> None:
    """One node takes no pod: it is named, and the rest is there."""
    user = bench.given("looking", snapshot_pod_roles())
    bench.cluster.patch(objects.NODES, "gpu03", {"spec": {"unschedulable": True}})
    connection = Connection(kubeconfig=str(bench.kubeconfig), impersonate_user=user)
    try:
        seen = take_snapshot(connection, helm=str(bench.helm), run_dir=None, pods=RequestedPods(start_s=90.0))
    finally:
        bench.cluster.patch(objects.NODES, "gpu03", {"spec": {"unschedulable": None}})
    (line,) = unseen(seen)
    assert line.startswith("1 host not read: gpu03 (cordoned). Fix: ") and not seen.failed, line
    assert {name for name in seen.nodes if seen.hosts[name].not_read} == {"gpu03"}
    host = seen.hosts["gpu01"]
    assert host.read_by == "pod" and host.kernel and len(host.gpus) == 8 and host.driver and host.adapters
    assert host.units["kubelet.service"] == {"Populated": "true"} and host.sysctl and host.boot["iommu"] == "pt"
    assert "nvidia-smi is not installed" in host.unread["smi"]
    bench.nothing_left()


VALIDATING = """
import sys
from datetime import date
from pathlib import Path
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.catalog import ValidatorImage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.validators.observe import Inputs, run_validators
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site, SiteProfile

site = Site(name="lab", profile=SiteProfile.CLOUD, hosts=())
cluster = {"kubeconfig": sys.argv[1]}
context = ObserveContext(site=site, run_dir=Path(sys.argv[2]), today=date.today(), connections=cluster)
image = ValidatorImage(name="sound", phase="conformance", image=sys.argv[3], args=(sys.argv[4],), timeout_s=300.0)
runs = run_validators([image], "conformance", Inputs(snapshot="{}", recipe="{}", run_id="r", node_selector={}), context)
print(runs["sound"].exit_code)
"""


def test_of_two_validations_the_second_is_refused_until_the_first_is_killed_and_nothing_of_it_stays(
    bench: Bench, tmp_path: Path, repository: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(repository / ".cache")}

    def validating(run_s: int) -> list[str]:
        return [sys.executable, "-c", VALIDATING, str(bench.kubeconfig), str(tmp_path), STAND_IN, f"run_s={run_s}"]

    with subprocess.Popen(validating(600), env=environment, text=True, stderr=subprocess.PIPE) as first:
        eventually(lambda: phases(bench.cluster.list_objects(objects.PODS, labels=OURS)) == ["Running"])
        second = run_command(validating(1), 120, env=environment)
        assert second.rc != 0 and "is held by run" in second.stderr
        (space,) = bench.cluster.list_objects(objects.NAMESPACES, labels=OURS)
        first.kill()
        first.wait(60)
    third = run_command(validating(1), 240, env=environment)
    assert (third.rc, third.stdout.strip()) == (0, "0"), third.stderr
    bench.nothing_left()
    eventually(lambda: bench.cluster.find(objects.NAMESPACES, space["metadata"]["name"]) is None)
