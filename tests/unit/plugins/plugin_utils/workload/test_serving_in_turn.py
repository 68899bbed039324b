# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many servers fetch their weights at a time, and what becomes of those that die while they do."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import Outage
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import serving
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.serving import (
    AfterDeath,
    Intake,
    ServerResult,
    ServerSpec,
    server_objects,
    start_servers,
)

SPEC = ServerSpec(name="vllm-1", node="gpu01", gpus=8, image="host/vllm:1", command=("vllm", "serve", "a/b"))
REFUSED = "OSError: 429 Client Error: Too Many Requests"


class World:
    """A cluster and its namespace: each pod is ready after `looks` looks, having died `deaths` times before."""

    name, labels, priority_class, cluster_queue = "test", {"gpufleet.io/purpose": "test"}, "low", ""
    tolerated: tuple[dict[str, str], ...] = ()
    transport = SimpleNamespace(outage=Outage(0.0))

    def __init__(
        self, looks: int = 2, deaths: dict[str, int] | None = None, never: tuple[str, ...] = (), pulls: int = 0
    ) -> None:
        self.looks, self.deaths, self.never, self.pulls = looks, deaths or {}, never, pulls
        self.ages: dict[str, int] = {}
        self.ready_at_start: dict[str, int] = {}
        self.most = 0

    def create(self, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        name = objects[-1]["metadata"]["name"]
        self.ready_at_start[name] = sum(age >= self.looks for age in self.ages.values())
        self.ages[name] = 0
        return objects

    def pods(self, _labels: str = "") -> list[dict[str, Any]]:
        self.ages = {name: age + 1 for name, age in self.ages.items()}
        self.most = max(self.most, sum(age < self.looks for age in self.ages.values()))
        return [self._pod(name, age) for name, age in self.ages.items()]

    def _pod(self, name: str, age: int) -> dict[str, Any]:
        ready, deaths = age >= self.looks and name not in self.never, self.deaths.get(name, 0)
        state = {"running": {}} if ready or not deaths else {"waiting": {"reason": "CrashLoopBackOff"}}
        pulling = age < self.pulls
        if pulling:
            ready, state = False, {"waiting": {"reason": "ContainerCreating"}}
        last = {"lastState": {"terminated": {"exitCode": 1}}} if deaths else {}
        return {
            "metadata": {"name": f"{name}-x", "labels": {"gpufleet.io/job": name}},
            "spec": {"nodeName": "gpu01"},
            "status": {
                "phase": "Pending" if pulling else "Running",
                "conditions": [{"type": "Ready", "status": str(ready)}],
                "containerStatuses": [{"restartCount": deaths, "state": state, **last}],
            },
        }

    def list_objects(self, _kind: Kind, *_more: Any, **_options: Any) -> list[dict[str, Any]]:
        return []

    def list_with_version(self, _kind: Kind, *_more: Any) -> tuple[list[dict[str, Any]], str]:
        return self.pods(), ""

    def find(self, _kind: Kind, name: str, *_more: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    def logs(self, *_more: Any, **_options: Any) -> str:
        return REFUSED


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_POLL_S", 0.01)
    monkeypatch.setattr(serving, "_POLL_MOST_S", 0.02)


def _started(
    world: World, count: int, intake: Intake, after: AfterDeath = "again", **changes: Any
) -> tuple[ServerResult, ...]:
    specs = [replace(SPEC, name=f"vllm-{n}", **changes) for n in range(1, count + 1)]
    return start_servers(
        cast(Cluster, world), cast(TemporaryNamespace, world), specs, lambda log: after if log == REFUSED else "final",
        Progress(silent), Deadline.after(20.0), intake,
    )  # fmt: skip


def test_no_more_hosts_than_stated_fetch_weights_at_a_time() -> None:
    world = World(looks=4)
    results = _started(world, 9, Intake(at_once=2))
    assert [result.state for result in results] == ["ready"] * 9
    assert [result.name for result in results] == [f"vllm-{n}" for n in range(1, 10)]
    assert world.most == 2


def test_without_a_limit_all_start_at_once() -> None:
    world = World(looks=4)
    _started(world, 9, Intake())
    assert world.most == 9


def test_a_shared_volume_is_filled_by_one_server_before_the_others_start() -> None:
    world = World(looks=3)
    results = _started(world, 5, Intake(first_alone=True))
    assert {result.state for result in results} == {"ready"}
    assert world.ready_at_start == {"vllm-1": 0, **{f"vllm-{n}": 1 for n in range(2, 6)}}
    claim = {"persistentVolumeClaim": {"claimName": "models"}}
    for written in (True, False):
        _service, deployment = server_objects(
            replace(SPEC, volume=claim, volume_written=written), cast(TemporaryNamespace, world)
        )
        (mount,) = deployment["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][1:]
        assert mount["readOnly"] is not written


def test_a_server_that_fails_does_not_hold_the_others_up() -> None:
    world = World(looks=3, deaths={"vllm-1": 5}, never=("vllm-1",))
    results = _started(world, 3, Intake(first_alone=True))
    assert [result.state for result in results] == ["failed", "ready", "ready"]


def test_a_server_that_the_hub_lets_wait_may_die_as_often_as_it_takes() -> None:
    world = World(looks=30, deaths={"vllm-1": 7})
    (result,) = _started(world, 1, Intake(), "wait")
    assert result.state == "ready"
    (result,) = _started(World(looks=30, deaths={"vllm-1": 7}), 1, Intake(), "again")
    assert result.state == "failed"
    assert "7 times" in result.reason


def test_it_waits_no_longer_than_stated_and_its_own_time_counts() -> None:
    world = World(looks=3, deaths={"vllm-2": 7}, never=("vllm-2",))
    results = _started(world, 3, Intake(at_once=1), "wait", ready_s=3.0)
    assert [result.state for result in results] == ["ready", "timeout", "ready"]
    assert results[1].log == REFUSED
    assert results[2].ready_s < 3.0


def test_pulling_the_image_has_a_limit_of_its_own() -> None:
    (result,) = _started(World(looks=110, pulls=100), 1, Intake(), ready_s=1.5, pull_s=20.0)
    assert result.state == "ready"
    assert result.ready_s > 1.5
    (result,) = _started(World(pulls=10_000), 1, Intake(), schedule_s=0.1, pull_s=0.2)
    assert result.state == "slow-start"
    assert "ContainerCreating" in result.reason


class Unmade(World):
    """A cluster whose Job controller cannot make the pod of a server in the first looks, and says why."""

    def __init__(self, why: str, looks_without: int) -> None:
        super().__init__()
        self.why, self.looks_without = why, looks_without

    def pods(self, _labels: str = "") -> list[dict[str, Any]]:
        self.looks_without -= 1
        return [] if self.looks_without >= 0 else super().pods()

    def list_objects(self, kind: Kind, *_more: Any, **_options: Any) -> list[dict[str, Any]]:
        about = {"involvedObject": {"kind": "Job", "name": "vllm-1"}, "lastTimestamp": "2026-01-01T00:00:00Z"}
        event = {"type": "Warning", "reason": "FailedCreate", "message": f"Error creating: {self.why}", **about}
        return [event] if kind.kind == "Event" else []


def test_a_server_whose_pod_could_not_be_made_in_an_outage_is_waited_for() -> None:
    world = Unmade('Post "https://10.0.0.1:6443/api/v1/namespaces/t/pods": dial tcp: connect: connection refused', 3)
    assert [result.state for result in _started(world, 1, Intake())] == ["ready"]


def test_a_server_whose_pod_is_refused_is_told_at_once() -> None:
    (result,) = _started(Unmade('pods "vllm-1-x" is forbidden: exceeded quota: gpus, requested: 8', 9999), 1, Intake())
    assert result.state == "refused" and "exceeded quota" in result.reason


def test_a_server_that_kueue_suspends_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Kueue manages jobs without a queue name it suspends them; the job controller has no part in it."""

    def create(_world: World, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**body, "spec": {**body["spec"], "suspend": True}} for body in objects if body["kind"] == "Job"]

    monkeypatch.setattr(World, "create", create)
    (result,) = _started(World(), 1, Intake())
    assert result.state == "refused" and "Job vllm-1 was suspended when it was made" in result.reason
    assert "managedJobsNamespaceSelector" in result.reason and "cluster_queue" in result.reason
