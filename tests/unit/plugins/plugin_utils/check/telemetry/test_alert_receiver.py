# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The receiver of the test alert: one that ended is not waited for, and what it would have got is not known."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.telemetry.observe_alert import Receiver
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    BringupError,
    DeadlineError,
    UnavailableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import silent

LOG = Path("evidence/telemetry/alert-receiver.log")
LISTENS = '{"listening": 8080}\n'
READY = {"type": "Ready", "status": "True"}
IN_USE = "OSError: [Errno 98] Address already in use"
PULL = "can the cluster pull python? gpufleet_settings.telemetry.image names another"
Json = dict[str, Any]


def pod(phase: str = "Running", node: str = "cpu01", container: Json | None = None, **status: Any) -> Json:
    entry = {"name": "receiver", "restartCount": 0, **(container or {})}
    return {
        "metadata": {"name": "receiver"},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "containerStatuses": [entry], **status},
    }


def disrupted(reason: str, message: str, **status: Any) -> Json:
    found = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return pod(conditions=[READY, found], **status)


def waiting(reason: str, phase: str = "Pending", **more: Any) -> Json:
    return pod(phase, container={"state": {"waiting": {"reason": reason}}, **more})


ENDED = {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
KILLED = {"lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "restartCount": 3}
HELD = {**pod("Pending", ""), "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
UNPLACED = pod(
    "Pending", "",
    conditions=[{"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available: 4 Insufficient cpu."}],
)  # fmt: skip
# What ends it at once, with what is said and to be done.
OVER: dict[str, tuple[Json, str, str]] = {
    "crashed": (pod("Failed", container=ENDED), "container receiver ended with exit code 1 (Error)", "last lines"),
    "ended well": (
        pod("Succeeded", container={"state": {"terminated": {"exitCode": 0}}}), "ended with exit code 0", "last lines",
    ),
    "crashes again": (waiting("CrashLoopBackOff", "Running", **KILLED), "started 4 times, the last time", "last lines"),
    "not admitted": (
        {**pod(), "status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource"}},
        "ended without having run (OutOfcpu; Node didn't have enough resource)", "get events",
    ),
    "evicted": (
        pod("Failed", reason="Evicted", message="The node was low on resource: memory. "),
        "receiver on cpu01 was evicted: The node was low on resource: memory", "kubectl describe node cpu01",
    ),
    "over its own limit": (
        pod("Failed", reason="Evicted", message="Pod ephemeral local storage usage exceeds the total limit."),
        "Evicted; Pod ephemeral local storage", "last lines",
    ),
    "drained": (disrupted("EvictionByEvictionAPI", "Eviction API: evicting"), "Eviction API: evicting", "drain it"),
    "preempted": (disrupted("PreemptionByScheduler", "default-scheduler: preempting"), "preempting", "there is room"),
    "node lost": (disrupted("DeletionByTaintManager", "Taint manager: deleting"), "Taint manager", "describe node"),
    "shut down": (pod("Failed", reason="NodeShutdown", message="Pod was ended."), "Pod was ended", "describe node"),
    "removed": (
        {**pod(), "metadata": {"name": "receiver", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, "being removed",
        "who removes pods",
    ),
}  # fmt: skip
# What is waited for until the time is over.
WAITED: dict[str, tuple[Json | None, str, str]] = {
    "no image": (waiting("ImagePullBackOff"), "ImagePullBackOff", PULL),
    "pulls": (waiting("ContainerCreating"), "ContainerCreating", PULL),
    "held": (HELD, "scheduling gate kueue.x-k8s.io/admission", "managedJobsNamespaceSelector"),
    "no room": (UNPLACED, "4 Insufficient cpu", "make room"),
    "not seen yet": (None, "its pod is not there", ""),
    "no container": (waiting("CreateContainerConfigError"), "CreateContainerConfigError", "get events"),
    "once more": (
        waiting("CrashLoopBackOff", "Running", **{**KILLED, "restartCount": 1}), "2 times", "last lines",
    ),
    "deaf": (pod(), "runs, but is not ready", "reach its port"),
}  # fmt: skip


def receiver(tmp_path: Path, pods: list[Json | None], said: str = "") -> Receiver:
    """One whose pod is seen so, one look after the other; the last view stays."""
    views = list(pods)

    def look() -> list[Json]:
        seen = views.pop(0) if len(views) > 1 else views[0]
        return [seen] if seen is not None else []

    cluster = SimpleNamespace(logs=lambda *_words, **_how: said)
    space = SimpleNamespace(
        name="t", labels={}, priority_class="p", create=lambda _objects: [], pods=look, cluster=cluster
    )
    return Receiver(cast("Any", space), cast("Any", SimpleNamespace(emit=silent, run_dir=tmp_path)), LOG)


def start(found: Receiver, ready_s: float = 60.0) -> None:
    found.start(cast("Any", SimpleNamespace(image="python", ready_s=ready_s)), 60.0)


@pytest.mark.parametrize("case", OVER)
def test_one_that_ended_is_told_at_once_with_its_last_words(case: str, tmp_path: Path) -> None:
    last, text, hint = OVER[case]
    began = time.monotonic()
    with pytest.raises(UnavailableError) as caught:
        start(receiver(tmp_path, [waiting("ContainerCreating"), last], f"Traceback:\n  {IN_USE}\n"))
    assert time.monotonic() - began < 5
    assert text in caught.value.reason and IN_USE in caught.value.reason
    assert hint in caught.value.hint and "pull" not in caught.value.hint
    assert IN_USE in (tmp_path / LOG).read_text()


@pytest.mark.parametrize("case", WAITED)
def test_what_it_waits_for_is_said_and_its_image_is_asked_for_only_where_it_waits_for_that(
    case: str, tmp_path: Path
) -> None:
    last, text, hint = WAITED[case]
    with pytest.raises(DeadlineError) as caught:
        start(receiver(tmp_path, [last]), 0.0)
    assert text in caught.value.reason and "not ready after 0 s" in caught.value.reason
    assert hint in caught.value.hint and (hint == PULL) is ("pull" in caught.value.hint)


@pytest.mark.parametrize(
    ("then", "text"),
    [
        (pod(conditions=[READY]), ""),
        (None, "its pod is gone"),
        (pod(conditions=[{**READY, "status": "False"}]), "runs, but is not ready"),
        (pod(conditions=[READY], container={"restartCount": 1}), "started 2 times"),
        *((last, text) for last, text, _hint in OVER.values()),
    ],
)
def test_nobody_knows_what_one_that_did_not_stay_would_have_got(then: Json | None, text: str, tmp_path: Path) -> None:
    found = receiver(tmp_path, [pod(conditions=[READY]), then], LISTENS)
    start(found)
    told = ""
    try:
        found.stays()
    except BringupError as error:
        told = error.reason
    assert text in told and bool(text) is bool(told)
    # What happened to its container before it listened is over.
    again = pod(conditions=[READY], container={"restartCount": 1})
    found = receiver(tmp_path, [again], LISTENS)
    start(found)
    found.stays()
