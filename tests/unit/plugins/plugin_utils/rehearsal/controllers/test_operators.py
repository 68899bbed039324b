# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the operators want done, given what they see: no cluster (tests/rehearsal/test_operators.py has one)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from operator_view import (
    a_deployment,
    a_node,
    a_pod,
    a_policy,
    changes_of,
    meta,
    operand_sets,
    view_of,
)

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    DAEMON_SETS,
    DEPLOYMENTS,
    KAI_POD_GROUPS,
    KAI_QUEUES,
    NATIVE_POD_GROUPS,
    NODES,
    PODS,
    RESOURCE_SLICES,
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUES,
    Kind,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.chart import FAULT_ANNOTATION
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers import (
    compute_domains,
    dra_driver,
    gpu_operator,
    kai_scheduler,
    pod_faults,
    pod_ports,
    site_hands,
    volcano,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    Change,
    ClusterFacts,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.main import Store
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.operands import (
    all_operands,
    fault_of,
    feature_labels,
    wanted_operands,
)

Json = dict[str, Any]


def test_nothing_happens_before_the_operator_runs(facts: ClusterFacts) -> None:
    assert (
        gpu_operator.reconcile(view_of(a_deployment("gpu-operator", False), a_policy(), a_node("gpu01")), facts) == []
    )
    assert gpu_operator.reconcile(view_of(a_deployment("gpu-operator"), a_node("gpu01")), facts) == []
    assert gpu_operator.reconcile(view_of(a_deployment("gpu-operator"), a_policy(), a_node("gpu01")), facts)


def test_the_policy_switches_operands() -> None:
    off = {"driver": {"enabled": False}, "dcgm": {"enabled": True}, "nodeStatusExporter": None}
    names = {operand.name for operand in wanted_operands({"spec": off})}
    assert "nvidia-driver-daemonset" not in names and "nvidia-dcgm" in names
    assert "nvidia-operator-validator" in names and "nvidia-node-status-exporter" not in names


def test_a_switched_off_operand_and_its_label_go_away(facts: ClusterFacts) -> None:
    sets = operand_sets({**a_policy()[1], "spec": {}})
    node = a_node("gpu01", **{"nvidia.com/gpu.deploy.driver": "true"})
    view = view_of(a_deployment("gpu-operator"), a_policy(driver={"enabled": False}), node, *sets)
    changes = gpu_operator.reconcile(view, facts)
    assert ("delete", "nvidia-driver-daemonset") in {(c.verb, c.name) for c in changes_of(changes, DAEMON_SETS)}
    labels = changes_of(changes, NODES)[0].body["metadata"]["labels"]
    assert labels["nvidia.com/gpu.deploy.driver"] is None and labels["nvidia.com/gpu.present"] == "true"


def test_gpus_are_offered_only_while_the_device_plugin_serves(facts: ClusterFacts) -> None:
    policy, plugin = a_policy(), "nvidia-device-plugin-daemonset"
    common = [a_deployment("gpu-operator"), policy, *operand_sets(policy[1])]
    serving = view_of(*common, a_node("gpu01"), a_pod("p", "gpu01", plugin))
    offered = [change for change in gpu_operator.reconcile(serving, facts) if change.subresource == "status"]
    assert offered[0].body["status"]["allocatable"] == {"nvidia.com/gpu": "8"}
    node = a_node("gpu01")
    node[1]["status"] = {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}
    for gone in (view_of(*common, node), view_of(*common, node, a_pod("p", "gpu01", plugin, ready=False))):
        changes = [
            change for change in gpu_operator.reconcile(gone, facts) if change.kind is NODES and change.subresource
        ]
        assert changes[0].body["status"]["allocatable"] == {"nvidia.com/gpu": "0"}


def test_a_failing_driver_holds_up_what_needs_it(facts: ClusterFacts) -> None:
    node = replace(facts.nodes["gpu01"], pod_faults={"nvidia-driver-daemonset": "CrashLoopBackOff"})
    everything = frozenset(operand.name for operand in all_operands())
    assert fault_of(node, "nvidia-driver-daemonset", everything) == "CrashLoopBackOff"
    assert fault_of(node, "nvidia-device-plugin-daemonset", everything) == "PodInitializing"
    assert fault_of(node, "nvidia-device-plugin-daemonset", everything - {"nvidia-driver-daemonset"}) == ""
    assert fault_of(facts.nodes["gpu02"], "nvidia-device-plugin-daemonset", everything) == ""


def test_a_fault_is_played_and_taken_back(facts: ClusterFacts) -> None:
    faults = {"nvidia-dcgm-exporter": "CrashLoopBackOff"}
    sick = replace(facts, nodes={**facts.nodes, "gpu01": replace(facts.nodes["gpu01"], pod_faults=faults)})
    sets = operand_sets(a_policy()[1])
    pods = [a_pod("a", "gpu01", "nvidia-dcgm-exporter"), a_pod("b", "gpu02", "nvidia-dcgm-exporter")]
    assert [(c.verb, c.name) for c in pod_faults.reconcile(view_of(*sets, *pods), sick)] == [("merge", "a")]
    played = a_pod("a", "gpu01", "nvidia-dcgm-exporter", **{"rehearsal.gpufleet.invalid/fault": "CrashLoopBackOff"})
    assert pod_faults.reconcile(view_of(*sets, played), sick) == []
    assert [(c.verb, c.name) for c in pod_faults.reconcile(view_of(*sets, played), facts)] == [("delete", "a")]


def test_labels_are_those_of_gpu_feature_discovery(facts: ClusterFacts, shared: Path) -> None:
    labels = feature_labels(facts.nodes["gpu01"], "single")
    golden = dict(
        line.replace("\\", "", 1).replace("\\.", ".").replace("\\/", "/").split("=", 1)
        for line in (shared / "captures" / "k8s" / "gfd-labels-golden.txt").read_text().splitlines()
    )
    del golden["nvidia.com/gfd.timestamp"]
    assert set(golden) <= set(labels)
    for key in ("nvidia.com/gpu.memory", "nvidia.com/cuda.driver-version.full", "nvidia.com/gpu.compute.major"):
        assert re.fullmatch(golden[key], labels[key])


def _plugin_pod(node: str) -> tuple[Kind, Json]:
    kind, pod = a_pod(f"plugin-{node}", node, "")
    pod["metadata"]["labels"] = {"nvidia-dra-driver-gpu-component": "kubelet-plugin"}
    pod["spec"]["containers"] = [{"name": "compute-domains"}, {"name": "gpus"}]
    return kind, pod


def test_slices_look_like_captured_ones(facts: ClusterFacts, shared: Path) -> None:
    text = (shared / "captures" / "k8s" / "resourceslices-2x8-h100.yaml").read_text()
    captured = {item["spec"]["driver"]: item for item in yaml.safe_load(text)["items"]}
    changes = dra_driver.reconcile(view_of(a_node("gpu01"), a_node("gpu02"), _plugin_pod("gpu01")), facts)
    ours = {change.body["spec"]["driver"]: change.body for change in changes}
    assert set(ours) == set(captured)
    for driver, body in ours.items():
        real = captured[driver]["spec"]
        assert set(body["spec"]) == set(real) and set(body["spec"]["pool"]) == set(real["pool"])
        assert body["spec"]["nodeName"] == "gpu01"
        shape = {key: list(value) for key, value in real["devices"][0]["attributes"].items()}
        assert {key: list(value) for key, value in body["spec"]["devices"][0]["attributes"].items()} == shape
    first = ours["gpu.nvidia.com"]["spec"]["devices"][0]
    assert first["attributes"]["driverVersion"] == {"version": "580.105.8"}
    assert first["capacity"] == captured["gpu.nvidia.com"]["spec"]["devices"][0]["capacity"]


def test_slices_of_a_plugin_that_restarts_stay_and_of_one_that_is_gone_go(facts: ClusterFacts) -> None:
    created = dra_driver.reconcile(view_of(a_node("gpu01"), _plugin_pod("gpu01")), facts)
    slices = [(RESOURCE_SLICES, change.body) for change in created]
    plugin = {"nvidia-dra-driver-gpu-component": "kubelet-plugin"}
    plugin_set = (DAEMON_SETS, {"metadata": meta("plugin", "ns", labels=plugin)})
    assert dra_driver.reconcile(view_of(a_node("gpu01"), plugin_set, *slices), facts) == []
    assert {c.verb for c in dra_driver.reconcile(view_of(a_node("gpu01"), *slices), facts)} == {"delete"}


def test_a_compute_domain_gets_the_claim_template_that_it_names_once(facts: ClusterFacts) -> None:
    spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "ranks-imex"}}}
    domain = (compute_domains.COMPUTE_DOMAINS, {"metadata": {**meta("ranks", "test"), "uid": "7"}, "spec": spec})
    offered = (RESOURCE_SLICES, {"metadata": meta("s"), "spec": {"driver": "compute-domain.nvidia.com"}})
    assert compute_domains.reconcile(view_of(domain), facts) == []
    (change,) = compute_domains.reconcile(view_of(domain, offered), facts)
    assert (change.verb, change.kind.kind, change.namespace, change.name) == (
        "create", "ResourceClaimTemplate", "test", "ranks-imex",
    )  # fmt: skip
    devices = change.body["spec"]["spec"]["devices"]
    assert devices["requests"][0]["exactly"]["deviceClassName"] == "compute-domain-default-channel.nvidia.com"
    assert devices["config"][0]["opaque"]["parameters"]["domainID"] == "7"
    made = (compute_domains.CLAIM_TEMPLATES, change.body)
    assert compute_domains.reconcile(view_of(domain, offered, made), facts) == []


