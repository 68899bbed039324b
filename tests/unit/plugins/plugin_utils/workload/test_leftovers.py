# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What dead runs left is removed by whoever holds the cluster; what this process tests now is not."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import Any

import pytest
from lease_cluster import MemoryCluster

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    JOBS,
    NAMESPACES,
    PODS,
    PROMETHEUS_RULES,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import DeadlineError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import time_limit
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import namespace as module
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import job_namespace
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.lease import Claim, LostError, acquire
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import (
    HOLDER,
    OWNER_LABELS,
    TemporaryNamespace,
    sweep_left,
    temporary_namespace,
)

MINE, DEAD = "ctl1_run-2", "ctl1_run-1"


@pytest.fixture
def cluster() -> MemoryCluster:
    made = MemoryCluster()
    acquire(made.api, Claim(holder=MINE))
    return made


def left(cluster: MemoryCluster, name: str, holder: str, **more: Any) -> None:
    metadata = {"name": name, "labels": {**OWNER_LABELS, "gpufleet.io/test": name}, "annotations": {HOLDER: holder}}
    cluster.create(NAMESPACES, {"metadata": metadata})
    cluster.create(JOBS, {"metadata": {"name": "server"}}, name)
    cluster.create(PODS, {"metadata": {"name": "server-0"}, "spec": {"nodeName": "gpu01"}, **more}, name)


def names(cluster: MemoryCluster) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.list_objects(NAMESPACES, labels="gpufleet.io/purpose=test")}


def test_what_another_run_left_is_removed_however_young_and_from_whatever_host(cluster: MemoryCluster) -> None:
    left(cluster, "t-one", DEAD)
    left(cluster, "t-two", "ctl9_run-7")
    left(cluster, "t-old", "")
    assert set(sweep_left(cluster.api, MINE, cleanup_s=5)) == {"t-one", "t-two", "t-old"}
    assert not names(cluster) and not cluster.list_objects(PODS)
    kinds = [kind for kind, _name, _grace in cluster.deleted]
    assert kinds.index("Job") < kinds.index("Pod"), "a job would make its pods anew"


def test_pods_go_with_the_grace_that_they_state(cluster: MemoryCluster) -> None:
    left(cluster, "t-one", DEAD)
    sweep_left(cluster.api, MINE, cleanup_s=5)
    assert {grace for kind, _name, grace in cluster.deleted if kind == "Pod"} == {None}


def test_who_does_not_hold_the_cluster_removes_nothing(cluster: MemoryCluster) -> None:
    left(cluster, "t-one", MINE)
    with pytest.raises(LostError):
        sweep_left(cluster.api, DEAD, cleanup_s=5)
    assert names(cluster) == {"t-one"}


def test_of_a_run_that_ended_only_its_own_is_removed(cluster: MemoryCluster) -> None:
    left(cluster, "t-mine", MINE)
    left(cluster, "t-other", DEAD)
    assert sweep_left(cluster.api, MINE, cleanup_s=5, of_holder=True) == ("t-mine",)
    assert names(cluster) == {"t-other"}


def test_a_test_of_this_process_goes_on_while_another_begins(cluster: MemoryCluster) -> None:
    with temporary_namespace(cluster.api, "a", prefix="t", priority=-100, kinds=(), holder=MINE) as first:
        with temporary_namespace(cluster.api, "b", prefix="t", priority=-100, kinds=(), holder=MINE) as second:
            assert names(cluster) == {first.name, second.name}
        assert names(cluster) == {first.name}
    assert not names(cluster)


@pytest.mark.parametrize("works_s", [30.0, 0.0])
def test_a_test_whose_time_is_over_removes_what_it_made(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, works_s: float
) -> None:
    """A phase's limit ends the test, and is raised again each second: a kubelet needs longer to end pods."""
    monkeypatch.setattr(module.TemporaryNamespace, "_step", _slow(module.TemporaryNamespace._step))
    with pytest.raises(DeadlineError), time_limit("observer x", 0.3, "look"):
        with temporary_namespace(cluster.api, "a", prefix="t", priority=-100, kinds=(), holder=MINE) as namespace:
            left_behind = namespace.leftovers
            cluster.create(PODS, {"metadata": {"name": "a-0"}, "spec": {"nodeName": "gpu01"}}, namespace.name)
            sleep(works_s)
        sleep(30)
    assert not names(cluster) and not cluster.list_objects(PODS) and not left_behind


