# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken away, in which order, and what stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Release
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.installation import Installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    REVISION_LABEL,
    Component,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.removal import (
    Holdings,
    Ref,
    Removal,
    custom_refs,
    definitions_in,
    plan_removal,
    removable_namespaces,
    removal_diff,
    removal_lines,
    removal_rows,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.remove import (
    Gone,
    gone_lines,
    removal_failure,
)

OURS = {MANAGED_BY_LABEL: MANAGED_BY}
POLICY = Ref(api_version="nvidia.com/v1", kind="ClusterPolicy", name="cluster-policy")


def _component(name: str, *needs: str) -> Component:
    return Component(name=name, namespace=f"{name}-system", chart=name, version="1.0.0", source="", depends_on=needs)


COMPONENTS = (_component("certs"), _component("operator", "certs"), _component("dra", "operator"))


def _installed(**status: str) -> Installed:
    names = {component.name: component for component in COMPONENTS}
    releases = {
        names[name].release: Release(name, names[name].namespace, 1, word, name, "1.0.0")
        for name, word in status.items()
    }
    return Installed(releases=releases, labels=dict.fromkeys(releases, OURS))


def _plan(found: Installed, holdings: dict[str, Holdings] | None = None, **more: bool) -> dict[str, Removal]:
    return {entry.component: entry for entry in plan_removal(COMPONENTS, found, holdings or {}, **more)}


def test_components_go_backwards_and_wait_for_what_needs_them() -> None:
    plan = _plan(_installed(certs="deployed", operator="failed", dra="uninstalling"))
    assert list(plan) == ["dra", "operator", "certs"]
    assert {entry.action for entry in plan.values()} == {"remove"}
    assert (plan["certs"].depends_on_it, plan["dra"].depends_on_it) == (("operator",), ())


def test_what_is_not_there_or_not_ours_is_left_alone() -> None:
    found = _installed(operator="deployed")
    assert _plan(found)["dra"].action == "absent"
    found = replace(found, labels={})
    entry = _plan(found, {"operator": Holdings(custom=(POLICY,))})["operator"]
    assert (entry.action, entry.custom, entry.release) == ("foreign", (), "")


def test_a_release_of_ours_that_the_recipe_has_no_more_goes_first() -> None:
    found = _installed(certs="deployed")
    old = Release("old", "old-system", 3, "deployed", "old", "0.9.0")
    found = replace(
        found,
        releases={**found.releases, "old-system/old": old},
        labels={**found.labels, "old-system/old": OURS},
    )
    first = plan_removal(COMPONENTS, found, {})[0]
    assert (first.component, first.action, first.release) == ("old", "remove", "old-system/old")


@pytest.mark.parametrize(
    ("status", "labels", "action"),
    [
        ("pending-upgrade", OURS, "refuse"),
        ("pending-upgrade", {**OURS, REVISION_LABEL: "1"}, "remove"),
        ("uninstalling", OURS, "remove"),
        ("failed", OURS, "remove"),
        ("superseded", OURS, "remove"),
    ],
)
def test_a_release_on_which_another_helm_works_is_not_touched(status: str, labels: dict[str, str], action: str) -> None:
    found = _installed(certs=status)
    entry = _plan(replace(found, labels={"certs-system/certs": labels}))["certs"]
    assert entry.action == action
    assert bool(entry.hint) is (action == "refuse")


def test_definitions_stay_unless_they_are_asked_for() -> None:
    have = {"operator": Holdings(crds=("a.nvidia.com",), strangers={"a.nvidia.com": 2})}
    found = _installed(operator="deployed")
    kept, gone = _plan(found, have)["operator"], _plan(found, have, remove_crds=True)["operator"]
    assert (kept.crds, gone.crds) == ((), ("a.nvidia.com",))
    assert "2 of a.nvidia.com" in kept.reason and "stay" in kept.reason
    assert "2 of a.nvidia.com" in gone.reason and "go with" in gone.reason


def test_definitions_that_helm_would_take_are_kept_unless_they_are_asked_for() -> None:
    have = {"certs": Holdings(crds=("c.io",), strangers={"c.io": 7})}
    found = _installed(certs="deployed")
    kept, asked = _plan(found, have)["certs"], _plan(found, have, remove_crds=True)["certs"]
    assert (kept.action, kept.keeps_crds, kept.crds) == ("remove", True, ())
    assert (asked.action, asked.keeps_crds, asked.crds) == ("remove", False, ("c.io",))
    # Which it has is not known of a release that the recipe does not name.
    old = Release("old", "old-system", 3, "deployed", "old", "0.9.0")
    found = replace(found, releases={"old-system/old": old}, labels={"old-system/old": OURS})
    assert plan_removal(COMPONENTS, found, {}, remove_crds=True)[0].keeps_crds


def test_manifests_without_a_release_are_removed_and_shown() -> None:
    have = {"operator": Holdings(custom=(POLICY,), before=(Ref(api_version="v1", kind="ConfigMap", name="c"),))}
    plan = plan_removal(COMPONENTS, Installed(), have)
    entry = next(entry for entry in plan if entry.component == "operator")
    assert (entry.action, entry.release) == ("remove", "")
    told = removal_diff(plan, ["operator-system"])
    assert told["before"].splitlines() == [
        "operator: ClusterPolicy cluster-policy", "operator: ConfigMap c", "Namespace operator-system",
    ]  # fmt: skip
    assert told["after"] == ""
    assert removal_rows([entry])[0]["objects"] == ["ClusterPolicy cluster-policy", "ConfigMap c"]


def test_namespaces_of_the_cluster_and_of_what_stays_are_kept() -> None:
    components = (*COMPONENTS, replace(_component("x"), namespace="kube-system"))
    components = (*components, replace(_component("y"), namespace="default"))
    plan = plan_removal(components, replace(_installed(dra="deployed"), labels={}), {})
    assert removable_namespaces(plan, components) == ("certs-system", "operator-system")


def test_custom_resources_are_told_by_the_definitions_and_what_helm_keeps_is_kept() -> None:
    keep = {"helm.sh/resource-policy": "keep"}
    bodies: list[dict[str, Any]] = [
        {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}},
        {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "kept", "annotations": keep}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "operator"}},
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.io"}},
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "kept.io", "annotations": keep},
        },
    ]
    assert [ref.name for ref in custom_refs(bodies, {"nvidia.com"}, "ns")] == ["cluster-policy"]
    assert definitions_in(bodies) == ("a.io",)


