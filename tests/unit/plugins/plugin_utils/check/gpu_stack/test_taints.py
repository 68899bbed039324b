# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taints that test pods tolerate and the operator's DaemonSets do not: taint, DaemonSet and remedy are told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import ClusterState
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import taint_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.workloads import workload_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome, Status
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.nodes import toleration_of

from .conftest import NAMES, changed_node, changed_operand, context, judged, recipe, workload

SKU, ANY = "sku=gpu:NoSchedule", ({"operator": "Exists"},)
DEFAULT = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)
PLUGIN = "nvidia-device-plugin-daemonset"


def _placed(view: ClusterState, tolerations: tuple[dict[str, str], ...] | None, **more: Any) -> ClusterState:
    for operand in view.operands or ():
        changed = {"tolerations": tolerations, "misplaced": 0, **more}
        view = changed_operand(view, operand.workload.app, **changed)
    return view


def _closed(view: ClusterState, *names: str, taint: str = SKU, **more: Any) -> ClusterState:
    """The cluster in which the operator's default tolerations leave nothing of it on tainted nodes."""
    for name in names:
        view = changed_node(view, name, taints=(taint,), allocatable={}, **more)
    return _placed(view, DEFAULT, desired=4 - len(names), ready=4 - len(names))


def _told(view: ClusterState, **more: Any) -> list[Outcome]:
    return [outcome for outcome in judged(view, context(**more)) if outcome.status is not Status.PASSED]


def test_the_taint_and_the_daemonsets_that_do_not_tolerate_it_are_named(view: ClusterState) -> None:
    (told,) = _told(_closed(view, "gpu02"))
    assert (told.check, told.status, told.cause) == ("gpu-allocatable", Status.FAILED, "taint-not-tolerated")
    assert [subject.name for subject in told.subjects] == ["gpu02"]
    assert SKU in told.summary and PLUGIN in told.summary and "nvidia-driver-daemonset" in told.summary
    # What is to be stated keeps what the operator tolerates already.
    stated = yaml.safe_load(told.hint.partition("gpufleet_overrides: ")[2].partition(", then")[0])
    wanted = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
    assert stated == {"gpu-operator": {"daemonsets": {"tolerations": [*DEFAULT, wanted]}}}
    assert f"kubectl taint node gpu02 {SKU}-" in told.hint
    assert any("nvidia.com/gpu" in entry.excerpt for entry in told.evidence)


def test_a_taint_on_all_nodes_is_told_once_and_the_policy_that_calls_itself_ready_is_not_believed(
    view: ClusterState,
) -> None:
    told = {outcome.check: outcome for outcome in _told(_closed(view, *NAMES))}
    assert set(told) == {"gpu-allocatable", "cluster-policy-ready"}
    assert told["gpu-allocatable"].cause == "taint-not-tolerated"
    assert [subject.name for subject in told["gpu-allocatable"].subjects] == list(NAMES)
    assert (told["cluster-policy-ready"].status, told["cluster-policy-ready"].blocked_by) == (
        Status.OTHER,
        "gpu-allocatable",
    )


def test_an_operand_that_is_wanted_nowhere_without_such_a_taint_stays_its_own_cause(view: ClusterState) -> None:
    nowhere = _placed(view, DEFAULT, desired=0, ready=0)
    assert {o.cause for o in _told(nowhere) if o.status is Status.FAILED} == {"operand-not-ready"}


@pytest.mark.parametrize("tolerations", [ANY, ({"key": "sku", "operator": "Equal", "value": "gpu"},)])
def test_where_the_operator_tolerates_the_taint_it_is_no_cause(
    view: ClusterState, tolerations: tuple[dict[str, str], ...]
) -> None:
    tainted = _placed(changed_node(view, "gpu02", taints=(SKU,)), tolerations)
    assert _told(tainted) == []
    (told,) = _told(changed_node(tainted, "gpu02", allocatable={}))
    assert told.cause == "gpu-not-advertised"


