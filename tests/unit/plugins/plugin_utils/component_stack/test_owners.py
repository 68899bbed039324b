# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installations that are not ours: recognised by what they run and register, told with their owner, treated as told."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Release
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.installation import Installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    Action,
    Component,
    Step,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.owners import (
    Existing,
    Objects,
    existing_of,
    is_known,
    leftover_crds,
    marks,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan, policies_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

COMPONENT = Component(
    name="cert-manager", namespace="cert-manager", chart="jetstack/cert-manager", version="v1.20.2", source=""
)
APPLICATIONS = "applications.argoproj.io"


def _helm(name: str, namespace: str) -> dict[str, str]:
    return {"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace}


def _workload(image: str = "quay.io/jetstack/cert-manager-controller:v1.19.0", **metadata: Any) -> dict[str, Any]:
    where = {"name": "cm", "namespace": "security", **metadata}
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": where, "spec": spec}


# What each owner leaves on an object: metadata, release that helm lists, and the words that name the owner.
OWNERS: dict[str, tuple[dict[str, Any], str, str]] = {
    "helm, our name": (
        {"namespace": "cert-manager", "annotations": _helm("cert-manager", "cert-manager")},
        "cert-manager/cert-manager",
        "helm release cert-manager/cert-manager",
    ),
    "helm, another name": (
        {"annotations": _helm("certs", "security")},
        "security/certs",
        "helm release security/certs",
    ),
    "argo cd": (
        {"annotations": {"argocd.argoproj.io/tracking-id": "certs:apps/Deployment:security/cm"}},
        "",
        "Argo CD Application certs",
    ),
    "argo cd by label": ({"labels": {"app.kubernetes.io/instance": "certs"}}, "", "Argo CD Application certs"),
    "flux": (
        {
            "namespace": "cert-manager",
            "labels": {"helm.toolkit.fluxcd.io/name": "certs", "helm.toolkit.fluxcd.io/namespace": "flux-system"},
            "annotations": _helm("cert-manager", "cert-manager"),
        },
        "cert-manager/cert-manager",
        "Flux HelmRelease flux-system/certs",
    ),
    "olm": (
        {
            "labels": {"olm.owner": "cert-manager.v1.19.0", "olm.owner.kind": "ClusterServiceVersion"},
            "ownerReferences": [{"kind": "ClusterServiceVersion", "name": "cert-manager.v1.19.0", "controller": True}],
        },
        "",
        "Operator Lifecycle Manager, ClusterServiceVersion cert-manager.v1.19.0",
    ),
    "eks add-on": ({"managedFields": [{"manager": "eks", "operation": "Apply"}]}, "", "EKS add-on cm"),
    "addon manager": ({"labels": {"addonmanager.kubernetes.io/mode": "Reconcile"}}, "", "add-on of the cluster's"),
    "nobody": ({"namespace": "cert-manager"}, "", "somebody without a mark"),
}
RECONCILING = ("argo cd", "argo cd by label", "flux", "olm", "eks add-on", "addon manager")


def _installed(owner: str) -> Installed:
    metadata, key, _words = OWNERS[owner]
    crds = frozenset({APPLICATIONS} if owner == "argo cd by label" else ())
    found = existing_of("cert-manager", Objects(workloads=(_workload(**metadata),), crds=crds), ())
    assert found is not None, "not recognised"
    namespace, _slash, name = key.partition("/")
    releases = {key: Release(name, namespace, 1, "deployed", "cert-manager", "v1.19.0")} if key else {}
    return Installed(releases=releases, existing={"cert-manager": found})


def _step(owner: str, policies: dict[str, str]) -> Step:
    return make_plan([COMPONENT], _installed(owner), policies=policies).steps[0]


@pytest.mark.parametrize("owner", OWNERS)
def test_an_installation_is_refused_with_its_owner_and_the_choice(owner: str) -> None:
    step = _step(owner, {})
    assert step.action is Action.REFUSE
    assert OWNERS[owner][2] in step.reason and "v1.19.0" in step.reason
    assert "gpufleet_gpu_stack_foreign: {cert-manager: use}" in step.hint and "; or " in step.hint


@pytest.mark.parametrize("owner", OWNERS)
def test_an_installation_is_used_with_its_version_told(owner: str) -> None:
    step = _step(owner, {"cert-manager": "use"})
    assert step.action is Action.FOREIGN and not step.action.changes
    assert step.owner.startswith(OWNERS[owner][2]) and step.found_version == "v1.19.0"
    assert step.workloads == _installed(owner).existing["cert-manager"].workloads != ()
    assert "the recipe wants v1.20.2" in step.reason


@pytest.mark.parametrize("owner", OWNERS)
def test_an_installation_is_adopted_only_where_nobody_undoes_it_and_none_is_left_beside_ours(owner: str) -> None:
    step = _step(owner, {"cert-manager": "adopt"})
    assert step.action is (Action.ADOPT if owner in ("helm, our name", "nobody") else Action.REFUSE)
    assert step.take_over
    if owner in RECONCILING:
        assert "would undo" in step.reason and "first" in step.hint
    if owner == "helm, another name":
        assert "under another name" in step.reason and "helm uninstall" in step.hint


def test_what_nobody_owns_in_another_namespace_is_not_adopted() -> None:
    found = existing_of("cert-manager", Objects(workloads=(_workload(),)), ())
    assert found is not None
    plan = make_plan([COMPONENT], Installed(existing={"cert-manager": found}), policies={"cert-manager": "adopt"})
    assert plan.steps[0].action is Action.REFUSE


def test_ours_and_what_operators_make_is_no_foreign_installation() -> None:
    ours = _workload(annotations=_helm("cert-manager", "cert-manager"))
    assert existing_of("cert-manager", Objects(workloads=(ours,)), ["cert-manager/cert-manager"]) is None
    applied = _workload(labels={MANAGED_BY_LABEL: MANAGED_BY})
    operand = _workload(ownerReferences=[{"kind": "CertManager", "name": "cluster", "controller": True}])
    assert existing_of("cert-manager", Objects(workloads=(applied, operand)), ()) is None


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("cert-manager-controller", True),
        ("registry.lab:5000/mirror/jetstack/cert-manager-controller:v1@sha256:ab", True),
        ("quay.io/lab/my-cert-manager-controller:v1", False),
        ("quay.io/jetstack/cert-manager-webhook:v1", False),
    ],
)
def test_controllers_are_told_by_their_image_wherever_it_is_mirrored(image: str, found: bool) -> None:
    assert (existing_of("cert-manager", Objects(workloads=(_workload(image),)), ()) is not None) is found


