# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recipe expects: objects that are there and ready, health checks in chainsaw's form, both ways."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from snapshot_api import PagedApi, cluster_of

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import observe_expected
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.expected_objects import (
    ExpectedState,
    asserted_in,
    expected_in,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.expected_resources import judge
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.chainsaw import assertions_of, mismatch
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Site, SiteProfile

# The form of NVIDIA/aicr recipes/checks/*/health-check.yaml: a workload that is there, no pod in a bad phase.
HEALTH = """
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: gpu-operator-health-check}
spec:
  timeouts: {assert: 5m}
  steps:
    - name: there
      try:
        - assert:
            resource:
              apiVersion: apps/v1
              kind: Deployment
              metadata: {name: gpu-operator, namespace: gpu-operator}
              status:
                (availableReplicas > `0`): true
    - name: healthy
      try:
        - error:
            resource:
              apiVersion: v1
              kind: Pod
              metadata: {namespace: gpu-operator}
              status: {phase: Failed}
"""
RECIPE: dict[str, Any] = {
    "componentRefs": [
        {
            "name": "gpu-operator",
            "namespace": "gpu-operator",
            "expectedResources": [
                {"kind": "Deployment", "name": "gpu-operator"},
                {"kind": "Service", "name": "metrics", "namespace": "gpu-operator"},
            ],
            "healthCheckAsserts": HEALTH,
        }
    ]
}
ROOT = "namespaces/gpu-operator"


def deployment(ready: int = 1, replicas: int = 1) -> dict[str, Any]:
    status = {"replicas": replicas, "updatedReplicas": ready, "readyReplicas": ready, "availableReplicas": ready}
    return {
        "metadata": {"name": "gpu-operator", "namespace": "gpu-operator", "generation": 1},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "gpu-operator"}}},
        "status": {**status, "observedGeneration": 1},
    }


def rolling() -> dict[str, Any]:
    """One whose newest generation nobody has taken up yet: its numbers are of the one before."""
    found = deployment()
    found["metadata"]["generation"] = 2
    return found


def pod(name: str, phase: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "gpu-operator"}, "status": {"phase": phase}}


def api(*, deployments: list[Any], services: list[Any], pods: list[Any]) -> PagedApi:
    return PagedApi(
        {
            f"/apis/apps/v1/{ROOT}/deployments": deployments,
            f"/api/v1/{ROOT}/services": services,
            f"/api/v1/{ROOT}/pods": pods,
        }
    )


SERVICE = {"metadata": {"name": "metrics", "namespace": "gpu-operator"}}
HEALTHY: dict[str, list[Any]] = {
    "deployments": [deployment()],
    "services": [SERVICE],
    "pods": [pod("a", "Running"), pod("b", "Succeeded")],
}


def looked(recipe: dict[str, Any] | None = None, **changes: list[Any]) -> ExpectedState:
    recipe = recipe or RECIPE
    served = api(**{**HEALTHY, **changes})
    served.now = lambda: datetime.now(UTC)  # type: ignore[attr-defined]  # the clock of the server
    cluster = cluster_of(served)
    return ExpectedState(
        objects=tuple(observe_expected._object(cluster, entry) for entry in expected_in(recipe)),
        assertions=tuple(observe_expected._assertion(cluster, entry) for entry in asserted_in(recipe)),
    )


def judged(seen: ExpectedState, recipe: dict[str, Any] | None = None) -> tuple[Outcome, ...]:
    recipe = recipe or RECIPE
    site = Site(name="lab", profile=SiteProfile.CLOUD, hosts=())
    return judge(seen, JudgeContext(gate="gpu_stack", site=site, today=date(2026, 11, 23), recipe=recipe))


def test_what_is_there_and_healthy_passes() -> None:
    (outcome,) = judged(looked())
    assert outcome.status is Status.PASSED
    assert outcome.summary == "2 expected objects are there, 2 assertions hold"


@pytest.mark.parametrize(
    ("changes", "causes"),
    [
        ({"services": []}, ["resource-missing"]),
        ({"deployments": [deployment(ready=0)]}, ["resource-not-ready", "assertion-not-met"]),
        ({"deployments": [deployment(ready=0, replicas=0)]}, ["resource-not-ready", "assertion-not-met"]),
        ({"deployments": [rolling()]}, ["resource-not-ready"]),
        ({"deployments": []}, ["resource-missing", "assertion-not-met"]),
        ({"pods": [pod("a", "Running"), pod("b", "Failed")]}, ["assertion-not-met"]),
    ],
)
def test_what_is_not_as_expected_is_found_and_named(changes: dict[str, list[Any]], causes: list[str]) -> None:
    outcomes = judged(looked(**changes))
    assert [outcome.cause for outcome in outcomes] == causes
    assert all([subject.name for subject in outcome.subjects] == ["lab", "gpu-operator"] for outcome in outcomes)


def test_a_pod_that_may_not_be_is_named() -> None:
    (outcome,) = judged(looked(pods=[pod("a", "Running"), pod("b", "Failed")]))
    assert "gpu-operator/b" in outcome.summary and "gpu-operator/a" not in outcome.summary


def test_what_could_not_be_looked_at_is_no_pass() -> None:
    seen = looked()
    unseen = replace(seen.objects[0], there=None, problem="forbidden")
    (outcome,) = judged(replace(seen, objects=(unseen, *seen.objects[1:])))
    assert (outcome.status, outcome.cause) == (Status.OTHER, "resource-unseen")