@pytest.mark.parametrize("change", [{"misplaced": 1}, {"misplaced": None}, {"tolerations": None}])
def test_where_a_pod_may_run_there_all_the_same_the_taint_is_not_blamed(
    view: ClusterState, change: dict[str, Any]
) -> None:
    """A pod that came before the taint stays; an earlier release recorded neither."""
    changed = {"misplaced": 0, "tolerations": DEFAULT, **change}
    (told,) = _told(_placed(_closed(view, "gpu02"), changed.pop("tolerations"), **changed))
    assert told.cause == "gpu-not-advertised"


def test_taints_that_say_how_a_node_is_are_not_blamed(view: ClusterState) -> None:
    full = _closed(view, "gpu02", taint="node.kubernetes.io/disk-pressure:NoSchedule")
    assert "taint-not-tolerated" not in {outcome.cause for outcome in _told(full)}


def test_discovery_that_is_kept_away_counts_until_the_operator_knows_the_node(view: ClusterState) -> None:
    nfd = workload("nfd-worker", "nfd/nfd", "DaemonSet", 3, app="node-feature-discovery", tolerations=(), misplaced=0)
    with_nfd = replace(view, workloads=(*(view.workloads or ()), nfd))
    (told,) = _told(_closed(with_nfd, "gpu02"))
    assert "nfd-worker" in told.summary and "nfd: {worker: {tolerations: [" in told.hint
    (told,) = _told(_closed(with_nfd, "gpu02", labels={"nvidia.com/gpu.present": "true"}))
    assert "nfd" not in told.summary and "nfd" not in told.hint


def test_a_dra_driver_that_is_kept_away_is_told_for_its_slices(view: ClusterState) -> None:
    plugin = workload("dra-kubelet-plugin", "dra/dra", "DaemonSet", 3, app="nvidia-dra-driver-gpu",
                      tolerations=DEFAULT, misplaced=0)  # fmt: skip
    tainted = _placed(changed_node(view, "gpu02", taints=(SKU,)), ANY)
    slices = tuple(entry for entry in view.slices or () if entry.node != "gpu02")
    given = replace(tainted, workloads=(*(view.workloads or ()), plugin), slices=slices)
    (told,) = _told(given, recipe=recipe())
    assert (told.check, told.cause) == ("dra-slices", "taint-not-tolerated")
    assert "nvidia-dra-driver-gpu: {kubeletPlugin: {tolerations: [" in told.hint
    (told,) = _told(replace(given, workloads=(*(view.workloads or ()), replace(plugin, tolerations=ANY))))
    assert told.cause == "dra-slices-missing"


@pytest.mark.parametrize(
    ("toleration", "taint", "covered"),
    [
        ({"operator": "Exists"}, SKU, True),
        ({"key": "sku", "operator": "Exists"}, "sku=other:NoExecute", True),
        ({"key": "sku", "value": "gpu"}, SKU, True),
        ({"key": "sku", "value": "cpu"}, SKU, False),
        ({"key": "sku"}, "sku:NoSchedule", True),
        ({"key": "sku"}, SKU, False),
        ({"key": "sku", "operator": "Exists", "effect": "NoExecute"}, SKU, False),
        ({"key": "load", "operator": "Lt", "value": "5"}, "load=3:NoSchedule", True),
    ],
)
def test_tolerations_mean_what_kubernetes_says(toleration: dict[str, str], taint: str, covered: bool) -> None:
    assert toleration_of(toleration).covers(taint_of(taint)) is covered


def test_what_a_daemonset_tolerates_and_has_misplaced_is_read(view: ClusterState) -> None:
    template = {"spec": {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]}}
    obj = {
        "metadata": {"name": "n", "namespace": "s", "generation": 1},
        "spec": {"template": template},
        "status": {"observedGeneration": 1, "numberMisscheduled": 2},
    }
    seen = workload_of("DaemonSet", obj, [], datetime.now(UTC), 0)
    assert (seen.tolerations, seen.misplaced) == (({"key": "a", "operator": "Exists"},), 2)
    assert workload_of("Deployment", {**obj, "status": {}}, [], datetime.now(UTC), 0).tolerations is None
