# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes offer the adapters that the network operator's policy or the site promises; without a promise none is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    cluster_policy_ready,
    rdma_allocatable,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import (
    ClusterState,
    ComponentState,
    PolicyState,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.kube_objects import node_state
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_cluster import unsettled
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.adapter_promises import (
    adapter_promises,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.promised import Promised
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.snapshot.model import whole_number

from .conftest import NAMES, SKU, changed_component, changed_node, context, recipe, site, workload

OPERATOR, SHARED = "network-operator", "rdma/rdma_shared_device_a"
WITH_HCAS = replace(SKU, fabric="infiniband", compute_hcas=8, hca_rate_gbps=400)
ONE = '{"configList": [{"resourceName": "rdma_shared_device_a", "rdmaHcaMax": 63, "selectors": {"vendors": ["15b3"]}}]}'
LABELS = {
    "feature.node.kubernetes.io/pci-15b3.present": "true",
    "network.nvidia.com/operator.mofed.wait": "false",
    "nvidia.com/gpu.present": "true",
}


def policy(**plugins: str) -> str:
    """A policy of the network operator with the configurations of its device plugins."""
    lines = ["apiVersion: mellanox.com/v1alpha1", "kind: NicClusterPolicy", "metadata: {name: nics}", "spec:"]
    for name, config in plugins.items():
        lines += [f"  {name}:", "    config: |", *(f"      {line}" for line in config.splitlines())]
    return "\n".join([*lines, "  nvIpam: {}"])


def with_operator(text: str = "", name: str = OPERATOR) -> dict[str, Any]:
    """The recipe with the network operator, and a manifest if it has a text."""
    found = recipe()
    entry: dict[str, Any] = {"name": name, "namespace": name, "version": "1.0", "values": {}}
    if text:
        entry |= {"manifestFiles": ["p.yaml"], "manifests": [{"when": "after", "file": "p.yaml", "text": text}]}
    found["componentRefs"].append(entry)
    found["deploymentOrder"].append(name)
    return found


def offering(view: ClusterState, **amounts: int) -> ClusterState:
    """The cluster with the network operator, whose nodes offer adapters; `amounts` of other names in their place."""
    offered = amounts or {SHARED: 63}
    nodes = tuple(
        replace(node, allocatable={"nvidia.com/gpu": 8, **offered}, labels=LABELS) for node in view.nodes or ()
    )
    promised = (Promised(kind="Deployment", name=f"{OPERATOR}-main", namespace=OPERATOR),)
    component = ComponentState(
        name=OPERATOR, release=f"{OPERATOR}/{OPERATOR}", status="deployed", version="1.0", ours=True, promised=promised
    )
    plugin = replace(workload("rdma-shared-dp-ds", "", "DaemonSet", 4), namespace=OPERATOR, tolerations=(), misplaced=0)
    own = (workload(f"{OPERATOR}-main", f"{OPERATOR}/{OPERATOR}"), plugin)
    return replace(
        view,
        nodes=nodes,
        components=(*(view.components or ()), component),
        workloads=(*(view.workloads or ()), *own),
        nic_cluster_policies=(PolicyState(name="nics", state="ready"),),
    )


def asked(text: str = policy(rdmaSharedDevicePlugin=ONE), **more: Any) -> JudgeContext:
    return context(recipe=with_operator(text), hardware={SKU.name: WITH_HCAS}, **more)


def told(view: ClusterState, given: JudgeContext) -> list[tuple[str, str, list[str]]]:
    """What the check says that is no pass: status, cause (or the check that it waits for), hosts."""
    outcomes = rdma_allocatable.judge(view, given)
    return [
        (o.status.value, o.blocked_by or o.cause, [s.name for s in o.subjects])
        for o in outcomes
        if o.status is not Status.PASSED
    ]


def test_a_healthy_cluster_passes_and_says_what_it_offers(view: ClusterState) -> None:
    outcomes = rdma_allocatable.judge(offering(view), asked())
    assert [o.status for o in outcomes] == [Status.PASSED] * 4
    assert outcomes[0].summary == f"offers 63 {SHARED}"


@pytest.mark.parametrize(
    ("amount", "cause"), [(0, "rdma-resource-missing"), (62, "rdma-count-mismatch"), (1000, "rdma-count-mismatch")]
)
def test_a_node_that_offers_something_else_is_named(view: ClusterState, amount: int, cause: str) -> None:
    broken = changed_node(offering(view), "gpu03", allocatable={"nvidia.com/gpu": 8, SHARED: amount})
    assert told(broken, asked()) == [("failed", cause, ["gpu03"])]
    assert unsettled(broken, asked()) == "1 node(s) do not offer their network adapters"  # type: ignore[arg-type]


def test_a_node_that_never_heard_of_the_resource_lacks_it(view: ClusterState) -> None:
    broken = changed_node(offering(view), "gpu03", allocatable={"nvidia.com/gpu": 8})
    assert told(broken, asked()) == [("failed", "rdma-resource-missing", ["gpu03"])]


def test_a_node_without_the_label_of_its_nics_says_so(view: ClusterState) -> None:
    broken = changed_node(offering(view), "gpu03", allocatable={"nvidia.com/gpu": 8}, labels={})
    (outcome,) = [o for o in rdma_allocatable.judge(broken, asked()) if o.status is Status.FAILED]
    assert (outcome.cause, "pci-15b3" in outcome.summary) == ("nic-label-missing", True)


def test_a_taint_that_keeps_the_plugin_away_is_the_cause(view: ClusterState) -> None:
    broken = changed_node(
        offering(view), "gpu03", allocatable={"nvidia.com/gpu": 8}, taints=("nvidia.com/gpu=present:NoSchedule",)
    )
    assert told(broken, asked()) == [("failed", "taint-not-tolerated", ["gpu03"])]


def test_a_plugin_that_is_not_ready_is_told_once_with_its_node(view: ClusterState) -> None:
    sick = {"ready": 3, "state": "failed", "cause": "pod-crash-looping", "reason": "CrashLoopBackOff", "pod": "rdma-x"}
    seen = changed_node(offering(view), "gpu02", allocatable={"nvidia.com/gpu": 8, SHARED: 0})
    workloads = [
        replace(w, nodes=("gpu02",), **sick) if w.name == "rdma-shared-dp-ds" else w  # type: ignore[arg-type]
        for w in seen.workloads or ()
    ]
    stale = replace(seen, workloads=tuple(workloads))
    assert told(stale, asked()) == [("failed", "network-operand-not-ready", ["gpu02"])]
    waiting = replace(stale, nic_cluster_policies=(PolicyState(name="nics", state="notReady"),))
    assert told(waiting, asked()) == [("other", "cluster-policy-ready", list(NAMES))]
    (outcome,) = cluster_policy_ready.judge(waiting, asked())
    assert (outcome.cause, [s.name for s in outcome.subjects]) == ("nic-cluster-policy-not-ready", ["lab", "gpu02"])
    assert "RDMA shared device plugin on gpu02: CrashLoopBackOff" in outcome.summary
    down = changed_node(waiting, "gpu02", ready="Unknown")
    assert [o.blocked_by for o in cluster_policy_ready.judge(down, asked())] == ["node-ready"]


def test_what_explains_a_missing_resource_is_told_in_its_place(view: ClusterState) -> None:
    bare = changed_node(offering(view), "gpu03", allocatable={})
    assert told(changed_node(bare, "gpu03", ready="Unknown"), asked()) == [("other", "node-ready", ["gpu03"])]
    gone = changed_component(bare, OPERATOR, release="", status="", version="")
    assert told(gone, asked()) == [("other", "component-health", list(NAMES))]
    assert told(changed_node(offering(view), "gpu03", unschedulable=True), asked()) == []
    without = replace(bare, nic_cluster_policies=())
    assert told(without, asked()) == [("other", "cluster-policy-ready", list(NAMES))]
    (outcome,) = cluster_policy_ready.judge(without, asked())
    assert outcome.cause == "nic-cluster-policy-not-ready"


EACH = '{"resourceList": [{"resourcePrefix": "nvidia.com", "resourceName": "%s", "selectors": {"vendors": ["15b3"]}}]}'


@pytest.mark.parametrize(
    ("amount", "cause"), [(8, ""), (10, ""), (7, "rdma-count-mismatch"), (0, "rdma-resource-missing")]
)
def test_single_adapters_are_those_of_the_sku_or_more(view: ClusterState, amount: int, cause: str) -> None:
    """Selectors by vendor take adapters for storage as well."""
    given = asked(policy(sriovDevicePlugin=EACH % "hostdev"))
    found = told(offering(view, **{"nvidia.com/hostdev": amount}), given)
    assert [entry[:2] for entry in found] == ([("failed", cause)] if cause else [])


def test_one_resource_for_each_rail_counts_together(view: ClusterState) -> None:
    rails = ", ".join(f'{{"resourcePrefix": "nvidia.com", "resourceName": "rail-{n}"}}' for n in range(8))
    given = asked(policy(sriovDevicePlugin=f'{{"resourceList": [{rails}]}}'))
    each = {f"nvidia.com/rail-{number}": 1 for number in range(8)}
    assert told(offering(view, **each), given) == []
    assert [entry[1] for entry in told(offering(view, **{**each, "nvidia.com/rail-3": 0}), given)] == [
        "rdma-count-mismatch"
    ]


FUNCTIONS = """apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {name: p%d, namespace: nvidia-network-operator}
spec: {isRdma: true, numVfs: 1, resourceName: sriov-rdma-vf, nodeSelector: {node.kubernetes.io/instance-type: BM-%d}}"""


def test_virtual_functions_of_policies_for_several_kinds_of_hosts(view: ClusterState) -> None:
    """As OguzPastirmaci/misc, network-operator-vf has it for Oracle's shapes: one resource, a policy for each shape."""
    given = asked("\n---\n".join(FUNCTIONS % (number, number) for number in range(3)))
    assert told(offering(view, **{"nvidia.com/sriov-rdma-vf": 8}), given) == []
    assert [entry[1] for entry in told(offering(view, **{"nvidia.com/sriov-rdma-vf": 4}), given)] == [
        "rdma-count-mismatch"
    ]
    by_olm = adapter_promises(with_operator(FUNCTIONS % (1, 1), "network-operator-ocp-olm"))
    assert [entry.name for entry in by_olm] == ["openshift.io/sriov-rdma-vf"]


TWO = (
    '{"configList": [{"resourceName": "a", "rdmaHcaMax": 63, "devices": ["ib0"]},'
    ' {"resourceName": "b", "rdmaHcaMax": 1000, "devices": ["ib9"]}]}'
)


def test_a_resource_for_another_kind_of_host_is_not_missed(view: ClusterState) -> None:
    hosts = tuple(Host(name=n, sku="other" if n == "gpu04" else SKU.name, node_name=n) for n in NAMES)
    given = replace(
        asked(policy(rdmaSharedDevicePlugin=TWO)),
        site=replace(site(), hosts=hosts),
        hardware={SKU.name: WITH_HCAS, "other": replace(WITH_HCAS, name="other")},
    )
    seen = offering(view, **{"rdma/a": 63, "rdma/b": 0})
    seen = changed_node(seen, "gpu04", allocatable={"nvidia.com/gpu": 8, "rdma/b": 1000})
    assert told(seen, given) == []
    # Of hosts of one kind each has to offer it.
    mixed = changed_node(seen, "gpu01", allocatable={"nvidia.com/gpu": 8, "rdma/a": 63, "rdma/b": 1000})
    assert told(mixed, given)[0][:2] == ("failed", "rdma-count-mismatch")


def test_a_host_whose_sku_has_no_adapters_passes(view: ClusterState) -> None:
    hosts = tuple(Host(name=n, sku="bare" if n == "gpu04" else SKU.name, node_name=n) for n in NAMES)
    given = replace(
        asked(), site=replace(site(), hosts=hosts), hardware={SKU.name: WITH_HCAS, "bare": replace(SKU, name="bare")}
    )
    assert told(changed_node(offering(view), "gpu04", allocatable={"nvidia.com/gpu": 8}), given) == []


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"configList": []}',
        '{"other": [{"resourceName": "a"}]}',
        '{"configList": [{"rdmaHcaMax": 63}]}',
        '{"configList": [{"resourceName": "a", "rdmaHcaMax": "many"}]}',
        '{"configList": [{"resourceName": "a"}]}',
        "[1]",
    ],
)
def test_a_configuration_that_cannot_be_read_is_no_pass(view: ClusterState, text: str) -> None:
    found = told(offering(view), asked(policy(rdmaSharedDevicePlugin=text)))
    assert [entry[:2] for entry in found] == [("other", "promise-unread")]


