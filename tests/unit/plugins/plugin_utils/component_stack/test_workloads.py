# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the status of workloads and pods means: ready, still on its way, or in vain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

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


def _look(kind: str, obj: dict[str, Any], *pods: dict[str, Any]) -> Workload:
    return workload_of(kind, obj, pods, NOW, 90)


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
    over = _look("Deployment", _told({**refused, "status": "False"}))
    assert "refused" not in over.reason
