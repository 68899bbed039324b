# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenShift: operators come from OperatorHub by OLM, and the driver has a DaemonSet for each version of the system."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import (
    ClusterState,
    ComponentState,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.kube_objects import operand_states
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.promised import Promised
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status

from .conftest import changed_operand, context, judged, recipe, workload

OLM, POLICY = "gpu-operator-ocp-olm", "gpu-operator-ocp"
DRIVER = "nvidia-driver-daemonset-416.94.202407030122-0"


def _recipe() -> dict[str, Any]:
    """The recipe with the subscription and the policy in the place of the operator's chart."""
    found = recipe()
    first = {**found["componentRefs"][0], "version": ""}
    others = found["componentRefs"][1:]
    others[0]["dependencyRefs"] = [POLICY]
    found["componentRefs"] = [{**first, "name": OLM}, {**first, "name": POLICY, "dependencyRefs": [OLM]}, *others]
    found["deploymentOrder"] = [OLM, POLICY, *found["deploymentOrder"][1:]]
    return found


def _openshift(view: ClusterState) -> ClusterState:
    namespace = "nvidia-gpu-operator"
    promised = (Promised(kind="Deployment", name="gpu-operator", namespace=namespace),)
    components = (
        ComponentState(name=OLM, release=f"{namespace}/{OLM}", status="deployed", ours=True, promised=promised),
        ComponentState(name=POLICY, release=f"{namespace}/{POLICY}", status="deployed", ours=True, promised=()),
    )
    operator = workload("gpu-operator", f"{namespace}/{OLM}")
    others = tuple(entry for entry in view.workloads or () if entry.name != "gpu-operator-main")
    driver = workload(DRIVER, "", "DaemonSet", 4)
    operands = tuple(o.workload for o in view.operands or () if o.workload.app != "nvidia-driver-daemonset")
    return replace(
        view,
        components=(*components, *(view.components or ())[1:]),
        workloads=(operator, *others, driver, *operands),
        operands=operand_states((driver, *operands), stack_facts().operands),
    )


def _told(view: ClusterState) -> list[Outcome]:
    return [o for o in judged(view, context(recipe=_recipe())) if o.status is not Status.PASSED]


def test_a_healthy_cluster_passes(view: ClusterState) -> None:
    assert _told(_openshift(view)) == []


def test_the_driver_is_an_operand_whatever_version_its_name_ends_with(view: ClusterState) -> None:
    there = _openshift(view)
    assert next(operand.title for operand in there.operands or ()) == "driver"
    crash = {"state": "failed", "cause": "pod-crash-looping", "reason": "CrashLoopBackOff", "ready": 3}
    broken = changed_operand(there, "nvidia-driver-daemonset", **crash, nodes=("gpu02",))
    failed = [o for o in _told(broken) if o.status is Status.FAILED]
    assert [(o.check, o.cause) for o in failed] == [("cluster-policy-ready", "operand-not-ready")]
    assert "driver on gpu02" in failed[0].summary


@pytest.mark.parametrize("name", [OLM, POLICY])
def test_what_follows_from_an_operator_that_olm_did_not_install_waits_for_it(view: ClusterState, name: str) -> None:
    there = _openshift(view)
    sick = tuple(replace(c, status="failed") if c.name == name else c for c in there.components or ())
    told = {outcome.check: outcome for outcome in _told(replace(there, components=sick, cluster_policies=()))}
    assert told["component-health"].status is Status.FAILED
    assert told["cluster-policy-ready"].blocked_by == "component-health"
    assert name in told["cluster-policy-ready"].summary


def test_a_daemonset_of_somebody_else_with_such_a_name_is_no_operand(view: ClusterState) -> None:
    other = workload("mine", "", "DaemonSet", 4, app="nvidia-driver-daemonset-mine")
    assert operand_states((other,), stack_facts().operands) == ()