def test_the_error_names_what_blocks_and_not_what_waits_for_it() -> None:
    assert removal_failure([Gone(component="a", state="removed"), Gone(component="b", state="kept")]) is None
    gone = [Gone(component="a", state="waiting"), Gone(component="b", state="blocked", reason="held", hint="h")]
    error = removal_failure(gone)
    assert error is not None and error.subject == "component b" and error.hint == "h"


def test_the_last_lines_say_what_goes_and_what_stays() -> None:
    found = _installed(certs="deployed", operator="deployed")
    have = {"certs": Holdings(crds=("c.io",), strangers={"c.io": 7})}
    plan = plan_removal(COMPONENTS, found, have)
    lines = removal_lines(plan, ["certs-system"])
    assert lines[0] == "would go operator, certs, namespace certs-system"
    assert "7 of c.io" in lines[1] and "-e gpufleet_remove_crds=true" in lines[2]
    gone = [Gone(component="operator", state="removed"), Gone(component="certs", state="removed")]
    assert gone_lines(plan, gone) == ["removed  operator, certs", *lines[1:]]
    asked = plan_removal(COMPONENTS, found, have, remove_crds=True)
    assert not any(line.startswith("stays") for line in gone_lines(asked, gone))
    nothing = plan_removal(COMPONENTS, Installed(), {})
    assert removal_lines(nothing, []) == ["would go nothing"]
    assert gone_lines(nothing, [Gone(component="certs", state="absent")]) == ["removed  nothing: none of it was there"]