def _slow(step: Callable[..., None]) -> Callable[..., None]:
    def slow(namespace: TemporaryNamespace, what: str, action: Callable[[], None]) -> None:
        sleep(0.7)
        step(namespace, what, action)

    return slow


def test_the_namespace_of_a_test_states_what_its_pods_keep_whatever_the_cluster_demands(cluster: MemoryCluster) -> None:
    def level() -> str | None:
        (found,) = cluster.list_objects(NAMESPACES, labels="gpufleet.io/purpose=test")
        return found["metadata"]["labels"].get("pod-security.kubernetes.io/enforce")

    with temporary_namespace(cluster.api, "a", prefix="t", priority=-100, kinds=(), holder=MINE):
        assert level() == "baseline"
    with job_namespace(cluster.api, "b", prefix="t", priority=-100, holder=MINE):
        assert level() == "privileged"


def test_a_rule_of_a_dead_test_in_a_namespace_of_others_is_removed(cluster: MemoryCluster) -> None:
    cluster.create(NAMESPACES, {"metadata": {"name": "monitoring"}})
    for name, labels in (("t-dead", {**OWNER_LABELS, "gpufleet.io/test": "t-dead"}), ("theirs", {"team": "sre"})):
        cluster.create(PROMETHEUS_RULES, {"metadata": {"name": name, "labels": labels}}, "monitoring")
    sweep_left(cluster.api, MINE, cleanup_s=5)
    assert [rule["metadata"]["name"] for rule in cluster.list_objects(PROMETHEUS_RULES)] == ["theirs"]


def test_pods_that_a_kubelet_does_not_let_go_are_named_with_their_nodes(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.1)
    left(cluster, "t-one", DEAD)
    cluster.pods_stay = {"server-0"}
    namespace = TemporaryNamespace(cluster.api, "t-one", 0.3, ())
    namespace.close()
    assert "server-0 on node gpu01" in namespace.leftovers[0]


def test_what_a_sweep_cannot_remove_is_told_with_its_reason_and_the_command(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.1)
    left(cluster, "t-stuck", DEAD)
    left(cluster, "t-goes", DEAD)
    cluster.objects["Pod", "t-goes", "server-0"]["metadata"]["name"] = "other"
    cluster.objects["Pod", "t-goes", "other"] = cluster.objects.pop(("Pod", "t-goes", "server-0"))
    cluster.create(NAMESPACES, {"metadata": {"name": "monitoring"}})
    labels = {**OWNER_LABELS, "gpufleet.io/test": "t-dead"}
    cluster.create(PROMETHEUS_RULES, {"metadata": {"name": "t-dead", "labels": labels}}, "monitoring")
    cluster.pods_stay = {"server-0"}
    delete = cluster.delete

    def forbidding(kind: Kind, name: str, namespace: str = "", **more: Any) -> bool:
        if kind is PROMETHEUS_RULES:
            raise ForbiddenError("delete prometheusrules", "forbidden.", "grant it")
        return delete(kind, name, namespace, **more)

    monkeypatch.setattr(cluster, "delete", forbidding)
    remains: list[str] = []
    assert sweep_left(cluster.api, MINE, cleanup_s=0.3, remains=remains) == ("t-goes",)
    pod, rule = remains
    assert "server-0 on node gpu01" in pod and pod.endswith("Remove it: kubectl delete namespace,priorityclass t-stuck")
    assert rule == (
        "not removed of a dead run: rule t-dead: forbidden. "
        "Remove it: kubectl delete prometheusrule -n monitoring t-dead"
    )
