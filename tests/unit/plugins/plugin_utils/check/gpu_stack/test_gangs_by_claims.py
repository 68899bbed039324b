# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gangs on nodes that give GPUs out by claims alone: what they ask for follows from what the nodes offer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.capacity import slots_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import ClusterState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_cluster import unsettled
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.observe_gang import (
    GangSettings,
    gang_objects,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext, ObserveContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.api_versions import as_served
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.facts import stack_facts
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import (
    NodeCapacity,
    claim_templates,
    gpu_requests,
    node_capacity,
)

from .conftest import NAMES, context, healthy, judged, recipe

SPACE = SimpleNamespace(name="test-gang", priority_class="test-gang", tolerated=[], labels={})
READY = [{"type": "Ready", "status": "True"}]


def _server(*versions: str) -> Any:
    return SimpleNamespace(served_versions=lambda _group: versions)


@pytest.mark.parametrize("provider", ["coscheduling", "kai-scheduler", "native", "volcano"])
@pytest.mark.parametrize("by_dra", [False, True])
def test_gangs_ask_for_gpus_in_the_way_in_which_the_nodes_give_them_out(provider: str, by_dra: bool) -> None:
    room = [NodeCapacity(name=name, total=8, used=0, by_dra=by_dra) for name in ("a", "b", "c")]
    slots = slots_of(room, 4)
    assert slots is not None and (slots.count, slots.gpus, slots.by_dra) == (3, 8, by_dra)
    settings = GangSettings(provider="", nodes=4, queue="", image="", timeout_s=9, settle_s=1, cleanup_s=9)
    facts, space = stack_facts().gangs[provider], cast(Any, SPACE)
    group, *others = gang_objects(space, "gang-a", facts, slots, settings, "q")
    claims, pods = [o for o in others if o["kind"] != "Pod"], [o for o in others if o["kind"] == "Pod"]
    assert len(pods) == slots.gang == 2
    resources = [pod["spec"]["containers"][0]["resources"] for pod in pods]
    if not by_dra:
        assert claims == [] and resources == [{"limits": {"nvidia.com/gpu": 8}}] * 2
        assert not any("resourceClaims" in pod["spec"] for pod in pods)
        return
    (template,) = claims
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    wanted = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 8}
    assert (template["kind"], request) == ("ResourceClaimTemplate", {"name": "gpus", "exactly": wanted})
    assert resources == [{"claims": [{"name": "gpus"}]}] * 2
    for pod in pods:
        asked = {"name": "gpus", "resourceClaimTemplateName": template["metadata"]["name"]}
        assert pod["spec"]["resourceClaims"] == [asked]
    assert "minResources" not in group["spec"], "of the device plugin there is nothing to have"