def test_webhooks_and_api_services_make_an_installation_and_definitions_alone_do_not() -> None:
    hook: dict[str, Any] = {
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "x", "annotations": _helm("queues", "batch")},
        "webhooks": [{"name": "vclusterqueue.kb.io"}],
    }
    found = existing_of("kueue", Objects(registered=(hook,)), ())
    assert found == Existing(
        owner="helm release batch/queues", reconciles=False, release="batch/queues",
        leave=next(mark.leave for mark in marks().owners if mark.id == "helm"),
        seen=("ValidatingWebhookConfiguration x",),
    )  # fmt: skip
    service = {"kind": "APIService", "metadata": {"name": "v1beta1.custom.metrics.k8s.io"}}
    assert existing_of("prometheus-adapter", Objects(registered=(service,)), ()) is not None
    assert is_known(service) and not is_known({"kind": "APIService", "metadata": {"name": "v1."}})
    left = Objects(crds=frozenset({"clusterqueues.kueue.x-k8s.io"}))
    assert existing_of("kueue", left, ()) is None
    component = Component(name="kueue", namespace="kueue-system", chart="kueue", version="0.1.0", source="")
    plan = make_plan([component], Installed(leftovers={"kueue": leftover_crds("kueue", left)}))
    assert plan.steps[0].action is Action.INSTALL
    assert "earlier installation" in plan.steps[0].reason


def test_the_instance_label_of_a_chart_is_no_mark_of_argo_cd() -> None:
    workload = _workload(labels={"app.kubernetes.io/instance": "certs"}, annotations=_helm("certs", "security"))
    found = existing_of("cert-manager", Objects(workloads=(workload,), crds=frozenset({APPLICATIONS})), ())
    assert found is not None and found.owner == "helm release security/certs"


@pytest.mark.parametrize(
    ("adopt", "foreign", "says"),
    [
        ([], {"cert-manager": "keep"}, "adopt, use, refuse"),
        ([], {"cert": "use"}, "no component of the recipe"),
        (["cert-manager"], {"cert-manager": "use"}, "adopt names it too"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(adopt: list[str], foreign: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        policies_of([COMPONENT], adopt, foreign)


def test_the_list_to_adopt_is_the_short_form_of_a_policy() -> None:
    assert policies_of([COMPONENT], ["cert-manager"], {}) == {"cert-manager": "adopt"}
