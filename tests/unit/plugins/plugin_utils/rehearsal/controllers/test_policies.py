# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the simulated operators make of a policy: runtime classes, and what a driver with peer memory waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from operator_view import a_deployment, a_node, a_pod, a_policy, changes_of, meta, operand_sets, view_of

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CLUSTER_POLICIES,
    DAEMON_SETS,
    NIC_CLUSTER_POLICIES,
    NODES,
    RUNTIME_CLASSES,
    Kind,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers import (
    gateway,
    gpu_operator,
    network_operator,
    rdma_plugin,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    ClusterFacts,
    Json,
)

SHARED = "rdma/rdma_shared_device_a"
_READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
_CLASS: tuple[Kind, Json] = (RUNTIME_CLASSES, {"metadata": meta("nvidia"), "handler": "nvidia"})


@pytest.mark.parametrize(("stated", "made"), [({}, "nvidia"), ({"runtimeClass": "other"}, "other")])
def test_the_operator_makes_the_runtime_class_that_the_policy_names(
    facts: ClusterFacts, stated: dict[str, str], made: str
) -> None:
    policy = a_policy(operator=stated)
    changes = gpu_operator.reconcile(view_of(a_deployment("gpu-operator"), policy), facts)
    assert [(change.name, change.body["handler"]) for change in changes_of(changes, RUNTIME_CLASSES)] == [(made, made)]


@pytest.mark.parametrize(
    ("rdma", "nics", "waits"),
    [
        ({"enabled": False}, {}, False),
        ({"enabled": True}, {}, True),
        ({"enabled": True}, {"rdmaSharedDevicePlugin": {}}, True),
        ({"enabled": True}, {"ofedDriver": {"image": "doca-driver"}}, False),
        ({"enabled": True, "useHostMofed": True}, {}, False),
    ],
)
def test_a_driver_with_peer_memory_waits_for_drivers_of_the_nics(
    facts: ClusterFacts, rdma: Json, nics: Json, waits: bool
) -> None:
    policy = a_policy(driver={"enabled": True, "rdma": rdma})
    stated = [(NIC_CLUSTER_POLICIES, {"metadata": meta("nic-cluster-policy"), "spec": nics})] if nics else []
    view = view_of(a_deployment("gpu-operator"), _CLASS, policy, *stated, *operand_sets(policy[1]))
    status = changes_of(gpu_operator.reconcile(view, facts), CLUSTER_POLICIES)[0].body["status"]
    assert status["state"] == ("notReady" if waits else "ready")


def test_a_policy_for_nics_is_ready_when_its_operator_runs(facts: ClusterFacts) -> None:
    policy = (NIC_CLUSTER_POLICIES, {"metadata": meta("nic-cluster-policy"), "spec": {}})
    kind, operator = a_deployment("x")
    operator["metadata"]["labels"] = {"app.kubernetes.io/name": "network-operator"}
    assert network_operator.reconcile(view_of(policy), facts) == []
    (change,) = network_operator.reconcile(view_of((kind, operator), policy), facts)
    assert change.body == {"status": {"state": "ready", "appliedStates": []}}


def test_a_device_plugin_of_the_policy_offers_adapters_where_its_pod_is_ready(facts: ClusterFacts) -> None:
    spec = {"rdmaSharedDevicePlugin": {"config": "{}"}, "tolerations": [{"operator": "Exists"}]}
    policy = (NIC_CLUSTER_POLICIES, {"metadata": meta("nic-cluster-policy"), "spec": spec})
    kind, operator = a_deployment("x")
    operator["metadata"]["labels"] = {"app.kubernetes.io/name": "network-operator"}
    first, second = facts.nodes
    nodes = [(NODES, {**a_node(name)[1], **_READY}) for name in (first, second)]
    changes = network_operator.reconcile(view_of((kind, operator), policy, *nodes), facts)
    assert [change.name for change in changes_of(changes, NODES)] == [first, second]
    (made,) = changes_of(changes, DAEMON_SETS)
    assert made.body["spec"]["template"]["spec"]["tolerations"][0] == {"operator": "Exists"}
    (told,) = changes_of(changes, NIC_CLUSTER_POLICIES)
    assert told.body["status"]["state"] == "notReady"
    # The pod of one node is not ready: the policy waits, and that node offers nothing.
    counts = {"desiredNumberScheduled": 2, "numberReady": 1, "updatedNumberScheduled": 2, "observedGeneration": 1}
    plugin = (DAEMON_SETS, {**made.body, "status": counts})
    pods = [a_pod("a", first, "rdma-shared-dp"), a_pod("b", second, "rdma-shared-dp", ready=False)]
    nodes = [(NODES, {**item, "status": {**item["status"], "allocatable": {SHARED: "63"}}}) for _kind, item in nodes]
    view = view_of((kind, operator), policy, plugin, *nodes, *pods)
    (waits,) = changes_of(network_operator.reconcile(view, facts), NIC_CLUSTER_POLICIES)
    assert waits.body["status"]["appliedStates"] == [{"name": "state-RDMA-device-plugin", "state": "notReady"}]
    (change,) = rdma_plugin.reconcile(view, facts)
    assert (change.name, change.body["status"]["allocatable"]) == (second, {SHARED: "0"})


