# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Webhooks, gateways and volumes of the recipe's components: what is there has to be answered for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from crd_schema import crd_schema

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.declare import declare
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    default_storage_class,
    inference_gateway,
    observe_platform,
    robust_controller,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_platform import (
    Condition,
    PlatformState,
    TriedObject,
    VolumeClaim,
    Webhook,
    condition_of,
    default_classes,
    ready_endpoints,
    volume_claim,
    webhooks_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.rights import choices_of, gate_permissions
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import ForbiddenError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Rating, Status

from .conftest import context, recipe, site

ANSWERED = Webhook(
    configuration="validator.trainer.kubeflow.org", name="validator.trainjob.trainer.kubeflow.org",
    service="kubeflow/kubeflow-trainer-controller-manager", ready=1, strict=True, has_ca=True,
)  # fmt: skip
DENIED = 'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: unsupported runtime'
REFUSED = TriedObject(component="kubeflow-trainer", kind="TrainJob", accepted=False, said=DENIED)
ACCEPTED = Condition(name="agentgateway", status="True")
SEEN = PlatformState(
    webhooks=(ANSWERED,), tried=(REFUSED,), gateway_classes=(ACCEPTED,), gateways=(), storage_classes=("fast",),
    default_classes=("fast",), claims=(),
)  # fmt: skip


def with_components(*names: str) -> JudgeContext:
    stated = recipe()
    # Without the controllers that the healthy cluster of these tests has anyway.
    others = [name for name in stated["deploymentOrder"] if name not in robust_controller.CONTROLLERS]
    stated["deploymentOrder"] = [*others, *names]
    return context(recipe=stated)


def controllers(seen: PlatformState) -> tuple[Outcome, ...]:
    return robust_controller.judge(seen, with_components("kubeflow-trainer"))


def volumes(**more: Any) -> Outcome:
    (outcome,) = default_storage_class.judge(replace(SEEN, **more), context())
    return outcome


def test_a_served_webhook_that_refuses_passes() -> None:
    (outcome,) = controllers(SEEN)
    assert outcome.status is Status.PASSED and "TrainJob" in outcome.summary


@pytest.mark.parametrize(
    ("change", "rating", "cause"),
    [
        ({"webhooks": (replace(ANSWERED, ready=0),)}, Rating.BAD, "webhook-unserved"),
        ({"webhooks": (replace(ANSWERED, ready=0, strict=False),)}, Rating.MARGINAL, "webhook-unserved"),
        ({"webhooks": (replace(ANSWERED, has_ca=False),)}, Rating.BAD, "webhook-without-ca"),
        ({"webhooks": ()}, Rating.BAD, "webhook-missing"),
        ({"webhooks": (replace(ANSWERED, name="other"),)}, Rating.BAD, "webhook-missing"),
        ({"webhooks": None}, Rating.UNKNOWN, "no-data"),
        ({"tried": (replace(REFUSED, accepted=True, said=""),)}, Rating.BAD, "invalid-object-accepted"),
        ({"tried": ()}, Rating.UNKNOWN, "no-data"),
        # Refused by its schema, by missing rights or by nobody at all: nothing is known of the webhook.
        ({"tried": (replace(REFUSED, said="spec.runtimeRef: Required value"),)}, Rating.UNKNOWN, "refused-otherwise"),
        ({"tried": (replace(REFUSED, said="trainjobs is forbidden: User x"),)}, Rating.UNKNOWN, "refused-otherwise"),
        (
            {"tried": (replace(REFUSED, said='failed calling webhook "validator": connection refused'),)},
            Rating.UNKNOWN,
            "refused-otherwise",
        ),
        ({"unready": (("kubeflow-trainer", "0 of 1"),)}, Rating.UNKNOWN, "blocked-by-component-health"),
    ],
)
def test_what_is_wrong_with_a_webhook_is_named(change: dict[str, Any], rating: Rating, cause: str) -> None:
    (outcome,) = controllers(replace(SEEN, **change))
    assert (outcome.rating, outcome.cause) == (rating, cause)


# As dynamo's operator says it (NVIDIA/aicr, docs/conformance/cncf/evidence/robust-operator.md).
GRAPH = (
    'admission webhook "vdynamographdeployment.kb.io" denied the request: spec.services must have at least one service'
)


@pytest.mark.parametrize(
    ("hook", "tried", "cause"),
    [
        ({}, {}, ""),
        ({"ready": 0}, {}, "webhook-unserved"),
        ({"name": "vdynamomodel.kb.io"}, {}, "webhook-missing"),
        ({}, {"accepted": True, "said": ""}, "invalid-object-accepted"),
    ],
)
def test_the_operator_of_dynamo_refuses_a_graph_without_services(
    hook: dict[str, Any], tried: dict[str, Any], cause: str
) -> None:
    served = replace(
        ANSWERED, name="vdynamographdeployment.kb.io", configuration="dynamo-platform-dynamo-operator-validating",
        service="dynamo-system/dynamo-platform-dynamo-operator-webhook-service",
    )  # fmt: skip
    refused = TriedObject(component="dynamo-platform", kind="DynamoGraphDeployment", accepted=False, said=GRAPH)
    seen = replace(SEEN, webhooks=(replace(served, **hook),), tried=(replace(refused, **tried),))
    (outcome,) = robust_controller.judge(seen, with_components("dynamo-platform"))
    assert (outcome.cause, outcome.status is Status.PASSED) == (cause, not cause)


# As volcano-sh/volcano says it (pkg/webhooks/admission/jobs/validate/admit_job.go).
TWINS = 'admission webhook "validatejob.volcano.sh" denied the request: duplicated task name twin;'


def test_an_object_that_must_be_refused_is_one_that_its_schema_takes(shared: Path) -> None:
    """The API server asks the schema first: an object that this refuses says nothing of the webhook."""
    plurals = {
        "dynamo-platform": "dynamo/dynamographdeployments.nvidia.com",
        "kubeflow-trainer": "kubeflow-trainer/trainjobs.trainer.kubeflow.org",
        "kueue": "kueue/clusterqueues.kueue.x-k8s.io",
        "volcano": "volcano/jobs.batch.volcano.sh",
    }
    facts = {name: entry for name, entry in stack_facts().controllers.items() if entry.invalid}
    assert facts.keys() == plurals.keys() == set(robust_controller.CONTROLLERS)
    for name, entry in facts.items():
        version = str(entry.invalid["apiVersion"]).rpartition("/")[2]
        jsonschema.validate(entry.invalid, crd_schema(shared, plurals[name], version))


@pytest.mark.parametrize(
    ("hook", "tried", "cause"),
    [
        ({}, {}, ""),
        ({"ready": 0}, {}, "webhook-unserved"),
        ({"has_ca": False}, {}, "webhook-without-ca"),
        ({"name": "validatequeue.volcano.sh"}, {}, "webhook-missing"),
        ({}, {"accepted": True, "said": ""}, "invalid-object-accepted"),
    ],
)
def test_volcano_refuses_a_job_whose_tasks_have_one_name(
    hook: dict[str, Any], tried: dict[str, Any], cause: str
) -> None:
    served = replace(
        ANSWERED, name="validatejob.volcano.sh", configuration="volcano-admission-service-jobs-validate",
        service="volcano-system/volcano-admission-service",
    )  # fmt: skip
    refused = TriedObject(component="volcano", kind="Job", accepted=False, said=TWINS)
    seen = replace(SEEN, webhooks=(replace(served, **hook),), tried=(replace(refused, **tried),))
    (outcome,) = robust_controller.judge(seen, with_components("volcano"))
    assert (outcome.cause, outcome.status is Status.PASSED) == (cause, not cause)


# As the API server says it of a policy (kubernetes/apiserver, pkg/admission/plugin/policy/validating/dispatcher.go).
_POLICY = "ValidatingAdmissionPolicy '{}' with binding '{}-binding' denied request: "


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        # A site's own policies, as Kyverno's and Gatekeeper's webhooks tell them.
        ('admission webhook "validate.kyverno.svc-fail" denied the request: disallow-default-namespace', False),
        ('admission webhook "validation.gatekeeper.sh" denied the request: [owner] label required', False),
        (f"{_POLICY.format('owners', 'owners')}no label owner", False),
        (f"{_POLICY.format('job-validation-policy', 'job-validation')}duplicated task name found", True),
        (TWINS, True),
    ],
)
def test_a_refusal_by_a_policy_of_the_site_says_nothing_of_the_component(said: str, passes: bool) -> None:
    served = replace(ANSWERED, name="validatejob.volcano.sh", service="volcano-system/volcano-admission-service")
    refused = TriedObject(component="volcano", kind="Job", accepted=False, said=said)
    seen = replace(SEEN, webhooks=(served,), tried=(refused,))
    (outcome,) = robust_controller.judge(seen, with_components("volcano"))
    assert outcome.cause == ("" if passes else "refused-otherwise")
    assert passes or outcome.rating is Rating.UNKNOWN