def test_a_manifest_that_was_not_rendered_is_no_pass(view: ClusterState) -> None:
    found = told(offering(view), asked(policy(rdmaSharedDevicePlugin="{{ .Values.config }}")))
    assert [entry[:2] for entry in found] == [("other", "promise-unread")]


STATED = {"rdma-allocatable": {"resources": {"rdma/ib": 8}, "hosts": ["gpu0[12]"]}}


def test_what_the_site_states_replaces_the_recipe(view: ClusterState) -> None:
    given = asked(site=site(settings=STATED))
    healthy = offering(view, **{"rdma/ib": 8})
    outcomes = rdma_allocatable.judge(healthy, given)
    assert [(o.status, o.subjects[0].name) for o in outcomes] == [(Status.PASSED, "gpu01"), (Status.PASSED, "gpu02")]
    broken = changed_node(healthy, "gpu02", allocatable={"nvidia.com/gpu": 8, SHARED: 63})
    assert told(broken, given) == [("failed", "rdma-resource-missing", ["gpu02"])]
    # Whatever state the operator is in: its word is not what counts.
    waiting = replace(healthy, nic_cluster_policies=(PolicyState(name="nics", state="notReady"),))
    assert told(waiting, given) == []


@pytest.mark.parametrize("amount", [1, 32])
def test_zero_means_any_amount_and_each_resource_counts(view: ClusterState, amount: int) -> None:
    stated = {"rdma-allocatable": {"resources": {"vpc.amazonaws.com/efa": 0, "networking.gke.io.networks/rdma-0": 1}}}
    given = context(site=site(settings=stated))
    both = {"vpc.amazonaws.com/efa": amount, "networking.gke.io.networks/rdma-0": 1}
    assert told(offering(view, **both), given) == []
    assert told(offering(view, **{**both, "vpc.amazonaws.com/efa": 0}), given)[0][:2] == (
        "failed",
        "rdma-count-mismatch",
    )


