# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the simulated KubeRay makes of a RayCluster, by the scheduler that it was told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from operator_view import a_deployment, changes_of, meta, view_of

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    KAI_POD_GROUPS,
    PODS,
    VOLCANO_POD_GROUPS,
    Kind,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers import kuberay
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    ClusterFacts,
    Json,
)


def a_cluster() -> tuple[Kind, Json]:
    template = {"metadata": {"labels": {"mine": "a"}}, "spec": {"containers": []}}
    group = {"groupName": "workers", "replicas": 2, "minReplicas": 2, "template": template}
    labels = {"volcano.sh/queue-name": "v", "kai.scheduler/queue": "k"}
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": [group]}
    return kuberay.RAY_CLUSTERS, {"metadata": meta("ray", "ns", labels=labels), "spec": spec}


def an_operator(told: str) -> tuple[Kind, Json]:
    kind, body = a_deployment("x")
    body["metadata"]["labels"] = {"app.kubernetes.io/name": "kuberay-operator", kuberay.TOLD: told}
    return kind, body


@pytest.mark.parametrize(
    ("told", "groups", "queue", "annotation"),
    [
        ("volcano", VOLCANO_POD_GROUPS, "v", "scheduling.k8s.io/group-name"),
        ("kai-scheduler", KAI_POD_GROUPS, "k", "pod-group-name"),
    ],
)
def test_head_and_workers_are_one_group(
    facts: ClusterFacts, told: str, groups: Kind, queue: str, annotation: str
) -> None:
    changes = kuberay.reconcile(view_of(an_operator(told), a_cluster()), facts)
    (group,) = changes_of(changes, groups)
    assert group.body["spec"] == {"minMember": 3, "queue": queue}
    pods = changes_of(changes, PODS)
    assert [pod.name for pod in pods] == ["ray-head", "ray-workers-worker-0", "ray-workers-worker-1"]
    assert {pod.body["spec"]["schedulerName"] for pod in pods} == {told}
    assert {pod.body["metadata"]["annotations"][annotation] for pod in pods} == {group.name}
    assert {pod.body["metadata"]["labels"]["mine"] for pod in pods} == {"a"}


def test_an_operator_that_was_told_no_scheduler_groups_nothing(facts: ClusterFacts) -> None:
    changes = kuberay.reconcile(view_of(an_operator(""), a_cluster()), facts)
    assert [change.kind for change in changes] == [PODS] * 3
    assert all("schedulerName" not in change.body["spec"] for change in changes)


@pytest.mark.parametrize(("state", "made"), [("makes-nothing", 0), ("groups-nothing", 3)])
def test_the_model_says_how_it_fails(facts: ClusterFacts, state: str, made: int) -> None:
    assert facts.model is not None
    stack = replace(facts.model.stack, ray=state)  # type: ignore[arg-type]
    broken = replace(facts, model=replace(facts.model, stack=stack))
    assert len(kuberay.reconcile(view_of(an_operator("volcano"), a_cluster()), broken)) == made
    assert kuberay.reconcile(view_of(a_cluster()), facts) == []