@pytest.mark.parametrize(("text", "expected"), [("580.105.08", "580.105.8"), ("13.0", "13.0.0"), ("9", "9.0.0")])
def test_versions_are_semantic(text: str, expected: str) -> None:
    assert dra_driver.semantic_version(text) == expected


def _gang(size: int, kind: Kind = VOLCANO_POD_GROUPS, **spec: str) -> tuple[Kind, Json]:
    return kind, {"metadata": meta("gang", "ns"), "spec": {"minMember": size, **spec}}


_VOLCANO_DEFAULT = (VOLCANO_QUEUES, {"metadata": meta("default"), "status": {"state": "Open"}})
_KAI_PARENT = (KAI_QUEUES, {"metadata": meta("default-parent-queue"), "spec": {}})
_KAI_LEAF = (KAI_QUEUES, {"metadata": meta("default-queue"), "spec": {"parentQueue": "default-parent-queue"}})


@pytest.mark.parametrize(("behaviour", "counts"), [("all-or-nothing", [3]), ("partial", [1]), ("not-running", [])])
def test_a_group_is_handed_over_as_the_model_says(facts: ClusterFacts, behaviour: str, counts: list[int]) -> None:
    view = view_of(a_deployment("volcano-scheduler"), _VOLCANO_DEFAULT, _gang(3))
    changes = volcano.reconcile(view, replace(facts, gang_admission=behaviour))
    handed = [c.body["spec"]["schedulingPolicy"]["gang"]["minCount"] for c in changes_of(changes, NATIVE_POD_GROUPS)]
    assert handed == counts
    assert volcano.reconcile(view_of(a_deployment("volcano-scheduler", False), _gang(3)), facts) == []


