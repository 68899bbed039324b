# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done about each component, and which recipes are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Release
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.installation import Installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    DIGEST_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    REVISION_LABEL,
    Action,
    Component,
    components_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.tell import plan_diff
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import ProblemsError

COMPONENT = Component(
    name="operator", namespace="system", chart="vendor/op", version="v1.2.0", source="", values={"a": 1}
)
RELEASE = Release("operator", "system", 1, "deployed", "op", "v1.2.0")
OURS = {MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: COMPONENT.digest}


@pytest.mark.parametrize(
    ("release", "labels", "more", "action"),
    [
        (None, {}, {}, Action.INSTALL),
        (RELEASE, OURS, {}, Action.UNCHANGED),
        (RELEASE, {**OURS, DIGEST_LABEL: "other"}, {}, Action.UPGRADE),
        (replace(RELEASE, chart_version="v1.1.9"), OURS, {}, Action.UPGRADE),
        # Chart.yaml says it without the v that the recipe writes, or with another build of it.
        (replace(RELEASE, chart_version="1.2.0"), OURS, {}, Action.UNCHANGED),
        (replace(RELEASE, chart_version="1.2.0-rc.1"), OURS, {}, Action.UPGRADE),
        (replace(RELEASE, chart_version=""), OURS, {}, Action.UPGRADE),
        (replace(RELEASE, status="failed"), OURS, {}, Action.UPGRADE),
        (replace(RELEASE, chart_version="v1.3.0"), OURS, {}, Action.DOWNGRADE),
        (replace(RELEASE, chart_version="v1.3.0"), OURS, {"allow_downgrade": True}, Action.UPGRADE),
        (replace(RELEASE, status="pending-upgrade"), OURS, {}, Action.PENDING),
        (replace(RELEASE, status="uninstalling"), OURS, {}, Action.PENDING),
        # Ours, since we announced that revision; a hand that came after us kept the label of the one before.
        (replace(RELEASE, status="pending-upgrade", revision=4), {**OURS, REVISION_LABEL: "4"}, {}, Action.RECOVER),
        (replace(RELEASE, status="pending-install"), {**OURS, REVISION_LABEL: "1"}, {}, Action.RECOVER),
        (replace(RELEASE, status="pending-upgrade", revision=5), {**OURS, REVISION_LABEL: "4"}, {}, Action.PENDING),
        (replace(RELEASE, status="pending-upgrade"), {REVISION_LABEL: "1"}, {}, Action.PENDING),
        (RELEASE, {}, {}, Action.REFUSE),
        (RELEASE, {}, {"policies": {"operator": "use"}}, Action.FOREIGN),
        (RELEASE, {}, {"policies": {"operator": "adopt"}}, Action.ADOPT),
        (replace(RELEASE, chart_version="v1.3.0"), {}, {"policies": {"operator": "adopt"}}, Action.DOWNGRADE),
        (replace(RELEASE, name="somebody", namespace="elsewhere"), {}, {}, Action.REFUSE),
        (
            replace(RELEASE, name="somebody", namespace="elsewhere"),
            {},
            {"policies": {"operator": "use"}},
            Action.FOREIGN,
        ),
        (replace(RELEASE, name="other", namespace="b"), {}, {"policies": {"operator": "adopt"}}, Action.REFUSE),
        # Ours under another name: whatever the policy says, a second one is not put beside it.
        (replace(RELEASE, name="old"), OURS, {"policies": {"operator": "use"}}, Action.REFUSE),
    ],
)
def test_action(release: Release | None, labels: dict[str, str], more: dict[str, Any], action: Action) -> None:
    key = f"{release.namespace}/{release.name}" if release else ""
    installed = Installed(releases={key: release} if release else {}, labels={key: labels})
    plan = make_plan([COMPONENT], installed, **more)
    assert plan.steps[0].action is action
    assert plan.changes is action.changes
    if action.refused:
        assert plan.steps[0].hint


def test_the_digest_follows_values_and_version_only() -> None:
    assert COMPONENT.digest == replace(COMPONENT, chart="other-alias/op", namespace="x").digest
    assert COMPONENT.digest != replace(COMPONENT, values={"a": 2}).digest
    assert COMPONENT.digest != replace(COMPONENT, version="v1.2.1").digest


def test_the_diff_shows_only_what_changes() -> None:
    told = plan_diff(make_plan([COMPONENT], Installed()))
    assert (told["before"], told["after"]) == ("operator absent\n", "operator v1.2.0\n")
    same = plan_diff(
        make_plan([COMPONENT], Installed(releases={"system/operator": RELEASE}, labels={"system/operator": OURS}))
    )
    assert same["before"] == same["after"]


def _ref(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "n", "version": "1.0.0", "dependencyRefs": list(needs), **more}


def test_components_come_in_deployment_order() -> None:
    found = components_of({"componentRefs": [_ref("b", "a"), _ref("a")], "deploymentOrder": ["a", "b"]})
    assert [component.name for component in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("refs", "order", "says"),
    [
        ([], [], "no components"),
        ([_ref("a", "b"), _ref("b", "a")], ["a", "b"], "cycle"),
        ([_ref("a", "gone")], ["a"], "depends on gone"),
        ([_ref("a")], ["a", "b"], "deploymentOrder"),
        ([_ref("a"), _ref("b")], ["a"], "deploymentOrder"),
        ([_ref("a", version="")], ["a"], "lacks version"),
        ([_ref("a", type="Kustomize")], ["a"], r"component a: is of type Kustomize and was not built.*preflight"),
    ],
)
def test_a_recipe_that_cannot_be_installed_is_refused(refs: list[Any], order: list[str], says: str) -> None:
    with pytest.raises(ProblemsError, match=says):
        components_of({"componentRefs": refs, "deploymentOrder": order})