def test_every_webhook_that_nobody_serves_is_told() -> None:
    down = (replace(ANSWERED, ready=0), replace(ANSWERED, name="second", ready=0))
    assert [outcome.cause for outcome in controllers(replace(SEEN, webhooks=down))] == ["webhook-unserved"] * 2


def test_a_check_of_a_component_is_declared_where_the_recipe_has_it() -> None:
    checks = {"robust-controller", "inference-gateway"}
    bare = declare("gpu_stack", site(), ("gpu-operator",))
    assert not checks & {check.id for check in bare.checks}
    reasons = {left.id: left.reason for left in bare.not_declared}
    assert reasons["robust-controller"] == (
        "needs dynamo-platform or kubeflow-trainer or kueue or volcano: the recipe has none"
    )
    whole = declare("gpu_stack", site(), ("kueue", "agentgateway"))
    assert checks <= {check.id for check in whole.checks}
    unknown = declare("gpu_stack", site())
    assert not checks & {left.id for left in unknown.not_declared}, "a recipe that is not known lacks nothing"


def test_the_rights_for_a_component_are_asked_for_where_the_recipe_has_it() -> None:
    def wanted(*names: str) -> set[str]:
        choices = choices_of(site(), {"deploymentOrder": list(names)})
        return {entry.text for level in ("observe", "test") for entry in gate_permissions("gpu_stack", level, choices)}

    assert "create trainjobs.trainer.kubeflow.org" in wanted("kubeflow-trainer")
    assert "list validatingwebhookconfigurations.admissionregistration.k8s.io" in wanted("kueue")
    assert not any("webhook" in text or "gateway" in text for text in wanted("gpu-operator"))


