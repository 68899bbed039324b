# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of tests go through a queue of Kueue where the site names one; what is held is said to be held, and by what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from crd_schema import crd_schema

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.benchmark.problem import hint_for, launch_problem
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import (
    every_choice,
    gate_permissions,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import Outage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind, known_kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError, NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.jobs import RunningJob
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.queue import PERMISSIONS, pods_together, queued

Json = dict[str, Any]
NAME = "test-nccl-abc"
QUEUE = "kueue.x-k8s.io/queue-name"
SPEC = JobSpec(name="pair", nodes=("a", "b"), gpus_per_node=8, image="i", command=("x",), gang="none", schedule_s=0.0)
# As Kueue writes it of a Workload without quota (pkg/scheduler/scheduler.go, flavorassigner).
WAITS = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100"


class Api:
    """A cluster with Kueue (or without: no `versions`): its webhook suspends what names a queue."""

    transport = SimpleNamespace(outage=Outage(0.0))

    def __init__(self, versions: tuple[str, ...] = ("v1beta2", "v1beta1"), active: str = "True") -> None:
        self.versions, self.active = versions, active
        self.made: list[tuple[Kind, Json]] = []
        self.waits = WAITS
        self.of_job = "pair"
        self.checks: list[Json] = []

    def served_versions(self, group: str) -> tuple[str, ...]:
        return self.versions if group == "kueue.x-k8s.io" else ()

    def kind(self, api_version: str, name: str) -> Kind:
        return known_kind(api_version, name) or Kind(api_version, name, f"{name.lower()}s")

    def create(self, kind: Kind, body: Json, _namespace: str = "") -> Json:
        self.made.append((kind, body))
        made = {"kind": kind.kind, **body}
        if QUEUE in (body["metadata"].get("labels") or {}):
            made["spec"] = {**body["spec"], "suspend": True}
        return {**made, "metadata": {**body["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}}

    def find(self, kind: Kind, name: str, _namespace: str = "") -> Json | None:
        conditions = [{"type": "Active", "status": self.active, "message": "Can't admit new workloads: is stopped."}]
        if kind.kind == "ClusterQueue" and name == "gpus":
            return {"metadata": {"name": name}, "status": {"conditions": conditions}}
        return None

    def list_objects(self, kind: Kind, *_args: Any, **_more: Any) -> list[Json]:
        assert kind.kind == "Workload"
        condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": self.waits}
        if self.checks:
            condition = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""}
        owner = [{"kind": "Job", "name": self.of_job}]
        status = {"conditions": [condition], "admissionChecks": self.checks}
        return [{"metadata": {"name": "job-pair", "ownerReferences": owner}, "status": status}]

    def delete(self, *_args: Any, **_more: Any) -> None:
        return None


def space(api: Api, queue: str = "gpus") -> TemporaryNamespace:
    return TemporaryNamespace(cast(Cluster, api), NAME, 60.0, (), cluster_queue=queue)


def _running(api: Api, queue: str, kind: Any = "gang-job") -> RunningJob:
    job = RunningJob(replace(SPEC, kind=kind), cast(Cluster, api), space(api, queue))
    job.create()
    return job


@pytest.mark.parametrize(("versions", "version"), [(("v1beta1", "v1beta2"), "v1beta2"), (("v1beta1",), "v1beta1")])
def test_a_test_makes_its_local_queue_and_removes_it_after_its_pods(
    versions: tuple[str, ...], version: str, shared: Path
) -> None:
    import jsonschema

    api = Api(versions)
    namespace = space(api)
    namespace.open(-100)
    kind, body = api.made[-1]
    assert (kind.title, body["metadata"]["namespace"]) == ("localqueues.kueue.x-k8s.io", NAME)
    assert (body["apiVersion"], body["kind"]) == (f"kueue.x-k8s.io/{version}", "LocalQueue")
    jsonschema.validate(body, crd_schema(shared, "kueue/localqueues.kueue.x-k8s.io", version))
    assert body["spec"] == {"clusterQueue": "gpus"}
    assert namespace.kinds == (kind,), "what is in it is removed with the namespace"


def test_without_a_queue_of_the_site_nothing_speaks_of_kueue() -> None:
    api = Api()
    space(api, "").open(-100)
    job = _running(api, "")
    assert job.result is None
    assert not any("kueue" in str(body) or "kueue" in kind.title for kind, body in api.made)


@pytest.mark.parametrize(
    ("api", "queue", "said"),
    [
        (Api(versions=()), "gpus", "serves no version of kueue.x-k8s.io"),
        (Api(), "gone", "does not exist"),
        (Api(active="False"), "gpus", "Can't admit new workloads: is stopped."),
    ],
)
def test_a_queue_that_admits_nobody_is_told_once_and_before_any_job(api: Api, queue: str, said: str) -> None:
    with pytest.raises((InputError, NotFoundError), match=f"ClusterQueue {queue}.*{said}") as caught:
        space(api, queue).open(-100)
    assert "cluster_queue" in caught.value.hint


@pytest.mark.parametrize("kind", ["gang-job", "torchrun", "mpijob"])
def test_jobs_name_their_queue_and_their_pods_do_not(kind: Any) -> None:
    api = Api()
    job = _running(api, "gpus", kind)
    assert job.result is None, "that it is suspended until it is admitted is no refusal"
    made = next(body for made_kind, body in api.made if made_kind.kind in ("Job", "MPIJob"))
    assert made["metadata"]["labels"][QUEUE] == "tests"
    assert QUEUE not in str(made["spec"]), "Kueue leaves the pods of jobs that it manages alone"


def test_a_job_that_is_held_ends_so_with_the_words_of_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()
    job = _running(api, "gpus")
    job.look([], (), {})
    assert job.result is None, "a queue may take its time"
    job.began_at -= 3600
    job.look([], (), {})
    assert job.result is not None and job.result.state == "held"
    assert WAITS in job.result.reason and "ClusterQueue gpus did not admit it" in job.result.reason
    cause, text = launch_problem(job.result.state, job.result.reason) or ("", "")
    assert cause == "launch-held" and "insufficient unused quota" in text
    assert "cluster_queue" in hint_for(cause, {}) and "managedJobsNamespaceSelector" in hint_for(cause, {})


@pytest.mark.parametrize(
    ("state", "message", "told"),
    [
        # The words of a ProvisioningRequest, which Kueue hands on.
        ("Pending", "Provisioning Request wasn't accepted yet", "is Pending: Provisioning Request wasn't accepted yet"),
        ("Rejected", "Capacity is not found", "is Rejected: Capacity is not found"),
        ("Pending", "", "is Pending"),
        ("Ready", "Provisioning Request was successfully provisioned.", ""),
    ],
)
def test_a_job_that_has_quota_and_waits_for_nodes_says_so(state: str, message: str, told: str) -> None:
    api = Api()
    api.waits = ""
    api.checks = [{"name": "nodes", "state": state, "message": message}]
    job = _running(api, "gpus")
    job.began_at -= 3600
    job.look([], (), {})
    assert job.result is not None and job.result.state == "held"
    assert ("admission check nodes" in job.result.reason) is bool(told) and job.result.reason.endswith(
        told or "does kueue-controller-manager run?"
    )
    assert ("managedJobsNamespaceSelector" in job.result.reason) is not bool(told)


def test_a_queue_that_says_nothing_makes_one_ask_whether_kueue_runs() -> None:
    """There is no Workload of the job: nobody has looked at it."""
    api = Api()
    api.of_job = "another"
    job = _running(api, "gpus")
    job.began_at -= 3600
    job.look([], (), {})
    assert job.result is not None and job.result.state == "held"
    assert job.result.reason.endswith("does kueue-controller-manager run?")


def test_a_job_that_has_no_pods_without_a_queue_is_not_called_held() -> None:
    job = _running(Api(), "")
    job.began_at -= 3600
    job.look([], (), {})
    assert job.result is not None and job.result.state == "refused"


def test_pods_of_a_gang_are_admitted_together() -> None:
    """kueue.sigs.k8s.io, Run Plain Pods: label pod-group-name and annotation pod-group-total-count."""
    pods = [{"kind": "Pod", "metadata": {"name": f"gang-a-{n}", "labels": {"a": "b"}}} for n in range(3)]
    group = {"kind": "PodGroup", "metadata": {"name": "gang-a"}}
    first, *others = [queued(body) for body in pods_together([group, *pods], "gang-a")]
    assert first == group
    for pod in others:
        assert pod["metadata"]["labels"] == {"a": "b", "kueue.x-k8s.io/pod-group-name": "gang-a", QUEUE: "tests"}
        assert pod["metadata"]["annotations"] == {"kueue.x-k8s.io/pod-group-total-count": "3"}


def test_rights_for_queues_are_asked_for_where_the_site_names_one() -> None:
    with_queue = every_choice()
    for gate in ("gpu_stack", "fabric_validation", "training_acceptance", "inference_acceptance"):
        for choices, expected in ((with_queue, True), (replace(with_queue, queued=False, by_quota=False), False)):
            found = {entry for level in ("observe", "test") for entry in gate_permissions(gate, level, choices)}
            assert (set(PERMISSIONS) <= found) is expected