def test_that_nothing_of_a_kind_is_so_is_not_known_where_the_kind_is_not_served() -> None:
    """Misspelt, or not installed: chainsaw ends with an error there (kyverno/chainsaw pkg/engine/operations/error)."""
    for word, cause in (("error", "resource-unseen"), ("assert", "assertion-not-met")):
        text = STEP % f"{{{word}: {{resource: {{apiVersion: example.com/v1, kind: Widgit, status: {{phase: Bad}}}}}}}}"
        recipe = {"componentRefs": [{"name": "x", "healthCheckAsserts": text}]}
        (outcome,) = judged(looked(recipe), recipe)
        assert outcome.cause == cause


def test_what_was_looked_at_for_another_recipe_is_no_pass() -> None:
    (outcome,) = judged(looked(), {"componentRefs": [{**RECIPE["componentRefs"][0], "expectedResources": []}]})
    assert outcome.cause == "no-data"


def test_a_kind_that_is_not_known_is_told_with_the_way_out() -> None:
    recipe = {"componentRefs": [{"name": "x", "expectedResources": [{"kind": "Widget", "name": "w"}]}]}
    (outcome,) = judged(looked(recipe), recipe)
    assert outcome.status is Status.OTHER and "assert it in healthCheckAsserts" in outcome.summary


def test_a_health_check_that_the_recipe_skips_is_told() -> None:
    recipe = {"componentRefs": [{**RECIPE["componentRefs"][0], "healthCheckSkip": True}]}
    (outcome,) = judged(looked(recipe), recipe)
    assert outcome.summary.endswith("the recipe skips the health check of gpu-operator")


@pytest.mark.parametrize(
    ("wanted", "found", "told"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, ""),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b is 2, expected 1"),
        ({"a": {"b": 1}}, {"a": {}}, "a.b is not there"),
        ({"a": [1, 2]}, {"a": [1]}, "a has 1 entries, expected 2"),
        ({"(ready > `0`)": True}, {"ready": 3}, ""),
        ({"(ready > `0`)": True}, {}, "it: ready > `0` is null, expected true"),
        ({"(ready == desired)": True}, {"ready": 3, "desired": 4}, "it: ready == desired is false, expected true"),
        ({"(length(items) >= `2`)": True}, {"items": [1, 2]}, ""),
        ({"(phase != 'Failed')": True}, {"phase": "Running"}, ""),
        ({"a": {}}, {"a": None}, "a is null, expected a value"),
        ({"a": {}}, {"a": {"b": 1}}, ""),
        ({"a": {}}, {"a": []}, ""),
        ({"(a[0])": {}}, {"a": []}, "(a[0]) is null, expected a value"),
        ({"(a[0])": {}}, {"a": [{"b": 1}]}, ""),
    ],
)
def test_trees_and_expressions_are_compared_as_chainsaw_does(wanted: Any, found: Any, told: str) -> None:
    assert mismatch(wanted, found) == told


RESOURCE = "apiVersion: v1\nkind: Pod\nmetadata: {namespace: x}\n"
STEP = "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nspec: {steps: [{try: [%s]}]}\n"
OPERATION = "{assert: {%s resource: {apiVersion: v1, kind: Pod, metadata: {name: x%s}, status: {phase: Running}}}}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("checks/gpu-operator/health-check.yaml", "is no mapping"),
        (STEP % "{script: {content: exit 0}}", "operation script"),
        (STEP % "", "asserts nothing"),
        (RESOURCE + "status:\n  (join(names)): x", "not known here"),
        (RESOURCE + "status:\n  (names.$x): x", "not known here"),
        (RESOURCE + "status: {~.containers: {ready: true}}", "not known here"),
        (RESOURCE + "status: {phase: (upper(x))}", "which is not known here"),
        ("kind: Pod\n", "without apiVersion"),
        (RESOURCE + "status: {phase -> x: Failed}", "not known here"),
        (RESOURCE + "status: {(phase) -> x: Failed}", "not known here"),
        (RESOURCE + "status: {'\\(phase)\\': Failed}", "not known here"),
        (RESOURCE + "status: {phase: '\\(Failed)\\'}", "which is not known here"),
        (RESOURCE + "status: {phase: 'Failed -> x'}", "which is not known here"),
        (RESOURCE + "status: {phase: '~.Failed'}", "which is not known here"),
        (STEP.replace("spec: {", "spec: {skip: true, ") % OPERATION % ("", ""), "'skip' in the test"),
        (STEP.replace("spec: {", "spec: {compiler: cel, ") % OPERATION % ("", ""), "'compiler' in the test"),
        (STEP.replace("spec: {", "spec: {namespace: ($x), ") % OPERATION % ("", ""), "which is not known here"),
        (STEP % OPERATION % ("cluster: other,", ""), "'cluster' in the operation"),
    ],
)
def test_what_is_not_known_is_refused_and_not_guessed_at(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        assertions_of(text, "healthCheckAsserts of component x")
    assert told in str(caught.value)


def test_a_plain_document_asserts_itself() -> None:
    (assertion,) = assertions_of(RESOURCE + "status: {phase: Running}", "x")
    assert (assertion.must, assertion.kind, assertion.wanted) == (True, "Pod", {"status": {"phase": "Running"}})


@pytest.mark.parametrize(
    ("own", "place"), [("", "gpu-operator"), (", namespace: monitoring", "monitoring")], ids=["of-the-test", "its-own"]
)
def test_an_object_without_a_namespace_is_in_that_of_its_test(own: str, place: str) -> None:
    text = STEP.replace("spec: {", "spec: {namespace: gpu-operator, ") % OPERATION % ("timeout: 1m,", own)
    (assertion,) = assertions_of(text, "x")
    assert assertion.namespace == place


def test_a_text_with_an_arrow_or_parentheses_inside_is_a_text() -> None:
    (assertion,) = assertions_of(RESOURCE + "status: {message: 'a (b) and c -> d.', reason: '~1'}", "x")
    assert assertion.wanted == {"status": {"message": "a (b) and c -> d.", "reason": "~1"}}