def test_the_checks_know_the_components_of_the_facts() -> None:
    facts = stack_facts().controllers
    assert set(robust_controller.CONTROLLERS) == {name for name, entry in facts.items() if entry.webhooks}
    assert set(inference_gateway.GATEWAYS) == {name for name, entry in facts.items() if entry.gateway_class}
    for name, entry in facts.items():
        if entry.webhooks:
            group = entry.invalid["apiVersion"].partition("/")[0]
            assert any(right.verb == "create" and right.group == group for right in entry.permissions), name


def claim(**more: Any) -> VolumeClaim:
    return replace(VolumeClaim(name="monitoring/db", phase="Pending", storage_class="fast"), **more)


@pytest.mark.parametrize(
    ("change", "rating", "cause"),
    [
        ({}, Rating.GOOD, ""),
        ({"storage_classes": (), "default_classes": ()}, Rating.GOOD, ""),
        ({"claims": (claim(phase="Bound"),)}, Rating.GOOD, ""),
        ({"claims": (claim(waits_for_pod=True),)}, Rating.GOOD, ""),
        ({"claims": (claim(),)}, Rating.BAD, "volume-not-bound"),
        ({"claims": (claim(phase="Lost"),)}, Rating.BAD, "volume-not-bound"),
        ({"claims": (claim(storage_class="none"),)}, Rating.BAD, "storage-class-missing"),
        ({"claims": (claim(storage_class=None),), "default_classes": ()}, Rating.BAD, "no-default-storage-class"),
        # What a claim that names its class waits for is not the default, and the other way round.
        ({"claims": (claim(),), "default_classes": ()}, Rating.BAD, "volume-not-bound"),
        ({"claims": (claim(storage_class=None),)}, Rating.BAD, "volume-not-bound"),
        ({"default_classes": ("fast", "slow")}, Rating.GOOD, ""),
        ({"storage_classes": None}, Rating.UNKNOWN, "no-data"),
        ({"claims": None}, Rating.UNKNOWN, "no-data"),
    ],
)
def test_claims_of_components_get_their_volumes(change: dict[str, Any], rating: Rating, cause: str) -> None:
    outcome = volumes(**change)
    assert (outcome.rating, outcome.cause) == (rating, cause)
    assert ("of which the newest is taken" in outcome.summary) is (len(change.get("default_classes", ())) > 1)


