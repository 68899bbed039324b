# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the simulated operators make of a policy: runtime classes, and what a driver with peer memory waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.kinds import (
    CLUSTER_POLICIES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NIC_CLUSTER_POLICIES,
    RUNTIME_CLASSES,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.controllers import (
    gpu_operator,
    network_operator,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.controllers.cluster_facts import (
    ClusterFacts,
    cluster_facts_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.controllers.cluster_view import (
    Change,
    ClusterView,
    Json,
    key_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.controllers.operands import (
    daemon_set,
    wanted_operands,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.patch import build_model
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.rehearsal.model.spec import ModelSpec, numbered_nodes


@pytest.fixture(scope="module")
def facts(repository: Path) -> ClusterFacts:
    skus = load_hardware([repository / "recipes" / "hardware"])
    return cluster_facts_of(build_model(ModelSpec(name="t", seed=3, nodes=numbered_nodes(2, "dgx-h100")), skus), skus)


def _meta(name: str, namespace: str = "", **more: Any) -> Json:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **more}


def _view(*items: tuple[Kind, Json]) -> ClusterView:
    objects: dict[Kind, dict[tuple[str, str], Json]] = {}
    for kind, item in items:
        objects.setdefault(kind, {})[key_of(item)] = item
    return ClusterView(objects)


def _deployment(app: str, available: bool = True, namespace: str = "ns") -> tuple[Kind, Json]:
    condition = {"type": "Available", "status": str(available)}
    return DEPLOYMENTS, {"metadata": _meta(app, namespace, labels={"app": app}), "status": {"conditions": [condition]}}


def _policy(**spec: Any) -> tuple[Kind, Json]:
    return CLUSTER_POLICIES, {"metadata": _meta("cluster-policy"), "spec": spec}


def _sets(policy: Json) -> list[tuple[Kind, Json]]:
    found = []
    for operand in wanted_operands(policy):
        body = daemon_set(operand, policy, "ns")
        counts = {"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2, "observedGeneration": 1}
        found.append((DAEMON_SETS, {**body, "metadata": {**body["metadata"], "generation": 1}, "status": counts}))
    return found


def _of(changes: list[Change], kind: Kind) -> list[Change]:
    return [change for change in changes if change.kind is kind]


_CLASS: tuple[Kind, Json] = (RUNTIME_CLASSES, {"metadata": _meta("nvidia"), "handler": "nvidia"})


@pytest.mark.parametrize(("stated", "made"), [({}, "nvidia"), ({"runtimeClass": "other"}, "other")])
def test_the_operator_makes_the_runtime_class_that_the_policy_names(
    facts: ClusterFacts, stated: dict[str, str], made: str
) -> None:
    policy = _policy(operator=stated)
    changes = gpu_operator.reconcile(_view(_deployment("gpu-operator"), policy), facts)
    assert [(change.name, change.body["handler"]) for change in _of(changes, RUNTIME_CLASSES)] == [(made, made)]


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
    policy = _policy(driver={"enabled": True, "rdma": rdma})
    stated = [(NIC_CLUSTER_POLICIES, {"metadata": _meta("nic-cluster-policy"), "spec": nics})] if nics else []
    view = _view(_deployment("gpu-operator"), _CLASS, policy, *stated, *_sets(policy[1]))
    status = _of(gpu_operator.reconcile(view, facts), CLUSTER_POLICIES)[0].body["status"]
    assert status["state"] == ("notReady" if waits else "ready")


def test_a_policy_for_nics_is_ready_when_its_operator_runs(facts: ClusterFacts) -> None:
    policy = (NIC_CLUSTER_POLICIES, {"metadata": _meta("nic-cluster-policy"), "spec": {}})
    kind, operator = _deployment("x")
    operator["metadata"]["labels"] = {"app.kubernetes.io/name": "network-operator"}
    assert network_operator.reconcile(_view(policy), facts) == []
    (change,) = network_operator.reconcile(_view((kind, operator), policy), facts)
    assert change.body == {"status": {"state": "ready"}}


def test_a_policy_is_ready_when_every_operand_is(facts: ClusterFacts) -> None:
    policy = _policy()
    ready = _of(
        gpu_operator.reconcile(_view(_deployment("gpu-operator"), _CLASS, policy, *_sets(policy[1])), facts),
        CLUSTER_POLICIES,
    )
    assert ready[0].body["status"]["state"] == "ready"
    sets = _sets(policy[1])
    sets[3][1]["status"]["numberReady"] = 1
    behind = _of(gpu_operator.reconcile(_view(_deployment("gpu-operator"), policy, *sets), facts), CLUSTER_POLICIES)
    status = behind[0].body["status"]
    assert status["state"] == "notReady"
    assert "[state-device-plugin]" in next(c["message"] for c in status["conditions"] if c["type"] == "Error")


def test_a_ready_policy_is_left_alone(facts: ClusterFacts) -> None:
    policy = _policy()
    view = _view(_deployment("gpu-operator"), _CLASS, policy, *_sets(policy[1]))
    policy[1]["status"] = gpu_operator.reconcile(view, facts)[0].body["status"]
    assert gpu_operator.reconcile(view, facts) == []
