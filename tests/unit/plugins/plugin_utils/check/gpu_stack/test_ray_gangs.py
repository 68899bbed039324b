# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs of Ray: where they are asked, what is made, with which rights, and what is said of what was seen."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    observe_gang,
    ray_gang_admission,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.capacity import Slots
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_gang import GangResult, group_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.ray_gang import (
    ray_cluster,
    ray_provider,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import choices_of, gate_permissions
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

from .conftest import NAMES, context, recipe, site, workload

ID = ray_gang_admission.SPEC.id
Json = dict[str, Any]


def with_ray(**scheduler: Any) -> Json:
    found = recipe()
    values = {"batchScheduler": scheduler} if scheduler else {}
    found["componentRefs"].append({"name": "kuberay-operator", "namespace": "ray", "version": "1", "values": values})
    found["deploymentOrder"].append("kuberay-operator")
    return found


@pytest.mark.parametrize(
    ("scheduler", "provider"),
    [
        ({"name": "kai-scheduler"}, "kai-scheduler"),
        ({"name": "volcano"}, "volcano"),
        ({"enabled": True}, "volcano"),
        ({"name": "scheduler-plugins"}, "coscheduling"),
        ({"name": "yunikorn"}, ""),
        ({"enabled": False, "name": ""}, ""),
        ({}, ""),
    ],
)
def test_it_is_asked_where_kuberay_has_a_gang_scheduler(scheduler: Json, provider: str) -> None:
    given = with_ray(**scheduler)
    assert ray_provider(given) == provider
    declaration = declare("gpu_stack", site(), tuple(given["deploymentOrder"]), given)
    asked = {check.id: check.subjects for check in declaration.checks}
    assert asked.get(ID) == (("lab",) if provider else None)
    assert (ID in {entry.id for entry in declaration.not_declared}) is not bool(provider)
    rights = {(p.verb, p.resource, p.group) for p in gate_permissions("gpu_stack", "test", choices_of(site(), given))}
    assert (("create", "rayclusters", "ray.io") in rights) is bool(provider)
    if provider == "kai-scheduler":
        groups = {group for _verb, resource, group in rights if resource == "podgroups"}
        # The recipe's own gangs are Volcano's.
        assert groups >= {"scheduling.volcano.sh", "scheduling.run.ai"}


def test_one_host_has_no_gangs_and_another_recipe_no_ray() -> None:
    given = with_ray(name="volcano")
    alone = replace(site(), hosts=site().hosts[:1])
    for place, stack in ((alone, given), (site(), recipe())):
        found = declare("gpu_stack", place, tuple(stack["deploymentOrder"]), stack)
        assert ID not in {check.id for check in found.checks}
    assert not any(p.group == "ray.io" for p in gate_permissions("gpu_stack", "test", choices_of(alone, given)))
    assert ray_provider(None) == ray_provider({"componentRefs": []}) == ""


SLOTS = Slots(nodes=NAMES[:2], count=4, gpus=2, resource="nvidia.com/gpu", by_dra=False)
SPACE = cast(
    "Any",
    SimpleNamespace(name="test-1", labels={"a": "b"}, priority_class="test-1", tolerated=[{"operator": "Exists"}]),
)


@pytest.mark.parametrize(
    ("provider", "label"), [("kai-scheduler", "kai.scheduler/queue"), ("volcano", "volcano.sh/queue-name")]
)
def test_a_gang_is_a_head_and_workers_that_all_hold_gpus(provider: str, label: str) -> None:
    (made,) = ray_cluster(SPACE, "gang-a", provider, SLOTS, "tests", "", 60.0)
    assert (made["kind"], made["metadata"]["labels"][label]) == ("RayCluster", "tests")
    (workers,) = made["spec"]["workerGroupSpecs"]
    assert 1 + workers["replicas"] == SLOTS.gang and workers["minReplicas"] == workers["replicas"]
    for template in (made["spec"]["headGroupSpec"]["template"], workers["template"]):
        assert template["metadata"]["labels"]["gpufleet.io/gang"] == "gang-a"
        (container,) = template["spec"]["containers"]
        assert container["resources"] == {"limits": {"nvidia.com/gpu": 2}}
        assert "schedulerName" not in template["spec"], "KubeRay names it, which is what is tested"
        terms = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert len(terms["nodeSelectorTerms"]) == 2


def test_gpus_by_claims_are_claimed_by_head_and_workers() -> None:
    by_dra = Slots(nodes=NAMES[:2], count=4, gpus=2, resource="", by_dra=True)
    *claims, made = ray_cluster(SPACE, "gang-a", "volcano", by_dra, "", "", 60.0)
    assert [entry["kind"] for entry in claims] == ["ResourceClaimTemplate"]
    assert made["spec"]["headGroupSpec"]["template"]["spec"]["resourceClaims"]


def seen(**more: Any) -> GangResult:
    given: Json = {"provider": "volcano", "slots": 4, "gang_size": 3, "gpus_per_pod": 2, "nodes": NAMES[:2]}
    return GangResult(**{**given, "bound": {"gang-a": 3, "gang-b": 0}, **more})


@pytest.mark.parametrize(
    ("result", "status", "cause"),
    [
        (seen(), "passed", ""),
        (seen(bound={"gang-a": 2, "gang-b": 2}), "failed", "gang-partial"),
        (seen(bound={"gang-a": 0, "gang-b": 0}), "failed", "gang-not-admitted"),
        (seen(bound={"gang-a": 3, "gang-b": 3}), "failed", "gang-overcommitted"),
        (seen(problem="kuberay-missing", reason="not served"), "failed", "kuberay-missing"),
        (seen(problem="no-gang-scheduler", reason="not served"), "failed", "no-gang-scheduler"),
        (seen(problem="scheduler-not-ready", reason="x"), "other", "blocked-by-component-health"),
        (seen(problem="no-capacity", reason="x"), "other", "no-capacity"),
        (seen(problem="not-in-recipe", reason="x"), "other", "not-in-recipe"),
        (seen(bound={}), "other", "no-data"),
    ],
)
def test_what_was_seen_is_told(result: GangResult, status: str, cause: str) -> None:
    (outcome,) = ray_gang_admission.judge(result, context(recipe=with_ray(name="volcano")))
    assert (outcome.check, outcome.status.value, outcome.cause) == (ID, status, cause)
    if outcome.status is Status.FAILED:
        assert cause in ray_gang_admission.SPEC.causes


@pytest.mark.parametrize(
    ("versions", "there", "problem"),
    [
        ((), [], "kuberay-missing"),
        (("v1alpha1",), [], "kuberay-missing"),
        (("v1",), [], "scheduler-not-ready"),
        (("v1",), [workload("kuberay-operator", "ray/kuberay-operator", state="failed")], "scheduler-not-ready"),
        (("v1",), [workload("kuberay-operator", "ray/kuberay-operator")], None),
    ],
)
def test_kuberay_has_to_be_there(
    versions: tuple[str, ...], there: list[Any], problem: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe_gang, "read_workloads", lambda *_: there)
    entry = {"name": "kuberay-operator", "namespace": "ray", "version": "1", "chart": "k", "values": {}}
    given = SimpleNamespace(recipe={"componentRefs": [entry], "deploymentOrder": ["kuberay-operator"]})
    cluster = SimpleNamespace(served_versions=lambda group: versions if group == "ray.io" else ())
    found = observe_gang._without_ray(cast("Any", cluster), cast("Any", given))
    assert (found[0] if found else None) == problem


def test_the_group_that_was_made_for_a_cluster_is_found() -> None:
    owned = {"metadata": {"name": "ray-gang-a-pg", "ownerReferences": [{"name": "gang-a"}]}}
    server = SimpleNamespace(find=lambda *_: None, find_all=lambda *_: [{"metadata": {"name": "x"}}, owned])
    space = cast("Any", SimpleNamespace(cluster=server, name="test-1"))
    assert group_of(space, cast("Any", None), "gang-a") == owned
    assert group_of(space, cast("Any", None), "gang-b") is None