def test_webhooks_are_read_with_who_answers_them() -> None:
    hook = {
        "name": "a",
        "clientConfig": {"service": {"namespace": "kueue-system", "name": "hooks"}, "caBundle": "QUJDREVGRw=="},
    }
    configurations = [
        {"metadata": {"name": "c"}, "webhooks": [
            hook,
            {**hook, "name": "b", "failurePolicy": "Ignore",
             "clientConfig": {"service": {"namespace": "kueue-system", "name": "gone"}, "caBundle": "Cg=="}},
            {"name": "strangers", "clientConfig": {"service": {"namespace": "other", "name": "x"}}},
            {"name": "outside", "clientConfig": {"url": "https://hooks.example"}},
        ]},
    ]  # fmt: skip
    slices = [
        {"metadata": {"namespace": "kueue-system", "labels": {"kubernetes.io/service-name": "hooks"}},
         "endpoints": [{"conditions": {"ready": True}}, {"conditions": {"ready": False}}, {}]},
        {"metadata": {"namespace": "kueue-system", "labels": {"kubernetes.io/service-name": "gone"}},
         "endpoints": None},
    ]  # fmt: skip
    first, second = webhooks_of(configurations, ["kueue-system"], ready_endpoints(slices))
    assert (first.ready, first.strict, first.has_ca) == (2, True, True)
    assert (second.name, second.ready, second.strict, second.has_ca) == ("b", 0, False, False)


def test_conditions_classes_and_claims_are_read() -> None:
    status = {"conditions": [{"type": "Programmed", "status": "False", "message": "no address"}]}
    made = {"metadata": {"name": "gw", "namespace": "edge"}, "spec": {"gatewayClassName": "x"}, "status": status}
    assert condition_of(made, "Programmed") == Condition(
        name="edge/gw", status="False", message="no address", of_class="x"
    )
    assert condition_of({"metadata": {"name": "c"}}, "Accepted").status == ""
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    classes = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b", "annotations": mark}}]
    assert default_classes(classes) == ("b",)
    item = {
        "metadata": {"name": "d", "namespace": "m"},
        "spec": {"storageClassName": "b"},
        "status": {"phase": "Pending"},
    }
    assert volume_claim(item, ["b"]) == VolumeClaim(name="m/d", phase="Pending", storage_class="b", waits_for_pod=True)


class _Server:
    """Answers to the creation of an object that must be refused."""

    def __init__(self, said: str) -> None:
        self.said, self.asked = said, []  # type: tuple[str, list[tuple[str, str, bool]]]

    def served_versions(self, group: str) -> tuple[str, ...]:
        return ("v1beta2",) if group == "kueue.x-k8s.io" else ()

    def kind(self, api_version: str, kind: str) -> Kind:
        return Kind(api_version, kind, f"{kind.lower()}s", namespaced=False)

    def create(self, kind: Kind, body: dict[str, Any], namespace: str, *, dry_run: bool) -> dict[str, Any]:
        self.asked.append((body["apiVersion"], namespace, dry_run))
        if self.said:
            raise ForbiddenError("create", self.said)
        return body


@pytest.mark.parametrize("said", ["", 'admission webhook "vclusterqueue.kb.io" denied the request'])
def test_what_must_be_refused_is_only_asked_for(said: str) -> None:
    server = _Server(said)
    facts = stack_facts().controllers["kueue"]
    found = observe_platform._tried(cast(Cluster, server), "kueue", facts)
    assert server.asked == [("kueue.x-k8s.io/v1beta2", "", True)]
    assert (found.accepted, found.said) == (not said, said)


def test_a_group_that_is_not_served_refuses_nothing() -> None:
    found = observe_platform._tried(cast(Cluster, _Server("")), "t", stack_facts().controllers["kubeflow-trainer"])
    assert not found.accepted and "not served" in found.said