def test_a_site_that_gives_adapters_out_itself_does_so_beside_the_operators_plugin(facts: ClusterFacts) -> None:
    assert facts.model is not None
    node = facts.model.nodes[0]
    own = replace(node, kubernetes=replace(node.kubernetes, adapters={"rdma/ib": 8}))
    assert rdma_plugin.adapter_offer(own) == {"rdma/ib": "8"}
    assert rdma_plugin.adapter_offer(own, operated=True) == {SHARED: "63", "rdma/ib": "8"}
    assert rdma_plugin.adapter_offer(own, operated=True, runs=False) == {SHARED: "0", "rdma/ib": "8"}
    assert rdma_plugin.adapter_offer(replace(own, fabric="efa"), operated=True) == {"rdma/ib": "8"}
    empty = replace(node, kubernetes=replace(node.kubernetes, adapters={SHARED: 0}))
    assert rdma_plugin.adapter_offer(empty, operated=True) == {SHARED: "0"}


def test_a_policy_is_ready_when_every_operand_is(facts: ClusterFacts) -> None:
    policy = a_policy()
    ready = changes_of(
        gpu_operator.reconcile(view_of(a_deployment("gpu-operator"), _CLASS, policy, *operand_sets(policy[1])), facts),
        CLUSTER_POLICIES,
    )
    assert ready[0].body["status"]["state"] == "ready"
    sets = operand_sets(policy[1])
    sets[3][1]["status"]["numberReady"] = 1
    behind = changes_of(
        gpu_operator.reconcile(view_of(a_deployment("gpu-operator"), policy, *sets), facts), CLUSTER_POLICIES
    )
    status = behind[0].body["status"]
    assert status["state"] == "notReady"
    assert "[state-device-plugin]" in next(c["message"] for c in status["conditions"] if c["type"] == "Error")


def test_a_ready_policy_is_left_alone(facts: ClusterFacts) -> None:
    policy = a_policy()
    view = view_of(a_deployment("gpu-operator"), _CLASS, policy, *operand_sets(policy[1]))
    policy[1]["status"] = gpu_operator.reconcile(view, facts)[0].body["status"]
    assert gpu_operator.reconcile(view, facts) == []


@pytest.mark.parametrize("manager", ["agentgateway", "kgateway"])
def test_a_gateway_is_programmed_by_the_controller_of_its_class_while_that_runs(
    facts: ClusterFacts, manager: str
) -> None:
    spec = {"controllerName": gateway.CONTROLLERS[manager]}
    own = (gateway.GATEWAY_CLASSES, {"metadata": meta(manager), "spec": spec})
    foreign = (gateway.GATEWAY_CLASSES, {"metadata": meta("other"), "spec": {"controllerName": "example.com/other"}})
    entry = (gateway.GATEWAYS, {"metadata": meta("inference"), "spec": {"gatewayClassName": manager}})
    stray = (gateway.GATEWAYS, {"metadata": meta("stray"), "spec": {"gatewayClassName": "other"}})
    kind, operator = a_deployment("x")
    operator["metadata"]["labels"] = {"app.kubernetes.io/name": manager}
    first = gateway.reconcile(view_of((kind, operator), own, foreign, entry, stray), facts)
    assert [(change.name, change.kind.kind) for change in first] == [
        (manager, "GatewayClass"), ("inference", "Deployment"), ("inference", "Service"),
    ]  # fmt: skip
    made = [(change.kind, {**change.body, "spec": {**change.body["spec"], "clusterIP": "10.0.0.7"}})
            for change in first[1:]]  # fmt: skip
    changes = gateway.reconcile(view_of((kind, operator), own, foreign, entry, stray, *made), facts)
    told = {change.name: [item["type"] for item in change.body["status"]["conditions"]] for change in changes}
    assert told == {manager: ["Accepted"], "inference": ["Accepted", "Programmed"]}
    assert changes[-1].body["status"]["addresses"] == [{"type": "IPAddress", "value": "10.0.0.7"}]
    assert gateway.reconcile(view_of(own, entry), facts) == []
