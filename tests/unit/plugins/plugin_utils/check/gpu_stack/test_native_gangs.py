# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs of the API server itself: PodGroups in the version that it has, with the priority of the test's pods."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.capacity import Slots
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_gang import (
    NATIVE,
    GangSettings,
    _unusable,
    gang_objects,
    group_kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.api_versions import group_as_served
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import NotFoundError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts

Json = dict[str, Any]
GROUP = "scheduling.k8s.io"


@dataclass
class _Transport:
    """Answers discovery: by version what an API group has in it."""

    versions: dict[str, tuple[str, ...]]
    host: str = "api"

    def json(self, _method: str, path: str) -> Json:
        if path == f"/apis/{GROUP}":
            return {"versions": [{"version": name} for name in self.versions]}
        kinds = self.versions.get(path.removeprefix(f"/apis/{GROUP}/"))
        if kinds is None:
            raise NotFoundError(path, "not found")
        resources = [{"kind": kind, "name": f"{kind.lower()}s", "namespaced": True} for kind in kinds]
        parts = [{"kind": kind, "name": f"{kind.lower()}s/status", "namespaced": True} for kind in kinds]
        return {"resources": [*parts, *resources]}


def server(**versions: tuple[str, ...]) -> Cluster:
    cluster = object.__new__(Cluster)
    cluster.transport = cast(Any, _Transport({"v1": ("PriorityClass",), **versions}))
    return cluster


def groups_and_pods(priority_class: str = "test-1") -> list[Json]:
    space = cast(Any, SimpleNamespace(name="test-1", priority_class=priority_class, tolerated=[], labels={}))
    settings = GangSettings(provider="", nodes=4, queue="", image="", timeout_s=9, settle_s=1, cleanup_s=9)
    slots = Slots(nodes=("a", "b", "c"), count=3, gpus=8)
    return gang_objects(space, "gang-a", stack_facts().gangs[NATIVE], slots, settings, "")


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({"v1alpha2": ("Workload", "PodGroup")}, "v1alpha2"),
        # Kubernetes 1.37 has both and no v1alpha2 any more (kubernetes/api, scheduling/).
        ({"v1beta1": ("Workload", "PodGroup"), "v1alpha3": ("Workload", "PodGroup")}, "v1beta1"),
        ({"v1alpha3": ("Workload", "PodGroup")}, "v1alpha3"),
        # Before 1.22 it was a version of PriorityClasses.
        ({"v1beta1": ("PriorityClass",)}, ""),
        # 1.35 keeps what a gang is inside of its Workload.
        ({"v1alpha1": ("Workload",)}, ""),
        ({}, ""),
    ],
)
def test_groups_are_made_in_the_version_in_which_the_server_has_them(
    versions: dict[str, tuple[str, ...]], found: str
) -> None:
    cluster, facts = server(**versions), stack_facts().gangs[NATIVE]
    problem = _unusable(cluster, cast(ObserveContext, SimpleNamespace(recipe=None)), NATIVE, facts)
    group, *pods = [group_as_served(cluster, body) for body in groups_and_pods()]
    if not found:
        assert problem is not None and problem[0] == "no-gang-scheduler"
        assert "scheduling.k8s.io/v1beta1/v1alpha3/v1alpha2 PodGroup is not served" in problem[1]
        return
    assert problem is None
    assert group["apiVersion"] == f"{GROUP}/{found}" == group_kind(cluster, facts).api_version
    assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert {pod["apiVersion"] for pod in pods} == {"v1"}
    assert all(pod["spec"]["schedulingGroup"] == {"podGroupName": "gang-a"} for pod in pods)


def test_a_group_of_another_scheduler_and_any_other_object_is_left_as_it_is() -> None:
    other = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    assert group_as_served(cast(Any, None), other) is other, "nobody is asked about it"
    pod = {"apiVersion": "v1", "kind": "Pod"}
    assert group_as_served(cast(Any, None), pod) is pod


def test_a_group_has_the_priority_of_its_pods_so_that_it_takes_no_place_of_others() -> None:
    group, *pods = groups_and_pods("test-1")
    assert {body["spec"]["priorityClassName"] for body in (group, *pods)} == {"test-1"}