def _asked_hosts(given: Any, stack: dict[str, Any] | None) -> tuple[str, ...]:
    names = tuple(stack["deploymentOrder"]) if stack else None
    found = declare("gpu_stack", given, names, stack)
    here = {check.id: check.subjects for check in found.checks}
    reasons = {entry.id: entry.reason for entry in found.not_declared}
    assert (rdma_allocatable.SPEC.id in here) is not (rdma_allocatable.SPEC.id in reasons)
    return here.get(rdma_allocatable.SPEC.id, ())


def test_it_is_asked_where_somebody_promises_adapters_and_nowhere_else() -> None:
    shared = policy(rdmaSharedDevicePlugin=ONE)
    assert _asked_hosts(site(), with_operator(shared)) == NAMES
    # A network operator for secondary networks alone, as on hosts whose pods are in the host's network.
    assert _asked_hosts(site(), with_operator(policy())) == ()
    assert _asked_hosts(site(), with_operator()) == ()
    assert _asked_hosts(site(), recipe()) == ()
    # Nobody knows the recipe yet.
    assert _asked_hosts(site(), None) == NAMES
    assert _asked_hosts(site(settings=STATED), recipe()) == ("gpu01", "gpu02")
    unread = with_operator(policy(rdmaSharedDevicePlugin="{"))
    assert _asked_hosts(site(), unread) == NAMES


