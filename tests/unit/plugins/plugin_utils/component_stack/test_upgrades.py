# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is recorded about upgrades reaches the plan, in both directions; every state of a release has a way out."""

from __future__ import annotations

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
    Step,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import (
    Crossing,
    crossing_of,
    make_plan,
    upgrade_rules,
)

OPERATOR = "nodewright-operator"


def _step(name: str, found: str, wanted: str, status: str = "deployed", revision: int = 2, **more: Any) -> Step:
    component = Component(name=name, namespace="ns", chart=name, version=wanted, source="")
    labels = {MANAGED_BY_LABEL: MANAGED_BY, DIGEST_LABEL: component.digest, REVISION_LABEL: str(more.pop("made", 2))}
    release = Release(name, "ns", revision, status, name, found)
    installed = Installed(releases={f"ns/{name}": release}, labels={f"ns/{name}": labels})
    return make_plan([component], installed, **more).steps[0]


@pytest.mark.parametrize(
    ("found", "wanted", "skipped"),
    [
        ("v1.17.2", "v1.20.2", ("1.18", "1.19")),
        ("v1.19.4", "v1.20.2", ()),
        ("v1.20.0", "v1.20.2", ()),
        ("v1.20.2", "v1.17.2", ()),
        ("unknown", "v1.20.2", ()),
    ],
)
def test_minor_versions_between_are_found_on_the_way_up(found: str, wanted: str, skipped: tuple[str, ...]) -> None:
    assert crossing_of("cert-manager", found, wanted).skipped == skipped


@pytest.mark.parametrize(
    ("found", "wanted", "skipped"),
    [
        ("v25.3.4", "v26.7.0", ("25.10", "26.3")),
        ("v25.10.1", "v26.3.0", ()),
        ("v26.3.0", "v26.3.2", ()),
        ("v26.7.0", "v25.3.4", ()),
        # A release that is not listed yet is the next one.
        ("v26.7.0", "v27.1.0", ()),
        ("v26.3.0", "v27.1.0", ("26.7",)),
    ],
)
def test_releases_named_by_month_are_gone_through_one_by_one(found: str, wanted: str, skipped: tuple[str, ...]) -> None:
    assert crossing_of("gpu-operator", found, wanted).skipped == skipped
    step = _step("gpu-operator", found, wanted, allow_downgrade=True)
    assert (step.action is Action.SKIPS) is bool(skipped)
    if skipped:
        assert ", then ".join(skipped) in step.hint and "life cycle" in step.reason


@pytest.mark.parametrize("name", ["slinky-slurm-operator-crds", "slinky-slurm-operator", "slinky-slurm"])
@pytest.mark.parametrize(
    ("found", "wanted", "removed"),
    [
        ("0.4.1", "1.2.0", True),
        ("0.3.0", "0.4.1", True),
        ("1.2.0", "0.4.1", True),
        ("0.4.0", "0.4.1", False),
        ("1.0.3", "1.2.0", False),
    ],
)
def test_what_breaks_between_versions_is_removed_first(name: str, found: str, wanted: str, removed: bool) -> None:
    step = _step(name, found, wanted, allow_downgrade=True, allow_skipped_minors=True)
    assert (step.action is Action.SKIPS) is removed
    assert ("playbook remove" in step.hint) is removed
    if removed:
        assert step.action.refused and "SlinkyProject/slurm-operator" in step.reason


def test_a_skipped_minor_version_is_refused_with_those_between_unless_it_is_allowed() -> None:
    step = _step("cert-manager", "v1.17.2", "v1.20.2")
    assert step.action is Action.SKIPS and step.action.refused and not step.action.changes
    assert "set gpufleet_gpu_stack_allow_skipped_minors" in step.hint
    assert "1.18, then 1.19" in step.hint and "cert-manager/website" in step.reason
    assert _step("cert-manager", "v1.17.2", "v1.20.2", allow_skipped_minors=True).action is Action.UPGRADE
    assert _step("cert-manager", "v1.19.4", "v1.20.2").action is Action.UPGRADE
    assert _step("volcano", "1.10.0", "1.12.0").action is Action.UPGRADE, "no rule is recorded"


@pytest.mark.parametrize(
    ("found", "wanted", "crosses"),
    [
        ("v0.15.1", "v0.19.0", True),
        ("v0.15.1", "v0.16.0", True),
        ("v0.19.0", "v0.15.1", True),
        ("v0.16.0", "v0.19.0", False),
        ("v0.14.0", "v0.15.1", False),
    ],
)
def test_a_workload_whose_selector_changed_is_replaced_whichever_way(found: str, wanted: str, crosses: bool) -> None:
    step = _step(OPERATOR, found, wanted, allow_downgrade=True)
    assert step.action is Action.UPGRADE
    assert bool(step.replaced) is crosses
    assert ("deleted first" in step.reason) is crosses
    if crosses:
        assert "Deployment nodewright-operator-controller-manager" in step.replaced and "#285" in step.reason


def test_what_is_not_changed_or_not_there_crosses_nothing() -> None:
    assert _step(OPERATOR, "v0.19.0", "v0.19.0").replaced == ()
    component = Component(name="cert-manager", namespace="ns", chart="cert-manager", version="v1.20.2", source="")
    assert make_plan([component], Installed()).steps[0].action is Action.INSTALL
    assert crossing_of("volcano", "1.0.0", "1.2.0") == Crossing()


def test_every_rule_says_something_and_names_its_source() -> None:
    for rules in upgrade_rules().components.values():
        for rule in rules:
            says = rule.one_minor_at_a_time or rule.releases or rule.removed_below or (rule.at and rule.replaced)
            assert rule.source and says
            assert all(title.partition(" ")[0] in ("Deployment", "DaemonSet", "StatefulSet") for title in rule.replaced)


@pytest.mark.parametrize(
    ("status", "revision", "made", "action", "says"),
    [
        ("deployed", 2, 2, Action.UNCHANGED, ""),
        ("failed", 1, 1, Action.UPGRADE, "its first installation did not succeed"),
        ("failed", 2, 2, Action.UPGRADE, "its last change did not succeed"),
        ("superseded", 2, 2, Action.UPGRADE, "a helm died after"),
        ("uninstalled", 2, 2, Action.UPGRADE, "its history was kept"),
        ("pending-install", 1, 1, Action.RECOVER, "a run of ours died"),
        ("pending-upgrade", 2, 2, Action.RECOVER, "a run of ours died"),
        ("pending-rollback", 2, 2, Action.RECOVER, "a run of ours died"),
        ("uninstalling", 2, 2, Action.RECOVER, "a run of ours died"),
        ("pending-upgrade", 3, 2, Action.PENDING, "another helm works on it"),
        ("uninstalling", 3, 2, Action.PENDING, "another helm works on it"),
    ],
)
def test_every_state_of_a_release_of_ours_is_recovered_or_explained(
    status: str, revision: int, made: int, action: Action, says: str
) -> None:
    step = _step("volcano", "1.2.0", "1.2.0", status, revision, made=made)
    assert step.action is action
    assert says in step.reason
    assert bool(step.hint) is action.refused
