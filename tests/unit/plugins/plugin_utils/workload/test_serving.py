# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers and plain jobs: their objects, and how a server's pod is understood."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import job_objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import (
    OWNER_LABELS,
    TemporaryNamespace,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.pods import deaths_of, told_deaths
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.serving import (
    ServerSpec,
    is_ready,
    loading_progress,
    server_objects,
)

SPEC = ServerSpec(
    name="vllm-1", node="gpu01", gpus=8, image="host/vllm:1", command=("vllm", "serve", "a/b"), port=8000,
    env={"HTTPS_PROXY": "http://proxy:3128"}, secret_env={"HF_TOKEN": "hub-token/token"},
)  # fmt: skip
JOB = JobSpec(
    name="load-1-1", nodes=("gpu01",), gpus_per_node=0, image="python:3", command=("/bin/sh", "-c", 'echo "x"'),
    env={"MARK": "m"}, kind="plain-job", gang="none",
)  # fmt: skip


def space() -> TemporaryNamespace:
    return TemporaryNamespace(cast(Any, None), "test-inference-abc", 60.0, ())


def test_a_server_is_ours_low_and_on_its_node() -> None:
    service, server = server_objects(SPEC, space())
    pod = server["spec"]["template"]
    for labels in (service["metadata"]["labels"], server["metadata"]["labels"], pod["metadata"]["labels"]):
        assert OWNER_LABELS.items() <= labels.items()
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    # A Deployment's pods cannot have a deadline: a server that nobody removes would keep its GPUs.
    assert (server["kind"], server["spec"]["activeDeadlineSeconds"]) == ("Job", 14400)
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    assert pod["spec"]["terminationGracePeriodSeconds"] > 0
    assert "nodeName" not in pod["spec"]
    term = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["gpu01"]
    assert pod["spec"]["priorityClassName"] == "test-inference-abc"
    container = pod["spec"]["containers"][0]
    assert container["command"] == ["vllm", "serve", "a/b"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 8}}
    # A dead engine has to show: nothing restarts it.
    assert "livenessProbe" not in container
    assert container["readinessProbe"]["httpGet"]["path"] == "/health"
    env = {entry["name"]: entry for entry in container["env"]}
    assert env["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hub-token", "key": "token"}
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["shm"]


def test_a_server_has_its_weights_and_its_devices() -> None:
    spec = replace(
        SPEC, volume={"nfs": {"server": "nas", "path": "/w"}}, device_class="gpu.nvidia.com",
        resources={"memory": "9Gi"}, env={}, secret_env={},
    )  # fmt: skip
    claim, _service, server = server_objects(spec, space())
    assert claim["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 8
    pod = server["spec"]["template"]["spec"]
    assert {"nfs": {"server": "nas", "path": "/w"}, "name": "models"} in pod["volumes"]
    container = pod["containers"][0]
    assert {"name": "models", "mountPath": "/models", "readOnly": True} in container["volumeMounts"]
    assert container["resources"]["requests"] == {"memory": "9Gi"}
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert container["env"] == []


def test_a_plain_job_is_one_pod_without_gpus() -> None:
    (job,) = job_objects(replace(JOB, volume={"hostPath": {"path": "/w"}}), space())
    assert (job["kind"], job["spec"]["completions"], job["spec"]["backoffLimitPerIndex"]) == ("Job", 1, 0)
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["/bin/sh", "-c", 'echo "x"']
    assert "resources" not in container
    assert container["volumeMounts"] == [{"name": "models", "mountPath": "/models", "readOnly": True}]
    with pytest.raises(InputError):
        replace(JOB, nodes=("gpu01", "gpu02"))
    with pytest.raises(InputError):
        replace(JOB, kind="gang-job")


def _pod(node: str = "gpu01", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"nodeName": node}, "status": {"containerStatuses": [status]}}


@pytest.mark.parametrize(
    ("status", "deaths"),
    [
        ({"state": {"running": {"startedAt": "t"}}, "restartCount": 0}, (0, None)),
        ({"state": {"waiting": {"reason": "ImagePullBackOff"}}, "restartCount": 0}, (0, None)),
        ({"state": {"terminated": {"exitCode": 1}}, "restartCount": 0}, (1, 1)),
        (
            {"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 137}}, "restartCount": 2},
            (2, 137),
        ),
        ({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 5}, (5, None)),
    ],
)
def test_deaths(status: dict[str, Any], deaths: tuple[int, int | None]) -> None:
    assert deaths_of(_pod(**status)) == deaths


@pytest.mark.parametrize(
    ("deaths", "code", "told"),
    [
        (1, 137, "ended once, with exit code 137"),
        (5, 1, "ended 5 times, the last time with exit code 1"),
        (
            5,
            None,
            "ended 5 times, with which exit code is not known: its pod waits to start it again and no longer says",
        ),
    ],
)
def test_deaths_are_told_with_their_exit_code_or_without(deaths: int, code: int | None, told: str) -> None:
    assert told_deaths(deaths, code) == told


def test_where_a_server_is_on_its_way() -> None:
    assert loading_progress([]) == "no pod yet"
    assert loading_progress([_pod("")]) == "waiting for the scheduler"
    assert loading_progress([_pod(state={"waiting": {"reason": "ContainerCreating"}})]) == "ContainerCreating"
    assert loading_progress([_pod(state={"running": {"startedAt": "12:00"}})]) == "loading since 12:00"
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert is_ready(ready)
    assert not is_ready(_pod())
