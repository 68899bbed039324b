# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Templates become objects or an error; SIGTERM reaches the cleanup."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    AbortedError,
    InputError,
    NotFoundError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.interrupt import interruptible
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import render

_HAS_PODS = re.compile(
    r"^kind: (Pod|Job|CronJob|MPIJob|RayCluster|RayJob|Deployment|StatefulSet|DaemonSet|ReplicaSet)$", re.MULTILINE
)
VARIABLES: dict[str, Any] = {
    "name": "gang-a", "namespace": "ns", "size": 3, "resource": "nvidia.com/gpu", "gpus": 8,
    "nodes": ["gpu01", "gpu02"], "scheduler": "s",
    "queue": "q", "image": "pause", "priority_class": "low", "labels": {"k": "v"}, "tolerations": [],
    "deadline_s": 400.5, "claim_templates": [], "pod_claims": [], "claims": [],
}  # fmt: skip


@pytest.mark.parametrize("provider", sorted(stack_facts().gangs))
def test_every_gang_template_gives_a_group_and_its_pods(provider: str) -> None:
    facts = stack_facts().gangs[provider]
    group, *pods = render(RECIPES / "workloads" / facts.template, VARIABLES)
    assert (group["apiVersion"], group["kind"]) == (facts.api_version, "PodGroup")
    assert len(pods) == 3
    for pod in pods:
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        fields = [term["matchFields"][0]["values"] for term in terms["nodeSelectorTerms"]]
        assert fields == [["gpu01"], ["gpu02"]]
        assert "nodeName" not in pod["spec"]
        # What a dead controller left ends in the cluster, and its kubelet has the time to take the GPUs back.
        assert pod["spec"]["activeDeadlineSeconds"] == 401
        assert pod["spec"]["terminationGracePeriodSeconds"] > 0
        assert pod["spec"]["priorityClassName"] == "low"
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 8}


@pytest.mark.parametrize("path", sorted((RECIPES / "workloads").glob("*.j2")), ids=lambda path: path.name)
def test_whatever_has_pods_ends_in_the_cluster_without_us(path: Path) -> None:
    makers = [part for part in path.read_text(encoding="utf-8").split("\n---\n") if _HAS_PODS.search(part)]
    endless = [part for part in makers if "activeDeadlineSeconds:" not in part]
    if path.name == "pod-autoscaling.yaml.j2":
        # Pods of a Deployment cannot have a deadline, and an autoscaler scales nothing of a Job: they hold no GPU.
        assert endless and "gpu" not in endless[0].partition("containers:")[2]
        return
    assert not endless


def test_test_pods_are_below_everybody_else() -> None:
    assert stack_facts().test_pods.priority < -10


@pytest.mark.parametrize("text", ["", "a: {{ gone }}", "a: [", "just words", "- 1", "{% if %}"])
def test_a_template_that_gives_no_objects_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.yaml.j2"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        render(path, {})
    with pytest.raises(NotFoundError):
        render(tmp_path / "gone", {})


def test_sigterm_runs_the_cleanup_and_a_second_one_does_not_break_it_off() -> None:
    before = signal.getsignal(signal.SIGTERM)
    cleaned = False
    with pytest.raises(AbortedError), interruptible("test"):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned = True
    assert cleaned
    assert signal.getsignal(signal.SIGTERM) is before