def test_volcano_admits_no_group_of_a_queue_that_it_lacks(facts: ClusterFacts) -> None:
    view = view_of(a_deployment("volcano-scheduler"), _VOLCANO_DEFAULT, _gang(3, queue="gpu"))
    (change,) = volcano.reconcile(view, facts)
    assert change.body == {"status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("queue", "handed", "said"),
    [
        ("default-queue", 1, ""),
        ("default", 0, "QueueDoesNotExist: Queue 'default' does not exist."),
        ("default-parent-queue", 0, ""),
    ],
)
def test_kai_reads_the_queue_of_a_group(facts: ClusterFacts, queue: str, handed: int, said: str) -> None:
    view = view_of(a_deployment("kai-scheduler-default"), _KAI_PARENT, _KAI_LEAF, _gang(3, KAI_POD_GROUPS, queue=queue))
    changes = kai_scheduler.reconcile(view, facts)
    assert len(changes_of(changes, NATIVE_POD_GROUPS)) == handed
    conditions = [c for change in changes for c in (change.body.get("status") or {}).get("schedulingConditions") or []]
    assert [condition.get("message", "") for condition in conditions] == ([] if handed else [said])


def _kai_queue(name: str, limit: int | None, parent: str = "") -> tuple[Kind, Json]:
    resources = {"resources": {"gpu": {"quota": 0, "limit": limit}}} if limit is not None else {}
    return KAI_QUEUES, {"metadata": meta(name), "spec": {"parentQueue": parent, **resources}}


