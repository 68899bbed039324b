# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated Kueue: which queues admit, which Jobs go on, and what those that wait are told."""

from __future__ import annotations

from typing import Any

import pytest
from operator_view import changes_of, meta, view_of

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    Kind,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers import kueue
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.cluster_facts import (
    Change,
    ClusterFacts,
    Json,
)

LABELS = {"app.kubernetes.io/name": "kueue"}
RUNS = {"conditions": [{"type": "Available", "status": "True"}]}
MANAGER = (DEPLOYMENTS, {"metadata": meta("kueue-controller-manager", "kueue-system", labels=LABELS), "status": RUNS})
FLAVOR = (kueue.FLAVORS, {"metadata": meta("h100")})
LOCAL = (kueue.LOCAL_QUEUES, {"metadata": meta("tests", "ns"), "spec": {"clusterQueue": "gpus"}})


def a_queue(quota: int = 16, *, active: str = "", **spec: Any) -> tuple[Kind, Json]:
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": quota}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "h100", "resources": resources}]}]
    conditions = [{"type": "Active", "status": active, "message": "Can admit new workloads"}] if active else []
    body = {"metadata": meta("gpus"), "spec": {"resourceGroups": groups, **spec}, "status": {"conditions": conditions}}
    return kueue.CLUSTER_QUEUES, body


def a_job(name: str, gpus: int = 8, pods: int = 2, *, queue: str = "tests", **status: str) -> tuple[Kind, Json]:
    template = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}}
    spec = {"parallelism": pods, "suspend": True, "template": template}
    labels = {kueue.QUEUE_LABEL: queue} if queue else {}
    conditions = [{"type": kind, "status": value} for kind, value in status.items()]
    body = {"metadata": meta(name, "ns", labels=labels), "spec": spec, "status": {"conditions": conditions}}
    return JOBS, body


def a_workload(job: tuple[Kind, Json], **conditions: str) -> tuple[Kind, Json]:
    listed = [{"type": name, "status": value} for name, value in conditions.items()]
    metadata = meta(kueue.workload_name(job[1]), "ns")
    return kueue.WORKLOADS, {"metadata": metadata, "status": {"conditions": listed}}


def _says(changes: list[Change], kind: Kind) -> list[tuple[str, str]]:
    found = [change.body["status"]["conditions"][0] for change in changes_of(changes, kind) if change.subresource]
    return [(condition["status"], condition["message"]) for condition in found]


@pytest.mark.parametrize(
    ("more", "queue", "says"),
    [
        ([FLAVOR], a_queue(), ("True", "Can admit new workloads")),
        ([FLAVOR], a_queue(stopPolicy="Hold"), ("False", "Can't admit new workloads: is stopped.")),
        ([], a_queue(), ("False", "Can't admit new workloads: references missing ResourceFlavor(s): h100.")),
    ],
)
def test_a_queue_says_whether_it_admits(facts: ClusterFacts, more: Any, queue: Any, says: tuple[str, str]) -> None:
    assert _says(kueue.reconcile(view_of(MANAGER, *more, queue), facts), kueue.CLUSTER_QUEUES) == [says]
    assert kueue.reconcile(view_of(*more, queue), facts) == [], "nobody writes where no Kueue runs"


def test_a_job_that_names_a_queue_becomes_a_workload_and_another_is_left_alone(facts: ClusterFacts) -> None:
    view = view_of(MANAGER, FLAVOR, a_queue(active="True"), LOCAL, a_job("a"), a_job("b", queue=""))
    (made,) = kueue.reconcile(view, facts)
    assert (made.verb, made.kind, made.body["spec"]["queueName"]) == ("create", kueue.WORKLOADS, "tests")
    assert made.body["metadata"]["ownerReferences"][0]["name"] == "a"


def test_what_has_quota_is_admitted_and_goes_on_and_the_rest_is_told_what_it_lacks(facts: ClusterFacts) -> None:
    first, second = a_job("a"), a_job("b", gpus=4)
    common = (MANAGER, FLAVOR, a_queue(16, active="True"), LOCAL, first, second)
    changes = kueue.reconcile(view_of(*common, a_workload(first), a_workload(second)), facts)
    assert _says(changes, kueue.WORKLOADS) == [
        ("True", "Quota reserved in ClusterQueue gpus"),
        (
            "False",
            "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, "
            "8 more needed",
        ),
    ]
    admitted = a_workload(first, QuotaReserved="True", Admitted="True")
    (resumed,) = changes_of(kueue.reconcile(view_of(*common, admitted, a_workload(second)), facts), JOBS)
    assert (resumed.name, resumed.body) == ("a", {"spec": {"suspend": False}})
    # What has ended gives its quota back.
    done = a_job("a", Complete="True")
    view = view_of(*common[:4], done, second, admitted, a_workload(second))
    assert _says(kueue.reconcile(view, facts), kueue.WORKLOADS) == [("True", "Quota reserved in ClusterQueue gpus")]


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ([FLAVOR, a_queue(active="True")], "LocalQueue tests doesn't exist"),
        ([FLAVOR, LOCAL], "ClusterQueue gpus doesn't exist"),
        ([LOCAL, a_queue(active="False", stopPolicy="Hold")], "ClusterQueue gpus is inactive"),
    ],
)
def test_a_job_whose_queue_cannot_be_used_waits(facts: ClusterFacts, there: Any, says: str) -> None:
    job = a_job("a")
    changes = kueue.reconcile(view_of(MANAGER, *there, job, a_workload(job)), facts)
    assert _says(changes, kueue.WORKLOADS) == [("False", says)]


def configured(text: str) -> tuple[Kind, Json]:
    metadata = meta(kueue.CONFIGURATION, "kueue-system")
    return CONFIG_MAPS, {"metadata": metadata, "data": {"controller_manager_config.yaml": text}}


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("apiVersion: config.kueue.x-k8s.io/v1beta2\nwaitForPodsReady: {timeout: 5m}", True),
        ("apiVersion: config.kueue.x-k8s.io/v1beta1\nwaitForPodsReady: {enable: true}", True),
        ("apiVersion: config.kueue.x-k8s.io/v1beta1\nwaitForPodsReady: {enable: false}", False),
        ("apiVersion: config.kueue.x-k8s.io/v1beta2", False),
        ("", False),
    ],
)
def test_only_a_kueue_that_waits_for_pods_says_of_each_workload_whether_they_are_ready(
    facts: ClusterFacts, text: str, waits: bool
) -> None:
    job = a_job("a")
    common = (MANAGER, FLAVOR, a_queue(active="True"), LOCAL, configured(text))
    first = changes_of(kueue.reconcile(view_of(*common, job, a_workload(job)), facts), kueue.WORKLOADS)
    said = [entry["type"] for change in first for entry in change.body["status"]["conditions"]]
    assert said == (["PodsReady"] if waits else ["QuotaReserved", "Admitted"])
    admitted = a_workload(job, QuotaReserved="True", Admitted="True")
    job[1]["status"]["ready"] = 2
    later = changes_of(kueue.reconcile(view_of(*common, job, admitted), facts), kueue.WORKLOADS)
    found = [{entry["type"]: entry["status"] for entry in change.body["status"]["conditions"]} for change in later]
    assert found == ([{"QuotaReserved": "True", "Admitted": "True", "PodsReady": "True"}] if waits else [])
