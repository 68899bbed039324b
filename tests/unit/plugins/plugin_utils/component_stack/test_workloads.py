# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the status of workloads and pods means: ready, still on its way, or in vain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import read_workloads
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.workloads import Workload, workload_of

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def _object(status: dict[str, Any], generation: int = 1, **spec: Any) -> dict[str, Any]:
    annotations = {"meta.helm.sh/release-name": "op", "meta.helm.sh/release-namespace": "ns"}
    metadata = {"name": "w", "namespace": "ns", "generation": generation, "annotations": annotations}
    return {"metadata": metadata, "spec": {"selector": {"matchLabels": {"app": "w"}}, **spec}, "status": status}


def _pod(age_s: float = 600, node: str = "gpu01", ready: bool = False, **waiting: Any) -> dict[str, Any]:
    created = (NOW - timedelta(seconds=age_s)).isoformat().replace("+00:00", "Z")
    restarts = waiting.pop("restarts", 0)
    container = {"name": "c", "image": "x/y:1", "restartCount": restarts, "state": {"waiting": waiting}}
    return {
        "metadata": {"name": "w-1", "namespace": "ns", "labels": {"app": "w"}, "creationTimestamp": created},
        "spec": {"nodeName": node},
        "status": {
            "phase": "Pending",
            "containerStatuses": [container],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def _deployment(ready: int, **more: Any) -> dict[str, Any]:
    return _object({"readyReplicas": ready, "updatedReplicas": 2, "observedGeneration": 1}, replicas=2, **more)


def _rolling(ready: int, updated: int, older: int) -> dict[str, Any]:
    """A Deployment of two on its way from one revision to the next."""
    counts = {"readyReplicas": ready, "updatedReplicas": updated, "replicas": updated + older}
    return _object({**counts, "observedGeneration": 1}, replicas=2)


def _told(condition: dict[str, str]) -> dict[str, Any]:
    """A Deployment of two without pods, and what it says of itself."""
    return _object({"observedGeneration": 1, "conditions": [condition]}, replicas=2)


def _daemon_set(**status: int) -> dict[str, Any]:
    return _object({"observedGeneration": 1, **status})


def _look(kind: str, obj: dict[str, Any], *pods: dict[str, Any], events: Sequence[dict[str, Any]] = ()) -> Workload:
    return workload_of(kind, obj, pods, NOW, 90, warnings=lambda: events)


@pytest.mark.parametrize(
    ("kind", "obj", "state"),
    [
        ("Deployment", _deployment(2), "ready"),
        ("Deployment", _deployment(1), "pending"),
        ("Deployment", _deployment(2, generation=2), "pending"),
        ("Deployment", _object({}, replicas=0), "ready"),
        ("Deployment", _object({}), "pending"),
        ("Deployment", _rolling(ready=2, updated=2, older=0), "ready"),
        ("Deployment", _rolling(ready=2, updated=1, older=2), "pending"),
        ("Deployment", _rolling(ready=2, updated=2, older=2), "pending"),
        ("Deployment", _rolling(ready=3, updated=2, older=1), "ready"),
        ("DaemonSet", _daemon_set(desiredNumberScheduled=4, numberReady=4, updatedNumberScheduled=4), "ready"),
        ("DaemonSet", _daemon_set(desiredNumberScheduled=4, numberReady=4, updatedNumberScheduled=3), "pending"),
        ("DaemonSet", _daemon_set(), "ready"),
        ("DaemonSet", _object({}), "pending"),
        ("Job", _object({"succeeded": 1}), "ready"),
        ("Job", _object({}), "pending"),
        ("Job", _object({"conditions": [{"type": "Failed", "status": "True"}]}), "failed"),
    ],
)
def test_state(kind: str, obj: dict[str, Any], state: str) -> None:
    assert _look(kind, obj).state == state


@pytest.mark.parametrize(
    ("pod", "state", "cause"),
    [
        (_pod(reason="ImagePullBackOff"), "failed", "image-pull-failed"),
        (_pod(reason="ErrImagePull", age_s=10), "pending", ""),
        (_pod(reason="CreateContainerConfigError"), "failed", "pod-config-error"),
        (_pod(reason="CrashLoopBackOff", restarts=3, age_s=1), "failed", "pod-crash-looping"),
        (_pod(reason="CrashLoopBackOff", restarts=1), "pending", ""),
        (_pod(reason="ContainerCreating"), "pending", ""),
        (_pod(reason="ImagePullBackOff", ready=True), "pending", ""),
    ],
)
def test_trouble_of_a_pod(pod: dict[str, Any], state: str, cause: str) -> None:
    found = _look("Deployment", _deployment(1), pod)
    assert (found.state, found.cause) == (state, cause)
    if cause:
        assert (found.pod, found.nodes) == ("w-1", ("gpu01",))


def test_pods_of_others_do_not_count() -> None:
    other = _pod(reason="ImagePullBackOff")
    other["metadata"]["labels"] = {"app": "other"}
    assert _look("Deployment", _deployment(1), other).cause == ""


def test_a_ready_workload_is_not_blamed_for_an_old_pod() -> None:
    assert _look("Deployment", _deployment(2), _pod(reason="ImagePullBackOff")).state == "ready"


def test_the_node_of_a_daemon_pod_that_is_not_placed_yet() -> None:
    pod = _pod(node="")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu07"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod["spec"] = {"affinity": {"nodeAffinity": required}}
    found = _look("DaemonSet", _daemon_set(desiredNumberScheduled=1), pod)
    assert (found.release, found.nodes) == ("ns/op", ("gpu07",))


def test_a_container_that_was_ended_for_its_memory_is_remembered_though_it_is_ready_again() -> None:
    pod = _pod(ready=True, node="gpu07")
    pod["status"]["containerStatuses"] = [{"name": "exporter", "lastState": {"terminated": {"reason": "OOMKilled"}}}]
    other = _pod(ready=True, node="gpu08")
    ready = _daemon_set(desiredNumberScheduled=2, numberReady=2, updatedNumberScheduled=2)
    seen = _look("DaemonSet", ready, pod, other)
    assert (seen.state, seen.killed) == ("ready", ("gpu07",))


def test_a_deployment_whose_pods_are_refused_says_by_what() -> None:
    said = 'pods "works-0" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0,\n limited: pods=0'
    refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": said}
    words = " ".join(said.split())
    found = _look("Deployment", _told(refused))
    assert found.reason == f"0 of 2 ready; its pods are refused: {words}"
    away = {**refused, "message": 'Post "https://10.0.0.1:6443/": dial tcp: connect: connection refused'}
    assert "its pods could not be made: Post" in _look("Deployment", _told(away)).reason
    over = _look("Deployment", _told({**refused, "status": "False"}))
    assert "refused" not in over.reason


# As kube-controller-manager of Kubernetes 1.34 writes them, each with its own words before those of the API server.
_POLICY = "pods \"w-0\" is forbidden: ValidatingAdmissionPolicy 'no-root' with binding 'all' denied request: only ours"
_BEFORE = {
    "DaemonSet": "Error creating: ",
    "StatefulSet": "create Pod w-0 in StatefulSet w failed error: ",
    "Job": "Error creating: ",
}


def _event(kind: str, message: str, age_s: float = 30, **more: Any) -> dict[str, Any]:
    when = (NOW - timedelta(seconds=age_s)).isoformat().replace("+00:00", "Z")
    about = {"kind": kind, "namespace": "ns", "name": "w"}
    return {
        "type": "Warning", "reason": "FailedCreate", "message": message, "involvedObject": about, "lastTimestamp": when,
        **more,
    }  # fmt: skip


def _lacking(kind: str) -> dict[str, Any]:
    return {
        "DaemonSet": _daemon_set(desiredNumberScheduled=2),
        "StatefulSet": _object({"observedGeneration": 1}, replicas=2),
        "Job": _object({}, completions=2),
    }[kind]


@pytest.mark.parametrize("kind", _BEFORE)
def test_what_has_no_pods_for_it_says_what_refused_them(kind: str) -> None:
    said = _look(kind, _lacking(kind), events=[_event(kind, _BEFORE[kind] + _POLICY)])
    assert (said.state, said.reason) == ("pending", f"0 of 2 ready; its pods are refused: {_POLICY}")
    similar = _event(kind, f"(combined from similar events): {_BEFORE[kind]}{_POLICY}")
    assert _look(kind, _lacking(kind), events=[similar]).reason == said.reason
    # The last word counts, and an outage refuses nothing.
    away = 'Post "https://10.0.0.1:6443/api/v1/namespaces/ns/pods": dial tcp 10.0.0.1:6443: connect: connection refused'
    later = _look(kind, _lacking(kind), events=[_event(kind, _BEFORE[kind] + away, 5), _event(kind, _POLICY)])
    assert later.reason == f"0 of 2 ready; its pods could not be made: {away}"


@pytest.mark.parametrize("kind", _BEFORE)
@pytest.mark.parametrize(
    "more",
    [
        {"involvedObject": {"kind": "ReplicaSet", "name": "w"}}, {"involvedObject": {"name": "w"}}, {"type": "Normal"},
        {"involvedObject": None}, {"reason": "FailedKillPod"},
    ],
)  # fmt: skip
def test_other_words_and_words_about_others_refuse_nothing(kind: str, more: dict[str, Any]) -> None:
    other = _event(kind, _POLICY, involvedObject={"kind": kind, "namespace": "ns", "name": "v"})
    said = _look(kind, _lacking(kind), events=[_event(kind, _POLICY, **more), other])
    assert said.reason == "0 of 2 ready; it has no pods yet"


@pytest.mark.parametrize("kind", _BEFORE)
def test_a_refusal_that_is_over_is_not_told(kind: str) -> None:
    event = _event(kind, _BEFORE[kind] + _POLICY, age_s=300)
    since = _look(kind, _lacking(kind), _pod(age_s=60), events=[event]).reason
    assert since == "0 of 2 ready; pods are Pending"
    assert "are refused: pods" in _look(kind, _lacking(kind), _pod(age_s=301), events=[event]).reason
    # Of an object of the same name that was removed since.
    anew = _lacking(kind)
    anew["metadata"] = {**anew["metadata"], "creationTimestamp": "2026-01-01T11:59:00Z"}
    assert "refused" not in _look(kind, anew, events=[event]).reason
    # All pods are there: whatever was said, they are what is waited for.
    assert "refused" not in _look(kind, _lacking(kind), *[_pod(age_s=600)] * 2, events=[event]).reason


def test_warnings_are_asked_for_once_and_only_where_pods_are_missing() -> None:
    def never() -> list[dict[str, Any]]:
        raise AssertionError("asked")

    ready = _daemon_set(desiredNumberScheduled=1, numberReady=1, updatedNumberScheduled=1)
    assert workload_of("DaemonSet", ready, [], NOW, 90, warnings=never).state == "ready"
    assert workload_of("Deployment", _deployment(1), [], NOW, 90, warnings=never).state == "pending"
    waiting = workload_of("DaemonSet", _daemon_set(desiredNumberScheduled=1), [_pod()], NOW, 90, warnings=never)
    assert waiting.reason == "0 of 1 ready; pods are Pending"


def test_whoever_may_not_list_events_reads_workloads_as_before() -> None:
    asked: list[str] = []

    def list_objects(kind: Kind, _namespace: str, **options: str) -> list[dict[str, Any]]:
        asked.append(kind.kind)
        if kind.kind == "Event":
            assert options == {"fields": "type=Warning"}
            raise ForbiddenError("list events", "forbidden.")
        return [_lacking(kind.kind)] if kind.kind in ("DaemonSet", "StatefulSet") else []

    cluster: Any = SimpleNamespace(list_objects=list_objects, transport=SimpleNamespace(now=lambda: NOW))
    assert {w.reason for w in read_workloads(cluster, ["ns"], 90)} == {"0 of 2 ready; it has no pods yet"}
    assert asked.count("Event") == 1