def _kai_pods(count: int, node: str = "", group: str = "gang") -> list[tuple[Kind, Json]]:
    spec = {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
    marks = {"annotations": {kai_scheduler.GROUP_ANNOTATION: group}}
    return [(PODS, {"metadata": {**meta(f"{group}-{n}", "ns"), **marks}, "spec": spec}) for n in range(count)]


@pytest.mark.parametrize(
    ("leaf", "parent", "said"),
    [
        (-1, -1, ""),
        (10, 16, ""),
        (9, -1, "red quota has reached the allowable limit of GPUs. Limit is 9 GPUs, currently 4 GPUs allocated"),
        (-1, 8, "top quota has reached the allowable limit of GPUs. Limit is 8 GPUs, currently 4 GPUs allocated"),
        (None, -1, "red quota has reached the allowable limit of GPUs. Limit is 0 GPUs"),
        (-1, None, "top quota has reached the allowable limit of GPUs. Limit is 0 GPUs"),
    ],
)
def test_kai_holds_a_group_for_which_its_queue_has_no_gpus_left(
    facts: ClusterFacts, leaf: int | None, parent: int | None, said: str
) -> None:
    """Three pods with two GPUs each ask; two of another group of the queue run already."""
    running = {"metadata": meta("other", "ns"), "spec": {"minMember": 2, "queue": "red"}}
    view = view_of(
        a_deployment("kai-scheduler-default"), _kai_queue("top", parent), _kai_queue("red", leaf, "top"),
        _gang(3, KAI_POD_GROUPS, queue="red"), *_kai_pods(3),
        (KAI_POD_GROUPS, running), (NATIVE_POD_GROUPS, running), *_kai_pods(2, "gpu01", "other"),
    )  # fmt: skip
    changes = kai_scheduler.reconcile(view, facts)
    assert [change.name for change in changes_of(changes, NATIVE_POD_GROUPS)] == ([] if said else ["gang"])
    texts = [c for change in changes for c in (change.body.get("status") or {}).get("schedulingConditions") or []]
    assert [text["message"].startswith(f"OverLimit: {said}") for text in texts] == ([True] if said else [])


@pytest.mark.parametrize(
    ("phases", "bound", "expected"),
    [
        (["Pending"] * 3, 0, ("Inqueue", "Unschedulable")),
        (["Running"] * 3, 3, ("Running", "Scheduled")),
        (["Running", "Pending", "Pending"], 1, ("Inqueue", "Unschedulable")),
        (["Succeeded"] * 3, 3, ("Completed", "Scheduled")),
    ],
)
def test_what_the_scheduler_decided_is_written_back(phases: list[str], bound: int, expected: tuple[str, str]) -> None:
    spec = [{"nodeName": "n"} if number < bound else {} for number in range(len(phases))]
    pods = [{"spec": one, "status": {"phase": phase}} for one, phase in zip(spec, phases, strict=True)]
    group = _gang(3)[1]
    status = volcano.group_status(group, 3, pods, {})
    assert status is not None
    assert (status["phase"], status["conditions"][0]["type"]) == expected
    assert volcano.group_status({**group, "status": status}, 3, pods, {}) is None


def test_commands_of_a_node_go_to_its_own_host(facts: ClusterFacts, tmp_path: Path) -> None:
    view = view_of(a_pod("a", "gpu01", "x"), a_pod("b", "gpu02", "x"))
    changes = {c.name: c.body["spec"] for c in pod_ports.reconcile(view, facts, tmp_path)}
    assert changes["host-gpu02"]["selector"] == {"matchNames": ["b"]}
    variables = {env["name"]: env["value"] for env in changes["host-gpu02"]["execs"][0]["local"]["envs"]}
    assert variables["PATH"].startswith(f"{tmp_path}/gpu02/bin:")


def test_pods_of_jobs_take_no_commands(facts: ClusterFacts, tmp_path: Path) -> None:
    kind, pod = a_pod("a", "gpu01", "x")
    pod["metadata"]["labels"] = {**pod["metadata"]["labels"], "batch.kubernetes.io/job-name": "nccl"}
    assert pod_ports.reconcile(view_of((kind, pod)), facts, tmp_path) == []


def test_doors_lead_to_the_tools_of_the_named_host(tmp_path: Path) -> None:
    import subprocess

    for host in ("gpu01", "gpu02"):
        tool = tmp_path / "hosts" / host / "bin" / "nvidia-smi"
        tool.parent.mkdir(parents=True)
        tool.write_text(f"#!/bin/sh\necho {host} $1\n")
        tool.chmod(0o755)
    directory = pod_ports.exec_shims(tmp_path)
    pod_ports.make_exec_shims(directory, tmp_path / "hosts")
    variables = {pod_ports.TOOLS_VARIABLE: str(pod_ports.tools_of(tmp_path / "hosts", "gpu02"))}
    done = subprocess.run([directory / "nvidia-smi", "-L"], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "gpu02 -L\n"
    astray = subprocess.run([directory / "nvidia-smi"], env={}, capture_output=True, check=False)
    assert astray.returncode != 0


def test_a_late_answer_does_not_bring_a_deleted_object_back() -> None:
    store = Store([PODS])
    pod = {"metadata": {"namespace": "n", "name": "p", "resourceVersion": "5"}}
    store.put(PODS, pod)
    store.remove(PODS, {"metadata": {**pod["metadata"], "resourceVersion": "7"}})
    store.put(PODS, {"metadata": {**pod["metadata"], "resourceVersion": "6"}})
    assert not list(store.view().all(PODS))
    store.put(PODS, {"metadata": {**pod["metadata"], "resourceVersion": "8"}})
    store.put(PODS, {"metadata": {**pod["metadata"], "resourceVersion": "5", "old": True}})
    assert [item["metadata"]["resourceVersion"] for item in store.view().all(PODS)] == ["8"]


def _body(changes: list[Change], kind: Kind) -> list[Json]:
    return [change.body for change in changes if change.kind == kind]


def test_a_gpu_that_is_unhealthy_stays_in_the_capacity(facts: ClusterFacts) -> None:
    node = replace(facts.nodes["gpu01"], unhealthy=1)
    (change,) = gpu_operator._resources({"status": {}}, node, True)
    assert change.body["status"] == {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "7"}}


def test_nodes_are_tainted_and_cordoned_as_the_model_says_and_the_kubelets_own_taints_stay(facts: ClusterFacts) -> None:
    lost = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    item = (NODES, {"metadata": meta("gpu01"), "spec": {"taints": [lost]}})
    gpu = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
    node = replace(facts.nodes["gpu01"], taints=(gpu,), cordoned=True)
    broken = replace(facts, nodes={"gpu01": node})
    (body,) = _body(site_hands.reconcile(view_of(item), broken), NODES)
    assert body["spec"] == {"taints": [lost, gpu], "unschedulable": True}
    notes = body["metadata"]["annotations"]
    done = (
        NODES,
        {"metadata": meta("gpu01", annotations=notes), "spec": {"taints": [gpu, lost], "unschedulable": True}},
    )
    assert site_hands.reconcile(view_of(done), broken) == []
    (mended,) = _body(site_hands.reconcile(view_of(done), facts), NODES)
    assert mended["spec"] == {"taints": [lost], "unschedulable": None}
    assert set(mended["metadata"]["annotations"].values()) == {None}


def test_the_site_lifts_no_cordon_and_no_taint_that_it_did_not_set(facts: ClusterFacts) -> None:
    other = {"key": "example.com/held", "effect": "NoSchedule"}
    item = (NODES, {"metadata": meta("gpu01"), "spec": {"taints": [other], "unschedulable": True}})
    assert _body(site_hands.reconcile(view_of(item), facts), NODES) == []


def test_the_first_workload_of_a_release_is_deleted_or_scaled_to_nothing(facts: ClusterFacts) -> None:
    notes = {"meta.helm.sh/release-name": "adapter"}
    item = (DEPLOYMENTS, {"metadata": meta("adapter", "ns", annotations=notes), "spec": {"replicas": 1}})
    bare = replace(facts, nodes={})
    (gone,) = site_hands.reconcile(view_of(item), replace(bare, deleted=frozenset({"adapter"})))
    assert (gone.verb, gone.name) == ("delete", "adapter")
    (scaled,) = site_hands.reconcile(view_of(item), replace(bare, scaled=frozenset({"adapter"})))
    assert scaled.body == {"spec": {"replicas": 0}}
    assert site_hands.reconcile(view_of(item), bare) == []


def test_a_plugin_that_waits_for_the_driver_goes_on_when_the_driver_comes_and_another_fault_of_it_stays(
    facts: ClusterFacts,
) -> None:
    waiting, broken = _plugin_pod("gpu01"), _plugin_pod("gpu02")
    waiting[1]["spec"]["containers"][1]["env"] = [{"name": "NVIDIA_DRIVER_ROOT", "value": "/run/nvidia/driver"}]
    broken[1]["metadata"]["annotations"][FAULT_ANNOTATION] = "CrashLoopBackOff"
    operator, operands = a_deployment("gpu-operator"), operand_sets(a_policy()[1])
    without = [item for item in operands if item[1]["metadata"]["name"] != "nvidia-driver-daemonset"]
    (mark,) = pod_faults.reconcile(view_of(operator, *without, waiting, broken), facts)
    assert (mark.verb, mark.name) == ("merge", waiting[1]["metadata"]["name"])
    waiting[1]["metadata"]["annotations"].update(mark.body["metadata"]["annotations"])
    assert pod_faults.reconcile(view_of(operator, *without, waiting, broken), facts) == []
    (back,) = pod_faults.reconcile(view_of(operator, *operands, waiting, broken), facts)
    assert (back.verb, back.name) == ("delete", waiting[1]["metadata"]["name"])
