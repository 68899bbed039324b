# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health checks in the forms of upstream's newer components: expressions over conditions, rollouts, container states.

The forms are those of NVIDIA/aicr recipes/checks/{nvcre,k8s-aibom,gcp-driver-installer}/health-check.yaml, what counts
of an object on its way out those of its pkg/chainsaw/inprocess.go.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.expected_objects import asserted_in
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.chainsaw import assertions_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .test_expected_resources import HEALTHY, RECIPE, deployment, judged, looked, pod

NAME, SPACE = "gpu-operator", "gpu-operator"
WAITING = (
    "(containerStatuses || `[]`)[?state.waiting.reason == 'CrashLoopBackOff' || state.waiting.reason == 'ErrImagePull']"
)


def recipe_of(*operations: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """Return a recipe whose component asserts this."""
    test = {
        "apiVersion": "chainsaw.kyverno.io/v1alpha1",
        "kind": "Test",
        "metadata": {"name": "x", "annotations": annotations},
        "spec": {"steps": [{"name": "a", "try": list(operations)}]},
    }
    return {"componentRefs": [{"name": NAME, "namespace": SPACE, "healthCheckAsserts": yaml.safe_dump(test)}]}


def resource(kind: str, **tree: Any) -> dict[str, Any]:
    named = {"name": NAME} if kind == "Deployment" else {}
    version = {"Deployment": "apps/v1"}.get(kind, "v1")
    return {"resource": {"apiVersion": version, "kind": kind, "metadata": {**named, "namespace": SPACE}, **tree}}


ROLLED_OUT = {
    "assert": resource(
        "Deployment",
        **{
            "spec": {"(replicas > `0`)": True},
            "(status.readyReplicas == spec.replicas)": True,
            "((status.updatedReplicas || `0`) == spec.replicas)": True,
            "((status.observedGeneration || `0`) == metadata.generation)": True,
            "status": {"(conditions[?type == 'Available'] | [0].status)": "True"},
        },
    )
}
NOT_WAITING = {"error": resource("Pod", status={f"({WAITING} | length(@) > `0`)": True})}
RECIPE_NEW = recipe_of(ROLLED_OUT, NOT_WAITING)


def rolled_out(**status: Any) -> dict[str, Any]:
    found = deployment(ready=2, replicas=2)
    found["status"]["conditions"] = [{"type": "Progressing", "status": "True"}, {"type": "Available", "status": "True"}]
    found["status"] |= status
    return found


def waiting(name: str, reason: str) -> dict[str, Any]:
    found = pod(name, "Running")
    found["status"]["containerStatuses"] = [{"state": {"waiting": {"reason": reason}}}]
    return found


def answers(recipe: dict[str, Any] | None = None, **changes: list[Any]) -> tuple[Outcome, ...]:
    recipe = recipe or RECIPE_NEW
    return judged(looked(recipe, **{"deployments": [rolled_out()], **changes}), recipe)


def test_a_healthy_component_passes() -> None:
    (outcome,) = answers(pods=[pod("a", "Running"), waiting("b", "ContainerCreating")])
    assert (outcome.status, outcome.summary) == (Status.PASSED, "0 expected objects are there, 2 assertions hold")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"deployments": [rolled_out(readyReplicas=1)]}, "status.readyReplicas == spec.replicas is false"),
        ({"deployments": [rolled_out(updatedReplicas=None)]}, "updatedReplicas || `0`) == spec.replicas is false"),
        ({"deployments": [rolled_out(observedGeneration=0)]}, "metadata.generation is false"),
        ({"deployments": [rolled_out(conditions=[])]}, "[0].status is null, expected \"True\""),
        ({"deployments": []}, "there is none"),
        ({"pods": [pod("a", "Running"), waiting("b", "CrashLoopBackOff")]}, "gpu-operator/b is as the health check"),
    ],
)  # fmt: skip
def test_one_that_is_not_is_told_with_what_was_seen(changes: dict[str, list[Any]], told: str) -> None:
    (outcome,) = answers(**changes)
    assert (outcome.status, outcome.cause) == (Status.FAILED, "assertion-not-met") and told in outcome.summary