@pytest.mark.parametrize(
    ("text", "number"),
    [("63", 63), ("1k", 1000), ("2M", 2000000), ("0", 0), ("5120Mi", None), ("500m", None), ("", None), ("1.5k", None)],
)
def test_devices_are_counted_as_the_api_server_writes_them(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_a_node_keeps_what_other_vendors_plugins_offer() -> None:
    amounts = {"cpu": "8", "memory": "1Gi", "nvidia.com/gpu": "8", SHARED: "1k", "example.com/odd": "1Gi"}
    state = node_state({"metadata": {"name": "n"}, "status": {"allocatable": amounts, "capacity": amounts}})
    assert (state.allocatable, state.capacity) == ({"nvidia.com/gpu": 8, SHARED: 1000}, {"nvidia.com/gpu": 8})
    assert state.gpus == {"nvidia.com/gpu": 8}


def test_gpus_that_are_shared_by_many_are_counted_too() -> None:
    """8 GPUs that time-slicing gives out 125 times each are written as `1k`."""
    amounts = {"nvidia.com/gpu.shared": "1k"}
    state = node_state({"metadata": {"name": "n"}, "status": {"allocatable": amounts, "capacity": amounts}})
    assert state.capacity == {"nvidia.com/gpu.shared": 1000}
    with pytest.raises(InputError, match="not a whole number"):
        node_state({"metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": "1.5"}}})


def test_a_node_with_adapters_and_no_gpu_offers_no_gpu(view: ClusterState) -> None:
    given: Any = asked()
    bare = changed_node(offering(view), "gpu03", allocatable={SHARED: 63})
    assert unsettled(bare, given) == "1 node(s) without allocatable GPUs"