def test_a_template_of_claims_is_made_in_the_version_of_the_server() -> None:
    """v1beta1 names the class in the request itself (KEP-4381)."""
    (template,) = claim_templates("pair", "ns", {}, gpu_requests("gpu.nvidia.com", 4))
    flat = {"name": "gpus", "deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 4}
    old = as_served(_server("v1beta1"), template)
    assert old["apiVersion"] == "resource.k8s.io/v1beta1"
    assert old["spec"]["spec"]["devices"]["requests"] == [flat]
    assert as_served(_server("v1beta2"), template) == {**template, "apiVersion": "resource.k8s.io/v1beta2"}
    assert as_served(_server("v1", "v1beta1"), template) == template
    job = {"apiVersion": "batch/v1", "kind": "Job"}
    assert as_served(cast(Any, None), job) is job, "nobody is asked about other kinds"


def test_slices_of_gpus_that_are_listed_beside_them_are_no_gpus() -> None:
    kinds = ["gpu", "gpu", "mig", "mig", "vfio"]
    devices = [{"name": str(n), "attributes": {"type": {"string": kind}}} for n, kind in enumerate(kinds)]
    old = [{"name": entry["name"], "basic": {"attributes": entry["attributes"]}} for entry in devices]
    for listed in (devices, old):
        slices = [{"spec": {"driver": "gpu.nvidia.com", "nodeName": "a", "devices": listed}}]
        node = {"metadata": {"name": "a"}, "status": {"conditions": READY, "allocatable": {"nvidia.com/gpu": "0"}}}
        (found,) = node_capacity([node], [], [], slices, {"a"}).values()
        assert (found.total, found.by_dra) == (2, True)


def _by_claims_alone() -> tuple[ClusterState, JudgeContext]:
    """A healthy cluster whose recipe switches the device plugin off."""
    view, refs = healthy(), recipe()
    operator = next(ref for ref in refs["componentRefs"] if ref["name"] == "gpu-operator")
    operator["values"] = {"devicePlugin": {"enabled": False}}
    nodes = tuple(replace(node, allocatable={}) for node in view.nodes or ())
    operands = tuple(entry for entry in view.operands or () if entry.title != "device plugin")
    return replace(view, nodes=nodes, operands=operands), context(recipe=refs)


def test_a_site_that_gives_gpus_out_by_claims_alone_is_healthy() -> None:
    view, given = _by_claims_alone()
    assert {outcome.status for outcome in judged(view, given)} == {Status.PASSED}


@pytest.mark.parametrize(
    ("gpus", "cause"), [(0, "dra-slices-missing"), (1, "dra-device-count-mismatch"), (7, "dra-device-count-mismatch")]
)
def test_a_slice_that_lacks_gpus_is_found_once_and_on_its_node(gpus: int, cause: str) -> None:
    view, given = _by_claims_alone()
    node = NAMES[1]
    slices = [replace(e, gpus=gpus, devices=gpus) if e.node == node else e for e in view.slices or ()]
    outcomes = judged(replace(view, slices=tuple(e for e in slices if e.gpus)), given)
    failed = [outcome for outcome in outcomes if outcome.status is Status.FAILED]
    assert [(o.check, o.cause, o.subjects[0].name) for o in failed] == [("dra-slices", cause, node)]
    waiting = [(o.check, o.blocked_by, o.subjects[0].name) for o in outcomes if o.status is Status.OTHER]
    assert waiting == [("gpu-allocatable", "dra-slices", node)]


def test_a_gate_waits_for_slices_where_no_device_plugin_offers_gpus(tmp_path: Path) -> None:
    view, given = _by_claims_alone()
    look = ObserveContext(site=given.site, run_dir=tmp_path, today=given.today, recipe=given.recipe)
    assert unsettled(view, look) == ""
    hidden = replace(view, slices=tuple(entry for entry in view.slices or () if entry.node != NAMES[0]))
    assert unsettled(hidden, look) == "1 node(s) without DRA slices"
    plugin = replace(look, recipe=recipe())
    assert unsettled(view, plugin) == f"{len(NAMES)} node(s) without allocatable GPUs"


def test_a_gang_of_coscheduling_is_held_together_by_its_label() -> None:
    slots = slots_of([NodeCapacity(name=name, total=8, used=0) for name in ("a", "b", "c")], 4)
    assert slots is not None
    settings = GangSettings(provider="", nodes=4, queue="", image="", timeout_s=9, settle_s=1, cleanup_s=9)
    facts = stack_facts().gangs["coscheduling"]
    group, *pods = gang_objects(cast(Any, SPACE), "gang-a", facts, slots, settings, "")
    assert (group["apiVersion"], group["spec"]) == ("scheduling.x-k8s.io/v1alpha1", {"minMember": slots.gang})
    assert {pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for pod in pods} == {"gang-a"}
    assert {pod["metadata"]["labels"]["gpufleet.io/gang"] for pod in pods} == {"gang-a"}
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"scheduler-plugins-scheduler"}
    assert not any("schedulingGroup" in pod["spec"] for pod in pods)