def leaving(found: dict[str, Any]) -> dict[str, Any]:
    gone = deepcopy(found)
    gone["metadata"]["deletionTimestamp"] = "2026-11-27T01:00:00Z"
    return gone


def test_what_is_on_its_way_out_satisfies_nothing_and_holds_nothing() -> None:
    (outcome,) = answers(deployments=[leaving(rolled_out())])
    assert outcome.cause == "assertion-not-met"
    lost = waiting("b", "CrashLoopBackOff")
    lost["status"]["reason"] = "NodeLost"
    (outcome,) = answers(pods=[leaving(waiting("a", "ErrImagePull")), lost])
    assert outcome.status is Status.PASSED


def test_what_an_expression_cannot_be_asked_of_is_no_pass() -> None:
    """`length()` of nothing is an error of JMESPath: an object may be what none may be, and nobody knows."""
    asked = {"(length(containerStatuses) > `0`)": True}
    (outcome,) = answers(recipe_of({"error": resource("Pod", status=asked)}))
    assert (outcome.status, outcome.cause) == (
        Status.OTHER,
        "assertion-unknown",
    ) and "is asked of a null" in outcome.summary
    (outcome,) = answers(recipe_of({"assert": resource("Pod", status=asked)}))
    assert (outcome.status, outcome.cause) == (Status.FAILED, "assertion-not-met")


def test_a_health_check_that_is_not_known_here_holds_its_component_alone() -> None:
    (known,) = RECIPE["componentRefs"]
    strange = {
        "name": "other",
        "healthCheckAsserts": "apiVersion: v1\nkind: Pod\nmetadata: {namespace: ($namespace)}\n",
    }
    script = recipe_of({"script": {"content": "exit 0"}})["componentRefs"][0] | {"name": "third"}
    recipe = {"componentRefs": [script, known, strange]}
    outcomes = judged(looked(recipe), recipe)
    assert [(o.status, o.cause, o.subjects[-1].name) for o in outcomes] == [
        (Status.OTHER, "assertion-unknown", "third"),
        (Status.OTHER, "assertion-unknown", "other"),
    ]
    assert "operation script" in outcomes[0].summary and "($namespace)" in outcomes[1].summary
    broken = judged(looked(recipe, pods=[pod("b", "Failed")]), recipe)
    assert [outcome.cause for outcome in broken] == ["assertion-not-met", "assertion-unknown", "assertion-unknown"]


def test_a_check_that_declares_that_it_asserts_nothing_is_told_and_one_that_lost_its_steps_is_refused() -> None:
    declared = recipe_of(**{"aicr/no-op-check": "true"})
    (outcome,) = answers(declared)
    assert (outcome.status, outcome.summary) == (
        Status.SKIPPED,
        "nothing is left to expect; the recipe skips the health check of gpu-operator",
    )
    texts = [str(recipe["componentRefs"][0]["healthCheckAsserts"]) for recipe in (RECIPE_NEW, recipe_of())]
    with pytest.raises(InputError, match="asserts nothing"):
        assertions_of("---\n".join(texts), "x")


def test_no_more_of_an_object_is_kept_than_its_assertions_look_at() -> None:
    seen = looked(RECIPE_NEW, deployments=[rolled_out()], pods=[waiting("b", "x")])
    kept = seen.assertions[0].objects
    assert kept is not None and set(kept["gpu-operator/gpu-operator"]) == {"metadata", "spec", "status"}
    pods = seen.assertions[1].objects
    assert pods == {
        "gpu-operator/b": {"status": {"containerStatuses": waiting("b", "x")["status"]["containerStatuses"]}}
    }
    assert len(list(asserted_in(RECIPE_NEW))) == 2 and HEALTHY["deployments"]
