# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of a snapshot that pods read: the real script in a shell, one node that fails beside others that do not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lease_cluster import MemoryCluster

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError, Outage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NAMESPACES, PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.node_pod import (
    is_whole,
    node_facts,
    node_script,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.collect.snapshot import Collection, host_from_pod
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.features.snapshot.app import (
    OverSsh,
    RequestedPods,
    with_pods,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.host_tools import load_host_tools
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import (
    COLLECTORS,
    Collected,
    CollectorResult,
    Host,
    Node,
    Snapshot,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import namespace as namespace_room
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import Claim, acquire
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.node_pods import RIGHTS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.nodes import tolerations_with

Json = dict[str, Any]
SEEN = CollectorResult(state=Collected.WHOLE)
GPU = {"nvidia.com/gpu": "8"}
PLAIN = Node(ready="True", operating_system="linux", capacity=GPU)


def in_a_shell(script: str, directory: Path) -> tuple[int, str]:
    """Run a pod's script here, with a directory of its own for what the pod mounts."""
    out, host = directory / "out", directory / "host"
    for place in (out, host / "cgroup" / "system.slice" / "kubelet.service"):
        place.mkdir(parents=True, exist_ok=True)
    (host / "os-release").write_text('ID=cos\nVERSION_ID=121\nPRETTY_NAME="Container-Optimized OS"\n')
    (host / "cgroup" / "cgroup.controllers").write_text("cpu\n")
    events = host / "cgroup" / "system.slice" / "kubelet.service" / "cgroup.events"
    events.write_text("populated 1\nfrozen 0\n")
    here = script.replace("/out/", f"{out}/").replace("/host/", f"{host}/")
    done = subprocess.run(["sh", "-c", here], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


class Kubelets(MemoryCluster):
    """Nodes that run what is placed on them at once; `fates` says of a node what becomes of its pod instead."""

    def __init__(self, directory: Path, **fates: Callable[[Json], Json]) -> None:
        super().__init__()
        self.directory, self.fates, self.made = directory, fates, list[Json]()
        self.printed: dict[str, str] = {}
        self.refuses = ""
        self.transport = SimpleNamespace(outage=Outage(0.0))

    def create(self, kind: Kind, body: Json, namespace: str = "") -> Json:
        if kind.kind == "Namespace" and self.refuses:
            raise ForbiddenError("create namespaces", self.refuses, "grant it")
        if kind.kind == "Pod":
            terms = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            node = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
            name = body["metadata"]["name"]
            status: Json
            if node in self.fates:
                status = self.fates[node](body)
            else:
                command = body["spec"]["containers"][0]["command"]
                code, self.printed[name] = in_a_shell(command[2], self.directory / node)
                status = {
                    "phase": "Succeeded" if code == 0 else "Failed",
                    "containerStatuses": [{"state": {"terminated": {"exitCode": code}}}],
                }
            body = {**body, "status": status}
            self.made.append(body)
        return super().create(kind, body, namespace)

    def kind(self, _api: str, kind: str) -> Kind:
        assert kind == "Pod"
        return PODS

    def logs(self, pod: str, _namespace: str, **_how: Any) -> str:
        return self.printed.get(pod, "")


@pytest.fixture(autouse=True)
def holding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the cluster without the process that keeps a Lease alive."""

    @contextmanager
    def taken(cluster: Any, _emit: Any) -> Iterator[str]:
        acquire(cluster, Claim(holder="me"))
        yield "me"

    monkeypatch.setattr(namespace_room, "held", taken)


def snapshot(**nodes: Node) -> Snapshot:
    return Snapshot(taken="now", made_by="test", collectors=dict.fromkeys(COLLECTORS, SEEN), nodes=nodes)


def read_by_pods(cluster: Kubelets, seen: Snapshot, over_ssh: OverSsh | None = None, **asked: Any) -> Collection:
    return with_pods(cluster.api, seen, over_ssh or OverSsh(), RequestedPods(limit_s=20.0, **asked))


def read_hosts(found: Collection) -> list[str]:
    return sorted(name for name, host in found.parts["hosts"].items() if not host.not_read)


def test_the_script_asks_the_kernel_and_its_log_says_the_host(tmp_path: Path) -> None:
    code, log = in_a_shell(node_script(20.0), tmp_path)
    assert code == 0 and is_whole(log)
    host = host_from_pod(node_facts("gpu01", log, 20.0))
    assert host.os == {"ID": "cos", "VERSION_ID": "121", "PRETTY_NAME": "Container-Optimized OS"}
    assert host.kernel == host.sysctl["/proc/sys/kernel/osrelease"]
    assert host.units == {"kubelet.service": {"Populated": "true"}}
    assert host.boot and host.read_by == "pod"


def test_a_tool_that_hangs_ends_in_its_time_and_the_others_are_read(tmp_path: Path) -> None:
    script = node_script(1.0).replace("uname -r", "sleep 300")
    _code, log = in_a_shell(script, tmp_path)
    host = host_from_pod(node_facts("gpu01", log, 1.0))
    assert "did not end within 1 s" in host.unread["kernel_release"]
    assert host.sysctl and host.kernel == ""


def test_a_log_that_is_cut_is_not_whole_and_says_what_it_lacks(tmp_path: Path) -> None:
    _code, log = in_a_shell(node_script(20.0), tmp_path)
    cut = log[: log.index("gpufleet-end os_release")]
    assert not is_whole(cut)
    assert "no such part" in node_facts("gpu01", cut, 20.0).read("os", object).text  # type: ignore[attr-defined]


def test_every_node_with_gpus_is_read_and_nothing_is_left_behind(tmp_path: Path) -> None:
    cluster = Kubelets(tmp_path)
    found = read_by_pods(cluster, snapshot(gpu01=PLAIN, gpu02=PLAIN, cpu01=replace(PLAIN, capacity={})))
    assert found.result.state is Collected.WHOLE, found.result
    assert sorted(found.parts["hosts"]) == ["gpu01", "gpu02"]
    assert not cluster.list_objects(PODS) and not cluster.list_objects(NAMESPACES, labels="gpufleet.io/purpose=test")
    everywhere = read_by_pods(cluster, snapshot(gpu01=PLAIN, cpu01=replace(PLAIN, capacity={})), everywhere=True)
    assert sorted(everywhere.parts["hosts"]) == ["cpu01", "gpu01"]


def test_a_pod_that_never_starts_is_named_and_the_rest_is_there(tmp_path: Path) -> None:
    def unmounted(_pod: Json) -> Json:
        waiting = {"reason": "ContainerCreating", "message": "no such file /etc/os-release"}
        return {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]}

    def killed(_pod: Json) -> Json:
        state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
        return {"phase": "Failed", "containerStatuses": [{"state": state}]}

    cluster = Kubelets(tmp_path, gpu02=unmounted, gpu03=killed)
    nodes = {f"gpu0{number}": PLAIN for number in range(1, 5)}
    # The others ended when they were made, so there is no time to wait for.
    found = with_pods(cluster.api, snapshot(**nodes), OverSsh(), RequestedPods(limit_s=5.0, start_s=-15.0))
    assert "gpu02 (its pod did not start: ContainerCreating: no such file /etc/os-release)" in found.result.reason
    assert "gpu03 (its pod ended with 137: OOMKilled)" in found.result.reason
    assert read_hosts(found) == ["gpu01", "gpu04"] and found.result.hint
    assert found.parts["hosts"]["gpu03"].not_read == "its pod ended with 137: OOMKilled"
    assert not cluster.list_objects(PODS)


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (replace(PLAIN, operating_system="windows"), "its system is windows"),
        (replace(PLAIN, unschedulable=True), "cordoned"),
        (replace(PLAIN, ready="Unknown"), "not Ready"),
        (replace(PLAIN, taints=("maintenance=now:NoSchedule",)), "taint maintenance=now:NoSchedule"),
        (replace(PLAIN, labels={"eks.amazonaws.com/compute-type": "fargate"}), "it is no machine of its own (Fargate"),
    ],
)
def test_no_pod_is_made_where_none_may_be_and_the_node_is_named(tmp_path: Path, node: Node, why: str) -> None:
    cluster = Kubelets(tmp_path)
    found = read_by_pods(cluster, snapshot(gpu01=PLAIN, gpu02=node))
    assert f"1 not read: gpu02 ({why}" in found.result.reason and found.result.hint
    assert len(cluster.made) == 1 and read_hosts(found) == ["gpu01"]
    assert why in found.parts["hosts"]["gpu02"].not_read
    none = read_by_pods(cluster, snapshot(gpu02=node))
    assert none.result.state is Collected.FAILED and f"gpu02 ({why}" in none.result.reason


def test_a_gpu_node_with_the_taints_of_platforms_is_read(tmp_path: Path) -> None:
    tainted = replace(PLAIN, taints=("nvidia.com/gpu=present:NoSchedule",))
    assert read_by_pods(Kubelets(tmp_path), snapshot(gpu01=tainted)).result.state is Collected.WHOLE


def test_a_node_with_a_taint_of_the_site_is_read_when_the_site_states_it(tmp_path: Path) -> None:
    tainted = replace(PLAIN, taints=("dedicated=team-a:NoSchedule",))
    cluster = Kubelets(tmp_path)
    assert not cluster.made and "dedicated" in read_by_pods(cluster, snapshot(gpu01=tainted)).result.reason
    found = read_by_pods(cluster, snapshot(gpu01=tainted), tolerations=tolerations_with(["dedicated=team-a"]))
    assert found.result.state is Collected.WHOLE and read_hosts(found) == ["gpu01"]
    (pod,) = cluster.made
    assert {"key": "dedicated", "operator": "Equal", "value": "team-a"} in pod["spec"]["tolerations"]


def test_hosts_that_ssh_read_are_not_asked_again_and_others_are_by_their_names_in_the_inventory(tmp_path: Path) -> None:
    cluster = Kubelets(tmp_path)
    over_ssh = OverSsh(
        hosts={"a": Host(kernel="6.8.0", read_by="ssh")}, missing={"b": "unreachable"},
        names={"gpu01": "a", "gpu02": "b"}, told="of run x",
    )  # fmt: skip
    found = read_by_pods(cluster, snapshot(gpu01=PLAIN, gpu02=PLAIN), over_ssh)
    assert found.result.state is Collected.WHOLE, found.result
    assert {name: host.read_by for name, host in found.parts["hosts"].items()} == {"a": "ssh", "b": "pod"}
    lost = read_by_pods(cluster, snapshot(gpu01=PLAIN), over_ssh)
    assert "b (unreachable)" in lost.result.reason and lost.parts["hosts"]["b"].not_read == "unreachable"


def test_what_the_server_refuses_is_a_collector_that_failed(tmp_path: Path) -> None:
    cluster = Kubelets(tmp_path)
    cluster.refuses = "violates a policy"
    found = read_by_pods(cluster, snapshot(gpu01=PLAIN))
    assert found.result.state is Collected.FAILED and "violates a policy" in found.result.reason


def test_nodes_that_are_not_known_are_not_taken_for_none(tmp_path: Path) -> None:
    seen = snapshot()
    blind = replace(seen, collectors={**seen.collectors, "nodes": CollectorResult(state=Collected.FAILED, reason="no")})
    assert "the nodes are not known (no)" in read_by_pods(Kubelets(tmp_path), blind).result.reason
    assert "no node has GPUs" in read_by_pods(Kubelets(tmp_path), seen).result.reason


def test_the_pod_has_no_more_rights_than_to_read(tmp_path: Path) -> None:
    cluster = Kubelets(tmp_path)
    read_by_pods(cluster, snapshot(gpu01=PLAIN), runtime_class="nvidia", image="example.org/tools:1")
    (pod,) = cluster.made
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(spec)
    assert spec["securityContext"]["runAsNonRoot"] and spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    paths = {v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}
    assert paths == {"/etc/os-release", "/sys/fs/cgroup"}
    assert all(m.get("readOnly") for m in container["volumeMounts"] if m["mountPath"].startswith("/host"))
    assert (spec["runtimeClassName"], container["image"]) == ("nvidia", "example.org/tools:1")
    assert spec["activeDeadlineSeconds"] <= 180 and spec["restartPolicy"] == "Never"


def test_the_role_for_pods_allows_to_make_and_remove_them() -> None:
    assert {(entry.verb, entry.resource) for entry in RIGHTS} >= {
        ("create", "namespaces"), ("create", "pods"), ("list", "pods"), ("delete", "pods"), ("get", "pods"),
    }  # fmt: skip


def test_every_tool_of_a_pod_has_a_fact_that_the_host_reads() -> None:
    facts = {tool.fact for tool in load_host_tools().of_nodes()}
    host = host_from_pod(node_facts("gpu01", "", 20.0))
    assert set(host.unread) == facts, "each of them is said to be missing"
