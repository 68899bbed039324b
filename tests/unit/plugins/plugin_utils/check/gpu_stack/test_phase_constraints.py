# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Constraints below `validation.deployment` and `.conformance`, after the components were installed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import recipe_constraints
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import ClusterState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.recipe.sections import PHASE_CONSTRAINTS

from .conftest import VERSIONS, changed_component, changed_node, context, recipe, site

OPERATOR, DRIVER = "Deployment.gpu-operator.version", "Deployment.gpu-driver.version"
# Labels of GPU Feature Discovery.
LABELS = {"nvidia.com/cuda.driver-version.full": "580.95.05"}


def judged(
    view: ClusterState, name: str, value: str, phase: str = "deployment", capable: bool = True
) -> tuple[Outcome, ...]:
    found = site()
    if capable:
        found = replace(found, capabilities=(*found.capabilities, PHASE_CONSTRAINTS))
    stated = recipe(validation={phase: {"constraints": [{"name": name, "value": value}]}})
    return recipe_constraints.judge(view, context(site=found, recipe=stated))


def labelled(view: ClusterState, **more: Any) -> ClusterState:
    return replace(view, nodes=tuple(replace(node, **{"labels": LABELS, **more}) for node in view.nodes or ()))


@pytest.mark.parametrize(
    ("name", "value", "phase", "status"),
    [
        (OPERATOR, ">= v1.0.0", "deployment", Status.PASSED),
        (OPERATOR, ">= v99.1.0", "deployment", Status.FAILED),
        (DRIVER, ">= 580.65", "deployment", Status.PASSED),
        (DRIVER, ">= 590", "deployment", Status.FAILED),
        ("K8s.server.version", ">= 1.32", "conformance", Status.PASSED),
        ("K8s.server.version", ">= 1.99", "conformance", Status.FAILED),
        # Only a snapshot with the hosts says it.
        ("OS.kmod.nouveau", "false", "deployment", Status.OTHER),
    ],
)
def test_what_the_sections_demand_is_judged(
    name: str, value: str, phase: str, status: Status, view: ClusterState
) -> None:
    (outcome,) = judged(labelled(view), name, value, phase)
    assert outcome.status is status and (status is not Status.FAILED or outcome.cause == "constraint-not-met")


LABEL, TAINTS, COUNT = (
    "NodeTopology.gpu-nodes.label", "NodeTopology.summary.taint-count", "NodeTopology.summary.label-count",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        (LABEL, "nvidia.com/cuda.driver-version.full=580.95.05", Status.PASSED),
        (LABEL, "!nvidia.com/cuda.driver-version.full", Status.FAILED),
        (LABEL, "!nvidia.com/mig.config", Status.PASSED),
        # The gate keeps no labels of a site: that there is none says nothing.
        (LABEL, "!example.com/maintenance", Status.OTHER),
        (LABEL, "example.com/pool=gpu", Status.OTHER),
        (TAINTS, "<= 1", Status.PASSED),
        (TAINTS, "0", Status.FAILED),
        (COUNT, "<= 1000", Status.OTHER),
    ],
)
def test_what_the_gate_keeps_only_a_part_of_is_no_pass(
    name: str, value: str, status: Status, view: ClusterState
) -> None:
    (outcome,) = judged(labelled(view, taints=("example.com/gpu=:NoSchedule",)), name, value)
    assert outcome.status is status


def test_one_node_with_an_older_driver_is_named_and_one_that_says_none_is_no_pass(view: ClusterState) -> None:
    old = changed_node(labelled(view), "gpu02", labels={"nvidia.com/cuda.driver-version.full": "535.1"})
    (outcome,) = judged(old, DRIVER, ">= 580")
    assert outcome.status is Status.FAILED and "gpu02=535.1" in outcome.summary
    (outcome,) = judged(changed_node(labelled(view), "gpu02", labels={}), DRIVER, ">= 580")
    assert outcome.status is Status.OTHER and "gpu02" in outcome.summary


def test_an_operator_whose_version_nobody_says_is_no_pass(view: ClusterState) -> None:
    silent = replace(view, components=tuple(replace(entry, version="") for entry in view.components or ()))
    (outcome,) = judged(silent, OPERATOR, ">= v24.6.0")
    assert outcome.status is Status.OTHER and "gpu-operator" in VERSIONS


@pytest.mark.parametrize("status", ["failed", "pending-upgrade", "uninstalling", "uninstalled"])
def test_a_release_that_did_not_come_into_force_says_no_version(status: str, view: ClusterState) -> None:
    """Helm lists the revision that it tried last, and what runs may be that of before."""
    (outcome,) = judged(changed_component(view, "gpu-operator", status=status), OPERATOR, ">= v1.0.0")
    assert outcome.status is Status.OTHER


def test_a_run_of_before_they_were_judged_is_judged_as_it_was(view: ClusterState) -> None:
    (outcome,) = judged(view, OPERATOR, ">= v99", capable=False)
    assert outcome.status is Status.PASSED


def test_a_name_that_nothing_measures_is_other(view: ClusterState) -> None:
    (outcome,) = judged(view, "Deployment.gpu-operator.versoin", ">= v24")
    assert (outcome.status, outcome.cause) == (Status.OTHER, "constraint-unmeasured")
    assert "Did you mean 'Deployment.gpu-operator.version'" in outcome.summary
