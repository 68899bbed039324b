# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy cluster passes; each fault fails exactly one check, by cause and subject; what follows is blocked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from seeds import drawing

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import observe_cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import (
    ClusterState,
    OperandState,
    PolicyState,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.permission import AskedPermission
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.promised import Promised
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import to_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.decisions import Quarantine
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .conftest import (
    JUDGES,
    NAMES,
    changed_component,
    changed_node,
    changed_operand,
    context,
    healthy,
    judged,
    recipe,
    site,
    workload,
)

Break = Callable[[ClusterState, str], ClusterState]
DRA = "nvidia-dra-driver-gpu"


def _failed(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    return [(o.check, o.cause, o.subjects[0].name) for o in outcomes if o.status is Status.FAILED]


def _without_slices(view: ClusterState, node: str) -> ClusterState:
    return replace(view, slices=tuple(entry for entry in view.slices or () if entry.node != node))


def _slices(view: ClusterState, node: str, **more: int) -> ClusterState:
    changed = tuple(replace(entry, **more) if entry.node == node else entry for entry in view.slices or ())
    return replace(view, slices=changed)


def _driver_broken(view: ClusterState, node: str) -> ClusterState:
    """The driver crashes on a node: no GPUs, no slices and no other operand there."""
    crash = {
        "state": "failed",
        "cause": "pod-crash-looping",
        "reason": "CrashLoopBackOff",
        "ready": 3,
        "nodes": (node,),
    }
    waits = {"state": "pending", "reason": "3 of 4 ready", "ready": 3, "nodes": (node,)}
    view = changed_operand(view, "nvidia-driver-daemonset", **crash)
    for app in ("nvidia-device-plugin-daemonset", "nvidia-dcgm-exporter"):
        view = changed_operand(view, app, **waits)
    view = replace(changed_node(view, node, allocatable={}), cluster_policies=(_policy("notReady"),))
    return _without_slices(view, node)


def _policy(state: str) -> PolicyState:
    return replace((healthy().cluster_policies or ())[0], state=state)


def _node_down(view: ClusterState, node: str) -> ClusterState:
    """A node that is not Ready takes its share of every DaemonSet with it."""
    view = changed_node(view, node, ready="Unknown", reason="NodeStatusUnknown")
    for app in ("nvidia-driver-daemonset", "nvidia-device-plugin-daemonset", "nvidia-dcgm-exporter"):
        view = changed_operand(view, app, state="pending", ready=3, reason="3 of 4 ready", nodes=(node,))
    return replace(view, cluster_policies=(_policy("notReady"),))


def _operator_pull(view: ClusterState, _node: str) -> ClusterState:
    """The operator's image cannot be pulled: nothing that it would make is there."""
    sick = workload("gpu-operator-main", "gpu-operator/gpu-operator", ready=0, state="failed",
                    cause="image-pull-failed", reason="ImagePullBackOff", pod="gpu-operator-x")  # fmt: skip
    view = replace(view, workloads=(sick, *(view.workloads or ())[1:]), operands=(), slices=(), cluster_policies=())
    for name in NAMES:
        view = changed_node(view, name, allocatable={})
    return changed_component(view, DRA, release="", status="", version="")


def _deleted(view: ClusterState, _node: str) -> ClusterState:
    """Somebody deleted the operator's Deployment: policy, operands and GPUs stay as they were."""
    return replace(view, workloads=tuple(w for w in view.workloads or () if w.name != "gpu-operator-main"))


def _scaled_to_zero(view: ClusterState, _node: str) -> ClusterState:
    nothing = workload("volcano-main", "volcano/volcano", ready=0, desired=0)
    return replace(view, workloads=tuple(nothing if w.name == nothing.name else w for w in view.workloads or ()))


def _sick(view: ClusterState, name: str, state: str, cause: str, kind: str = "Deployment") -> ClusterState:
    """One more workload of a component that does not get ready."""
    sick = workload(f"{name}-more", f"{name}/{name}", kind, ready=0, state=state, cause=cause, reason="0 of 1 ready")
    return replace(view, workloads=(*(view.workloads or ()), sick))


CASES: list[tuple[str, Break, str, str, str]] = [
    ("node gone", lambda v, n: replace(v, nodes=tuple(x for x in v.nodes or () if x.name != n)), "node-ready",
     "node-missing", "<node>"),
    ("node down", _node_down, "node-ready", "node-not-ready", "<node>"),
    ("node cordoned", lambda v, n: changed_node(v, n, unschedulable=True), "node-ready", "node-cordoned", "<node>"),
    ("disk full", lambda v, n: changed_node(v, n, pressures=("DiskPressure",)), "node-ready", "node-pressure",
     "<node>"),
    ("operator image", _operator_pull, "component-health", "image-pull-failed", "gpu-operator"),
    ("operator deleted", _deleted, "component-health", "workload-missing", "gpu-operator"),
    ("scaled to nothing", _scaled_to_zero, "component-health", "workload-scaled-to-zero", "volcano"),
    ("plugin wanted nowhere", lambda v, _n: changed_operand(v, "nvidia-device-plugin-daemonset", desired=0, ready=0),
     "cluster-policy-ready", "operand-not-ready", "lab"),
    ("pending release", lambda v, _n: changed_component(v, "volcano", status="pending-upgrade"), "component-health",
     "release-pending", "volcano"),
    ("failed release", lambda v, _n: changed_component(v, "volcano", status="failed"), "component-health",
     "release-not-deployed", "volcano"),
    ("old version", lambda v, _n: changed_component(v, "volcano", version="2.9.0"), "component-health",
     "component-version", "volcano"),
    ("never installed", lambda v, _n: changed_component(v, "volcano", release=""), "component-health",
     "component-missing", "volcano"),
    ("a Job of a component failed", lambda v, _n: _sick(v, "volcano", "failed", "job-failed", kind="Job"),
     "component-health", "job-failed", "volcano"),
    ("a component waits", lambda v, _n: _sick(v, "volcano", "pending", ""), "component-health", "workload-not-ready",
     "volcano"),
    ("an image that is not there", lambda v, _n: _sick(v, "volcano", "failed", "image-pull-failed"), "component-health",
     "image-pull-failed", "volcano"),
    ("a wrong configuration", lambda v, _n: _sick(v, "volcano", "failed", "pod-config-error"), "component-health",
     "pod-config-error", "volcano"),
    ("no policy", lambda v, _n: replace(v, cluster_policies=()), "cluster-policy-ready", "cluster-policy-missing",
     "lab"),
    ("policy not ready", lambda v, _n: replace(v, cluster_policies=(_policy("notReady"),)), "cluster-policy-ready",
     "cluster-policy-not-ready", "lab"),
    ("driver crashes", _driver_broken, "cluster-policy-ready", "operand-not-ready", "lab"),
    ("seven GPUs", lambda v, n: changed_node(v, n, allocatable={"nvidia.com/gpu": 7}), "gpu-allocatable",
     "gpu-count-mismatch", "<node>"),
    ("seven GPUs everywhere", lambda v, n: _slices(changed_node(v, n, allocatable={"nvidia.com/gpu": 7}), n, gpus=7),
     "gpu-allocatable", "gpu-count-mismatch", "<node>"),
    ("no GPUs offered", lambda v, n: changed_node(v, n, allocatable={}), "gpu-allocatable", "gpu-not-advertised",
     "<node>"),
    ("no slice", _without_slices, "dra-slices", "dra-slices-missing", "<node>"),
    ("half a pool", lambda v, n: _slices(v, n, slice_count=2), "dra-slices", "dra-slices-incomplete", "<node>"),
    ("seven devices", lambda v, n: _slices(v, n, gpus=7), "dra-slices", "dra-device-count-mismatch", "<node>"),
    ("old server", lambda v, _n: replace(v, version="v1.31.9"), "recipe-constraints", "constraint-not-met", "lab"),
]  # fmt: skip


def test_a_healthy_cluster_passes(view: ClusterState) -> None:
    outcomes = judged(view, context())
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}
    assert len(outcomes) == 1 + 4 + 3 + 1 + 4 + 4 + 1


@pytest.mark.parametrize(("breaking", "check", "cause", "subject"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_fault_fails_one_check_and_no_other(breaking: Break, check: str, cause: str, subject: str) -> None:
    node = drawing(cause).choice(NAMES)
    outcomes = judged(breaking(healthy(), node), context())
    assert _failed(outcomes) == [(check, cause, subject.replace("<node>", node))]
    waits_for = {outcome.blocked_by for outcome in outcomes if outcome.status is Status.OTHER}
    assert waits_for <= {check}, "what follows from the fault is blocked by the check that reports it, nothing else"


@pytest.mark.parametrize(("version", "failed"), [("v3.0.0", False), ("3.0", False), ("v3.0.0-rc.1", True), ("", True)])
def test_a_version_is_the_same_with_and_without_its_v(version: str, failed: bool) -> None:
    outcomes = judged(changed_component(healthy(), "volcano", version=version), context())
    assert _failed(outcomes) == [("component-health", "component-version", "volcano")] * failed


def test_a_recipe_without_the_gpu_operator_fails_the_check_of_its_policy(view: ClusterState) -> None:
    bare = recipe()
    bare["componentRefs"] = [ref for ref in bare["componentRefs"] if ref["name"] != "gpu-operator"]
    bare["deploymentOrder"] = [name for name in bare["deploymentOrder"] if name != "gpu-operator"]
    assert ("cluster-policy-ready", "no-gpu-operator", "lab") in _failed(judged(view, context(recipe=bare)))


def test_a_network_policy_counts_where_the_recipe_has_the_network_operator(view: ClusterState) -> None:
    wide = recipe()
    wide["componentRefs"].append({"name": "network-operator", "version": "1.0", "values": {}})
    waiting = replace(view, nic_cluster_policies=(_policy("notReady"),))
    assert _failed(judged(waiting, context())) == []
    assert _failed(judged(waiting, context(recipe=wide))) == [
        ("cluster-policy-ready", "nic-cluster-policy-not-ready", "lab")
    ]


def test_a_network_policy_of_the_recipe_that_is_gone_is_missed(view: ClusterState) -> None:
    wide, policy = recipe(), "apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata: {name: rdma}"
    item = {"when": "after", "file": "policy.yaml", "text": policy}
    wide["componentRefs"].append(
        {"name": "network-operator", "version": "1.0", "manifestFiles": ["policy.yaml"], "manifests": [item]}
    )
    missed = [("cluster-policy-ready", "nic-cluster-policy-not-ready", "lab")]
    other = replace(_policy("ready"), name="another")
    for there in (None, (), (other,)):
        assert _failed(judged(replace(view, nic_cluster_policies=there), context(recipe=wide))) == missed
    whole = replace(view, nic_cluster_policies=(replace(other, name="rdma"),))
    assert _failed(judged(whole, context(recipe=wide))) == []


def test_every_cause_of_the_cases_is_declared() -> None:
    declared = {module.SPEC.id: module.SPEC.causes for module in JUDGES}
    assert [case[0] for case in CASES if case[3] not in declared[case[2]]] == []


def test_two_faults_at_once_fail_two_checks(view: ClusterState) -> None:
    broken = changed_node(changed_node(view, "gpu01", ready="False"), "gpu03", allocatable={"nvidia.com/gpu": 6})
    assert _failed(judged(broken, context())) == [
        ("node-ready", "node-not-ready", "gpu01"),
        ("gpu-allocatable", "gpu-count-mismatch", "gpu03"),
    ]


def test_denied_permissions_hide_everything_else() -> None:
    denied = replace(healthy().permissions[0], allowed=False)
    blind = ClusterState(version="v1.36.3", permissions=(denied,))
    outcomes = judged(blind, context())
    assert _failed(outcomes) == [("api-permissions", "permission-denied", "lab")]
    assert all(o.blocked_by == "api-permissions" for o in outcomes if o.check != "api-permissions")


def test_no_data_is_never_a_pass() -> None:
    outcomes = judged(ClusterState(version=""), context())
    assert {outcome.status for outcome in outcomes} & {Status.PASSED} == set()


def test_a_quarantined_node_hides_what_waits_only_for_it(view: ClusterState) -> None:
    aside = site(quarantine=(Quarantine(node="gpu02", reason="GPU 3 lost", ticket="T-1", who="ops"),))
    broken = changed_operand(view, "nvidia-dcgm-exporter", state="failed", cause="pod-crash-looping", reason="x",
                             ready=3, nodes=("gpu02",))  # fmt: skip
    outcomes = judged(broken, context(site=aside))
    assert _failed(outcomes) == []
    assert not any(subject.name == "gpu02" for outcome in outcomes for subject in outcome.subjects)


MIG, SHARED = {"nvidia.com/mig-1g.10gb": 56}, {"nvidia.com/gpu.shared": 80}


@pytest.mark.parametrize(
    ("stated", "allocatable", "cause"),
    [
        (MIG, MIG, ""),
        (MIG, {"nvidia.com/mig-1g.10gb": 55}, "mig-geometry-mismatch"),
        (MIG, {**MIG, "nvidia.com/gpu": 1}, "mig-geometry-mismatch"),
        (MIG, {"nvidia.com/gpu": 8}, "mig-geometry-mismatch"),
        (SHARED, {**SHARED, "nvidia.com/gpu": 0}, ""),
        (SHARED, {"nvidia.com/gpu.shared": 70}, "gpu-count-mismatch"),
        (SHARED, {"nvidia.com/gpu": 8}, "gpu-count-mismatch"),
        ({"nvidia.com/gpu": 32}, {"nvidia.com/gpu": 32}, ""),
        ({"nvidia.com/gpu": 32}, {}, "gpu-not-advertised"),
    ],
)
def test_gpus_in_parts_are_held_against_what_the_site_states(
    view: ClusterState, stated: dict[str, int], allocatable: dict[str, int], cause: str
) -> None:
    """The node's label says four replicas of each throughout: it does not count."""
    settings = {"gpu-allocatable": {"hosts": ["gpu02", "mig*"], "resources": stated}}
    node = changed_node(view, "gpu02", allocatable=allocatable, labels={"nvidia.com/gpu.replicas": "4"})
    outcomes = judged(node, context(site=site(settings=settings)))
    assert [entry for entry in _failed(outcomes) if entry[0] == "gpu-allocatable"] == (
        [("gpu-allocatable", cause, "gpu02")] if cause else []
    )
    assert [o.subjects[0].name for o in outcomes if o.check == "gpu-allocatable" and o.status is Status.PASSED] == [
        name for name in NAMES if not (cause and name == "gpu02")
    ]


@pytest.mark.parametrize(
    ("allocatable", "labels", "cause"),
    [
        (MIG, {}, "mig-geometry-unstated"),
        ({"nvidia.com/gpu": 32}, {"nvidia.com/gpu.replicas": "4"}, "gpu-sharing-unstated"),
        (SHARED, {"nvidia.com/gpu.replicas": "10"}, "gpu-sharing-unstated"),
        ({"nvidia.com/gpu": 32}, {}, "gpu-sharing-unstated"),
        ({"nvidia.com/gpu": 8}, {"nvidia.com/gpu.replicas": "4"}, "gpu-sharing-unstated"),
    ],
)
def test_gpus_in_parts_that_nobody_stated_are_not_passed(
    view: ClusterState, allocatable: dict[str, int], labels: dict[str, str], cause: str
) -> None:
    outcomes = judged(changed_node(view, "gpu02", allocatable=allocatable, labels=labels), context())
    (held,) = [o for o in outcomes if o.status is Status.OTHER]
    assert (held.cause, held.subjects[0].name) == (cause, "gpu02")
    assert "gpu-allocatable: {hosts: [gpu02]" in held.hint


def test_a_gpu_that_its_plugin_marked_unhealthy_is_told_from_one_that_is_gone(view: ClusterState) -> None:
    """The kubelet keeps an unhealthy device in the capacity."""
    seven, eight = {"nvidia.com/gpu": 7}, {"nvidia.com/gpu": 8}
    marked = judged(changed_node(view, "gpu02", allocatable=seven, capacity=eight), context())
    assert ("gpu-allocatable", "gpu-marked-unhealthy", "gpu02") in _failed(marked)
    gone = judged(changed_node(view, "gpu02", allocatable=seven, capacity=seven), context())
    assert ("gpu-allocatable", "gpu-count-mismatch", "gpu02") in _failed(gone)
    (outcome,) = [o for o in marked if o.cause == "gpu-marked-unhealthy"]
    assert "restart that pod" in outcome.hint


HEALTHY_TAINTS = ("nvidia.com/gpu=present:NoSchedule", "sku=gpu:NoSchedule", "vpc.amazonaws.com/efa:NoSchedule",
                  "kubernetes.io/arch=arm64:NoSchedule", "team=red:PreferNoSchedule")  # fmt: skip


def test_taints_of_platforms_and_of_the_site_are_tolerated(view: ClusterState) -> None:
    """GKE, AKS, EKS with EFA and GKE on arm64 taint their GPU nodes; a site dedicates a pool of its own."""
    assert not [o for o in judged(changed_node(view, "gpu02", taints=HEALTHY_TAINTS), context()) if o.cause]
    stated = site(settings={"gpu_stack": {"tolerations": ["dedicated=training:NoSchedule"]}})
    dedicated = changed_node(view, "gpu02", taints=("dedicated=training:NoSchedule",))
    assert not [outcome for outcome in judged(dedicated, context(site=stated)) if outcome.cause]


@pytest.mark.parametrize("taint", ["dedicated=training:NoSchedule", "skyhook.nvidia.com=runtime-required:NoSchedule"])
def test_a_taint_that_keeps_tests_away_is_neither_passed_nor_the_nodes_fault(view: ClusterState, taint: str) -> None:
    (held,) = [o for o in judged(changed_node(view, "gpu02", taints=(taint,)), context()) if o.cause]
    assert (held.check, held.status, held.cause) == ("node-ready", Status.OTHER, "node-tainted")
    assert taint in held.summary and f"tolerations: ['{taint}']" in held.hint
    # The operator's pods do not tolerate it either: that no GPU is offered there is no second fault.
    bare = changed_node(view, "gpu02", taints=(taint,), allocatable={})
    held_there = {(o.check, o.cause) for o in judged(bare, context()) if o.cause}
    assert held_there == {("node-ready", "node-tainted"), ("gpu-allocatable", "blocked-by-node-ready")}


def test_what_holds_all_hosts_is_told_once(view: ClusterState) -> None:
    nothing = view
    for name in NAMES:
        nothing = changed_node(nothing, name, allocatable={})
    outcomes = [o for o in judged(nothing, context()) if o.check == "gpu-allocatable"]
    (outcome,) = outcomes
    assert (outcome.status, outcome.cause) == (Status.FAILED, "gpu-not-advertised")
    assert [subject.name for subject in outcome.subjects] == list(NAMES)
    assert outcome.summary == "all 4 hosts: offers no nvidia.com/gpu, 8 expected"


def test_gpus_offered_by_dra_alone(view: ClusterState) -> None:
    refs = recipe()
    refs["componentRefs"][0]["values"] = {"devicePlugin": {"enabled": False}}
    bare = view
    for name in NAMES:
        bare = changed_node(bare, name, allocatable={})
    given: JudgeContext = context(recipe=refs)
    assert _failed(judged(bare, given)) == []


def test_a_release_whose_manifest_was_not_read_is_not_passed(view: ClusterState) -> None:
    for unread in ("", "helm get manifest volcano: forbidden"):
        outcomes = judged(changed_component(view, "volcano", promised=None, unread=unread), context())
        (held,) = [outcome for outcome in outcomes if outcome.status is not Status.PASSED]
        assert (held.status, held.cause, held.subjects[0].name) == (Status.OTHER, "manifest-unread", "volcano")
        assert unread in held.summary


def test_a_manifest_that_names_nothing_of_what_runs_is_not_believed(view: ClusterState) -> None:
    outcomes = judged(changed_component(view, "volcano", promised=()), context())
    (held,) = [outcome for outcome in outcomes if outcome.status is not Status.PASSED]
    assert (held.status, held.cause, held.subjects[0].name) == (Status.OTHER, "manifest-unread", "volcano")


def test_a_chart_may_promise_no_replicas_and_an_operand_may_be_wanted_on_no_node(view: ClusterState) -> None:
    """A manifest with 0 replicas, and the MIG manager where no GPU can do MIG, are healthy."""
    idle = workload("volcano-idle", "volcano/volcano", ready=0, desired=0)
    promised = (Promised(kind="Deployment", name=idle.name, namespace="volcano", replicas=0),)
    mig = OperandState(title="MIG manager", workload=workload("nvidia-mig-manager", "", "DaemonSet", 0))
    view = replace(view, workloads=(*(view.workloads or ()), idle), operands=(*(view.operands or ()), mig))
    outcomes = judged(changed_component(view, "volcano", promised=promised), context())
    assert {outcome.status for outcome in outcomes} == {Status.PASSED}


@pytest.mark.parametrize("severity", ["error", "warning"])
def test_a_constraint_that_nobody_measured_holds_the_gate(view: ClusterState, severity: str) -> None:
    given = context(recipe=recipe(constraints=[{"name": "GPU.vbios", "value": ">= 1", "severity": severity}]))
    outcome = next(o for o in judged(view, given) if o.check == "recipe-constraints")
    assert (outcome.status, outcome.cause) == (Status.OTHER, "constraint-unmeasured")


def test_the_view_survives_the_run_directory(view: ClusterState, tmp_path: Path) -> None:
    asked = tuple(
        AskedPermission(**asdict(wanted), allowed=True) for wanted in next(iter(stack_facts().permissions.values()))
    )
    operands = tuple(operand.workload for operand in view.operands or ())
    others = tuple(entry for entry in view.workloads or () if entry.kind != "DaemonSet")
    whole = replace(view, permissions=asked, permissions_asked=len(asked), workloads=(*others, *operands))
    assert observe_cluster.OBSERVER.restore(to_plain(whole), tmp_path, site()) == whole
    for thin in (replace(whole, permissions=asked[1:]), replace(whole, operands=())):
        with pytest.raises(InputError):
            observe_cluster.OBSERVER.restore(to_plain(thin), tmp_path, site())
