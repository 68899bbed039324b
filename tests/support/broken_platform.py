# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What components answer for beyond their pods, broken one thing at a time on the API server of a rehearsal: webhooks,
volumes, and the objects that a recipe expects, each well before and after; and what a recipe demands of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    default_storage_class,
    dual_advertisement,
    expected_resources,
    observe_cluster,
    observe_expected,
    observe_platform,
    recipe_constraints,
    robust_controller,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    DEPLOYMENTS,
    SERVICES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    WEBHOOK_CONFIGURATIONS,
    Kind,
)

Json = dict[str, Any]
Told = Callable[[str], bool]
COMPONENT, HOOK = "volcano", "validatejob.volcano.sh"
VALIDATING = WEBHOOK_CONFIGURATIONS[0]
POLICY_BINDINGS = Kind(
    "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings",
    namespaced=False,
)  # fmt: skip
# What a server writes into an object itself.
_OF_SERVER = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")


def assert_broken_admission_is_found(admin: Cluster, context: ObserveContext, judging: JudgeContext) -> None:
    """A webhook that is gone, trusted by nobody or served by nobody, and an admission that lets everything through."""

    def told(cause: str) -> bool:
        outcomes = robust_controller.judge(observe_platform.observe(context), judging)
        return [outcome.cause for outcome in outcomes] == ([cause] if cause else [""])

    configuration = next(
        item for item in admin.list_objects(VALIDATING) if any(hook["name"] == HOOK for hook in item["webhooks"])
    )
    name = configuration["metadata"]["name"]
    service = configuration["webhooks"][0]["clientConfig"]["service"]
    _well(told)
    with _without(admin, VALIDATING, configuration):
        _found(told, "webhook-missing")
    _well(told)
    bare = [{**hook, "clientConfig": {"service": service}} for hook in configuration["webhooks"]]
    with _patched(admin, VALIDATING, name, {"webhooks": bare}, {"webhooks": configuration["webhooks"]}):
        _found(told, "webhook-without-ca")
    selector = admin.get(SERVICES, service["name"], service["namespace"])["spec"]["selector"]
    nobody = {"spec": {"selector": {**selector, "nobody": "here"}}}
    with _patched(
        admin, SERVICES, service["name"], nobody, {"spec": {"selector": {"nobody": None}}}, service["namespace"]
    ):
        _found(told, "webhook-unserved")
    (binding,) = (item for item in admin.list_objects(POLICY_BINDINGS) if item["metadata"]["name"] == HOOK)
    with _without(admin, POLICY_BINDINGS, binding):
        _found(told, "invalid-object-accepted")
    _well(told)


def assert_claims_without_a_volume_are_found(admin: Cluster, context: ObserveContext, judging: JudgeContext) -> None:
    """A claim for the default class of a cluster that has none, for a class that is not there, and for one that gives
    nothing."""

    def told(cause: str) -> bool:
        (outcome,) = default_storage_class.judge(observe_platform.observe(context), judging)
        return outcome.cause == cause

    assert not admin.list_objects(STORAGE_CLASSES), "the recipe of these tests brings no class"
    _well(told)
    with _made(admin, VOLUME_CLAIMS, _claim(""), COMPONENT):
        _found(told, "no-default-storage-class")
    with _made(admin, VOLUME_CLAIMS, _claim("no-such-class"), COMPONENT):
        _found(told, "storage-class-missing")
    slow = {"metadata": {"name": "gives-nothing"}, "provisioner": "example.com/gives-nothing"}
    with _made(admin, STORAGE_CLASSES, slow), _made(admin, VOLUME_CLAIMS, _claim("gives-nothing"), COMPONENT):
        _found(told, "volume-not-bound")
    _well(told)


def assert_what_a_recipe_expects_is_asked_of_the_server(
    admin: Cluster, context: ObserveContext, judging: JudgeContext
) -> None:
    """An object that is there and ready, one that is not there, one without pods, and a health check that fails."""
    deployment = next(
        item for item in admin.list_objects(DEPLOYMENTS, COMPONENT) if item["status"].get("readyReplicas")
    )
    name = deployment["metadata"]["name"]
    wanted = {"kind": "Deployment", "namespace": COMPONENT}

    def told(cause: str, expects: Json) -> bool:
        parts = [{**part, **expects} if part["name"] == COMPONENT else part for part in judging.recipe["componentRefs"]]
        recipe = {**judging.recipe, "componentRefs": parts}
        settings = {"gpu_stack": {"stays_ready_s": 1.0, "settle_s": 5.0}}
        mine = replace(context, recipe=recipe, site=replace(context.site, settings=settings))
        (outcome,) = expected_resources.judge(observe_expected.observe(mine), replace(judging, recipe=recipe))
        return outcome.cause == cause

    there, absent = ({"expectedResources": [{**wanted, "name": called}]} for called in (name, "not-there"))
    head = f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: {COMPONENT}}}\n"
    right = {"healthCheckAsserts": f"{head}status:\n  (readyReplicas == replicas): true\n"}
    wrong = {"healthCheckAsserts": f"{head}status:\n  (readyReplicas > `50`): true\n"}
    assert told("", there) and told("", right) and told("resource-missing", absent)
    assert told("assertion-not-met", wrong)
    replicas = deployment["spec"]["replicas"]
    with _patched(admin, DEPLOYMENTS, name, {"spec": {"replicas": 0}}, {"spec": {"replicas": replicas}}, COMPONENT):
        assert told("resource-not-ready", there)
    eventually(lambda: told("", there))


def assert_demands_and_doubles_are_judged_by_the_server(context: ObserveContext, judging: JudgeContext) -> None:
    """A version of the server that a recipe demands and that is not there; GPUs that this stack's device plugin and its
    DRA driver both give out."""
    seen = observe_cluster.observe(context)
    (outcome,) = recipe_constraints.judge(seen, judging)
    assert outcome.cause == "", outcome.summary
    demands = [{"name": "K8s.server.version", "value": ">= v99.0"}]
    (outcome,) = recipe_constraints.judge(
        seen, replace(judging, recipe={**(judging.recipe or {}), "constraints": demands})
    )
    assert outcome.cause == "constraint-not-met", outcome.summary
    assert {found.cause for found in dual_advertisement.judge(seen, judging)} == {"gpus-advertised-twice"}


def _claim(storage_class: str) -> Json:
    """Return a claim with a name of its own: one that was removed stays for a moment."""
    spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    of_class = {"storageClassName": storage_class} if storage_class else {}
    return {"metadata": {"name": f"claim-{storage_class or 'default'}"}, "spec": spec | of_class}


def _well(told: Told) -> None:
    eventually(lambda: told(""))


def _found(told: Told, cause: str) -> None:
    eventually(lambda: told(cause), what=lambda: cause)


@contextmanager
def _made(admin: Cluster, kind: Kind, body: Json, namespace: str = "") -> Iterator[None]:
    admin.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **body}, namespace)
    try:
        yield
    finally:
        admin.delete(kind, body["metadata"]["name"], namespace)


@contextmanager
def _without(admin: Cluster, kind: Kind, found: Json) -> Iterator[None]:
    kept = {key: value for key, value in found["metadata"].items() if key not in _OF_SERVER}
    admin.delete(kind, found["metadata"]["name"])
    try:
        yield
    finally:
        admin.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **found, "metadata": kept})


@contextmanager
def _patched(admin: Cluster, kind: Kind, name: str, change: Json, back: Json, namespace: str = "") -> Iterator[None]:
    admin.patch(kind, name, change, namespace)
    try:
        yield
    finally:
        admin.patch(kind, name, back, namespace)
